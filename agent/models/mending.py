"""What ends a hold, and brings back what it had parked: a key that was set, another profile, a limit that was raised.

For the supervisor's tick, which is given ``tend`` by its dotted name, and for the commands that mend a cause. Nothing
here asks a server: where only trying tells whether a cause is mended, one parked row is tried. (openhuman 3091: 165
jobs failed when the credit ran out, and nothing brought them back.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.db.nodes import prune_results
from agent.db.state import REGROWING_KEY, get_state, set_state
from agent.ids import content_hash
from agent.models.breaker import MENDED_BY_CHAT
from agent.models.results import prune_tries
from agent.models.spending import reconcile
from agent.profile_intent import BUILTIN
from agent.queue.holds import (
    HoldRow,
    all_holds,
    bring_forward,
    bring_stranded_forward,
    lift_hold_tx,
    mend_hold_clock,
    read_hold,
)
from agent.queue.requeue import requeue_failed
from agent.queue.wake import wake_workers
from agent.states import Hold, JobKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent

DAY_MS = 24 * 3_600_000
TRY_EVERY_MS = 15 * 60_000
"""So often a parked row is tried where no hold says when."""
RESULTS_A_TICK = 1_000
PROFILE_KEY = "tended_profile"
"""A hash of the active profile as it was when rows were parked or held for it."""

_tried_ms: dict[str, int] = {}
"""By the memory's path and the profile: when this process tried one last (UTC ms)."""


def mend(connection: Connection, now_ms: int, *, scopes: Collection[str], codes: Sequence[str] | None = None) -> int:
    """Bring back what these profiles' causes had parked or put off, and return how many jobs that are.

    ``codes`` are the causes that were mended (``states.Hold``), ``None`` for all: only a hold with one of them is
    lifted, only rows that failed for one of them are requeued. Wakes the workers.
    """
    count = 0
    for scope in scopes:
        hold = read_hold(connection, scope)
        if hold is not None and (codes is None or hold.code in codes):
            _lift(connection, scope)
        count += requeue_failed(connection, now_ms, scopes=[scope], reasons=codes)
        count += bring_forward(connection, scope, now_ms)
    if scopes:
        wake_workers(connection)
    return count


def tend(paths: Paths, connection: Connection, intent: Intent, now_ms: int, at_start: bool) -> None:
    """Do what a tick owes to the models' side of the memory. Reads first: where nothing is to do, nothing is written.

    ``at_start``: no worker runs yet, so what was spent is compared with the lines beside the ledger. Raises
    ``OSError`` where these cannot be read.
    """
    mend_hold_clock(connection, now_ms)
    bring_stranded_forward(connection, now_ms)
    _tend_holds(connection, intent, now_ms, str(paths.database))
    _tidy_results(connection, intent, now_ms)
    prune_tries(connection, now_ms)
    if at_start:
        reconcile(connection, paths)


def _tend_holds(connection: Connection, intent: Intent, now_ms: int, key: str) -> None:
    active = intent.models.active
    profile = intent.active_profile
    parked = _parked(connection)
    holds = {hold.scope: hold for hold in all_holds(connection)}
    if not parked and not holds:
        return
    if profile is None and active != BUILTIN:
        return  # a name that no profile has: its owner is about to mend that
    for scope in sorted({*parked, *holds} - {active}):
        # Another profile does what this one could not.
        mend(connection, now_ms, scopes=[scope])
    if profile is None:
        return
    if _has_changed(connection, intent, profile):
        mend(connection, now_ms, scopes=[active])
        return
    hold = holds.get(active)
    if hold is not None and hold.openings and _is_mended(connection, intent, profile, hold, now_ms):
        mend(connection, now_ms, scopes=[active], codes=[str(hold.code)])
        hold = None
    if active in parked and not (hold is not None and hold.openings and hold.is_on(now_ms)):
        _try_one(connection, profile, hold, now_ms, f"{key}:{active}")


def _parked(connection: Connection) -> set[str]:
    rows = connection.all(
        """
        SELECT DISTINCT job.failure_scope
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 3
         WHERE job.failure_scope IS NOT NULL
        """
    )
    return {scope for (scope,) in rows}


def _has_changed(connection: Connection, intent: Intent, profile: ProfileIntent) -> bool:
    """Return whether the profile is another than when rows of it were parked, in what a call of it depends on.

    What it is now is remembered. Limits and consent have rules of their own; prices concern no call.
    """
    told = replace(profile, consent="", daily_tokens=None, price_in=None, price_out=None)
    now = content_hash(f"{told!r} {sorted(intent.models.local_hosts)}")
    before = get_state(connection, PROFILE_KEY)
    if now == before:
        return False
    with connection.write():
        set_state(connection, PROFILE_KEY, now)
    return before is not None


def _is_mended(connection: Connection, intent: Intent, profile: ProfileIntent, hold: HoldRow, now_ms: int) -> bool:
    """Return whether the intent alone says that a hold has no reason any more."""
    if hold.code is Hold.NO_CONSENT:
        return intent.is_local(profile) or profile.has_consent()
    if hold.code is Hold.DAILY_LIMIT:
        from agent.models.budget import day_of, tokens_on, zone_of

        if profile.daily_tokens is None:
            return True
        # The reason names the limit that was reached: the same one is not tried again before its day is over.
        if f" {profile.daily_tokens:,} tokens" in hold.reason:
            return False
        day = day_of(now_ms, zone_of(intent.schedule.timezone))
        return tokens_on(connection, profile.name, day) < profile.daily_tokens
    return hold.code is Hold.CONFIG_BROKEN


def _try_one(connection: Connection, profile: ProfileIntent, hold: HoldRow | None, now_ms: int, key: str) -> None:
    """Requeue the newest parked row of a profile, unless there is another one to try."""
    if hold is None or not hold.openings:
        if 0 <= now_ms - _tried_ms.get(key, 0) < TRY_EVERY_MS:
            return
        _tried_ms[key] = now_ms
    kinds = [str(kind) for kind in JobKind if kind.is_llm_bound() and profile.calls_model_for(str(kind))]
    marks = ", ".join("?" * len(kinds))
    waiting = connection.value(
        f"SELECT 1 FROM mem_tree_jobs WHERE kind IN ({marks}) AND (phase = 1 OR phase = 2 AND at_ms <= ?) LIMIT 1",
        (*kinds, now_ms + 60_000),
    )
    if waiting is None:
        requeue_failed(connection, now_ms, scopes=[profile.name], reasons=MENDED_BY_CHAT, limit=1)


def _lift(connection: Connection, scope: str) -> None:
    with connection.write():
        lift_hold_tx(connection, scope)


# -- answers that a rebuild kept --------------------------------------------------------------------------------------


def _tidy_results(connection: Connection, intent: Intent, now_ms: int) -> None:
    """Take out answers whose nodes did not grow again, a day after a rebuild at the earliest and when all has grown."""
    since = get_state(connection, REGROWING_KEY)
    if since is None or now_ms - int(since) < DAY_MS or not _has_grown(connection, intent, int(since)):
        return
    if not prune_results(connection, RESULTS_A_TICK):
        with connection.write():
            set_state(connection, REGROWING_KEY, None)


def _has_grown(connection: Connection, intent: Intent, since_ms: int) -> bool:
    looked: dict[str, int | None] = dict(connection.all("SELECT source_id, last_sync_ms FROM mem_tree_sources"))
    if any((looked.get(source.id) or 0) < since_ms for source in intent.sources):
        return False
    waits = connection.value(
        """
        SELECT EXISTS (SELECT 1 FROM mem_tree_items WHERE state IN ('found', 'queued'))
            OR EXISTS (SELECT 1 FROM mem_tree_chunks WHERE lifecycle = 'pending_extraction')
            OR EXISTS (SELECT 1 FROM mem_tree_chunks WHERE lifecycle = 'admitted')
            OR EXISTS (SELECT 1 FROM mem_tree_jobs
                        WHERE kind IN ('extract_chunk', 'append_buffer', 'seal', 'seal_document', 'ingest_file')
                          AND phase IN (1, 2, 3))
        """
    )
    return not waits
