"""The housekeeping of a tick: recovery, sweeps, flush, self-heal, pruning, the sources that are due, the WAL.

Every part looks before it writes: a tick with nothing to do writes nothing (``numbers.md``: 0 bytes at idle).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.text_index import merge_pieces
from agent.queue.enqueue import enqueue
from agent.queue.flush import enqueue_flush_stale
from agent.queue.prune import prune, settle_superseded
from agent.queue.recovery import bootstrap, mend_clock, park_unreadable, recover_stale_locks
from agent.queue.requeue import self_heal
from agent.queue.sweep import sweep
from agent.queue.types import NewJob
from agent.states import FailureClass, JobKind, JobStatus
from agent.system.entry import find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.registry import Registry
    from agent.supervisor.result import LedgerHook, MendHook, SupervisorArgs

KeepLedger = Callable[["Connection", int], None]
Mend = Callable[["Connection", "Intent", int, bool], None]
SWEEP_AT_LEAST_EVERY_MS = 10 * 60 * 1000
DAY_MS = 24 * 3_600_000
TIDY_S = 0.1
_log = logging.getLogger("sapwood.supervisor")


@dataclass(frozen=True)
class TickReport:
    """What a tick found to do: rows given back, rows the sweeps enqueued, sources to be looked at."""

    recovered: int = 0
    swept: int = 0
    synced: int = 0

    @property
    def found_work(self) -> bool:
        """Whether anything was enqueued or given back."""
        return bool(self.recovered or self.swept or self.synced)


def ledger_keeper(args: SupervisorArgs) -> KeepLedger | None:
    """Return the hook that takes out what was forgotten, bound to its home; ``None`` where none was given."""
    if args.ledger_hook is None:
        return None
    hook: LedgerHook = find(args.ledger_hook)
    return lambda connection, now_ms: hook(args.paths, connection, now_ms)


def mender(args: SupervisorArgs) -> Mend | None:
    """Return the hook that ends what holds models back, bound to its home; ``None`` where none was given."""
    if args.mend_hook is None:
        return None
    hook: MendHook = find(args.mend_hook)
    return lambda connection, intent, now_ms, at_start: hook(args.paths, connection, intent, now_ms, at_start)


class Housekeeping:
    """The periodic work of one supervisor. ``once``: only what brings the end nearer."""

    def __init__(
        self,
        registry: Registry,
        *,
        once: bool = False,
        keep_ledger: KeepLedger | None = None,
        mend: Mend | None = None,
    ) -> None:
        self._registry = registry
        self._once = once
        self._keep_ledger = keep_ledger
        self._mend = mend
        self._mend_problem = ""
        self._ledger_problem = ""
        self._asked_ms: dict[str, int] = {}
        self._overdue: set[str] = set()
        self._version: int | None = None
        self._swept_ms: int | None = None

    def start(self, connection: Connection, intent: Intent, now_ms: int) -> None:
        """Do what a start owes: retired rows, ended leases, times after a clock was set back, unreadable rows."""
        bootstrap(
            connection,
            now_ms,
            registry=self._registry,
            crash_limit=intent.queue.crash_limit,
            lease_ms=_lease_ms(intent),
        )
        self._apply_ledger(connection, now_ms)
        self._tend_models(connection, intent, now_ms, at_start=True)

    def tick(
        self, connection: Connection, intent: Intent, now_ms: int, *, trust_leases: bool = True, catch_up: bool = True
    ) -> TickReport:
        """Do one tick. ``trust_leases=False`` calls no lease stale, ``catch_up=False`` starts no scheduled work."""
        recovered = 0
        if trust_leases:
            mend_clock(connection, now_ms, lease_ms=_lease_ms(intent))
            recovered = recover_stale_locks(connection, now_ms, crash_limit=intent.queue.crash_limit)
        self._apply_ledger(connection, now_ms)
        self._tend_models(connection, intent, now_ms)
        if not catch_up:
            return TickReport(recovered)
        swept = self._sweep_if_changed(connection, intent, now_ms)
        synced = self._sync_due(connection, intent, now_ms)
        if not self._once:
            if str(JobKind.FLUSH_STALE) in self._registry:
                enqueue_flush_stale(connection, now_ms)
            self_heal(connection, now_ms)
            settle_superseded(connection, now_ms)
            prune(
                connection,
                now_ms,
                keep_ms=round(intent.queue.keep_done_days * DAY_MS),
                keep_rows=intent.queue.keep_done_rows,
            )
        return TickReport(recovered, swept, synced)

    def _apply_ledger(self, connection: Connection, now_ms: int) -> None:
        """Take out what was forgotten and is still there: a crash, a backup that was put back."""
        if self._keep_ledger is None:
            return
        try:
            self._keep_ledger(connection, now_ms)
            self._ledger_problem = ""
        except OSError as error:
            if str(error) != self._ledger_problem:
                _log.error("the ledger of what was forgotten cannot be read: %s", error)
            self._ledger_problem = str(error)

    def _tend_models(self, connection: Connection, intent: Intent, now_ms: int, *, at_start: bool = False) -> None:
        """Let go on what waited for a cause that was mended: consent, a limit, another profile."""
        if self._mend is None:
            return
        try:
            self._mend(connection, intent, now_ms, at_start)
            self._mend_problem = ""
        except OSError as error:
            if str(error) != self._mend_problem:
                _log.error("what models cost cannot be read from beside the ledger: %s", error)
            self._mend_problem = str(error)

    def sweep_now(self, connection: Connection, intent: Intent, now_ms: int) -> int:
        """Run every sweep and return how many rows they enqueued."""
        park_unreadable(connection, self._registry, now_ms)
        found = sum(sweep(connection, self._registry, intent, now_ms).values())
        # Read after our own writes, which do not change it: only what others commit does.
        self._version = connection.value("PRAGMA data_version") if not found else None
        self._swept_ms = now_ms
        return found

    def _sweep_if_changed(self, connection: Connection, intent: Intent, now_ms: int) -> int:
        if self._swept_ms is not None and 0 <= now_ms - self._swept_ms < intent.sweep.interval_s * 1000:
            return 0
        # Between two ticks in which nobody wrote, domain state holds nothing new to find.
        is_same = self._version is not None and connection.value("PRAGMA data_version") == self._version
        is_fresh = self._swept_ms is not None and 0 <= now_ms - self._swept_ms < SWEEP_AT_LEAST_EVERY_MS
        if is_same and is_fresh:
            return 0
        return self.sweep_now(connection, intent, now_ms)

    def _sync_due(self, connection: Connection, intent: Intent, now_ms: int) -> int:
        if str(JobKind.SYNC_SOURCE) not in self._registry or not intent.sources:
            return 0
        rows = connection.all("SELECT source_id, last_sync_ms FROM mem_tree_sources")
        synced_ms: dict[str, int | None] = {row[0]: row[1] for row in rows}
        asked = 0
        for source in intent.sources:
            # The first tick of an agent looks at everything: nobody watched while it was not running. Afterwards a
            # source that cannot be read is asked for once per interval, however its jobs end.
            last = self._asked_ms.get(source.id)
            if last is not None:
                last = max(last, synced_ms.get(source.id) or 0)
                is_overdue = source.id in self._overdue
                if not is_overdue and 0 <= now_ms - last < intent.schedule.sync_seconds * 1000:
                    continue
                # A look that ended its worker three times would do so at every turn: it waits for its owner, or for
                # the next start.
                if _is_parked(connection, NewJob.sync_source(source.id)):
                    continue
            self._asked_ms[source.id] = now_ms
            self._overdue.discard(source.id)
            asked += enqueue(connection, NewJob.sync_source(source.id), now_ms, registry=self._registry) is not None
        return asked

    def ask_source(self, connection: Connection, source_id: str, now_ms: int) -> bool:
        """Ask for a look at one source that has changed; return whether that is a new job.

        One whose look ended its worker again and again waits as in a tick.
        """
        if _is_parked(connection, NewJob.sync_source(source_id)):
            return False
        self._asked_ms[source_id] = now_ms
        return enqueue(connection, NewJob.sync_source(source_id), now_ms, registry=self._registry) is not None

    @property
    def asked_ms(self) -> Mapping[str, int]:
        """When a look at each source was asked for last (UTC ms)."""
        return self._asked_ms

    def look_at_all(self) -> None:
        """Have the next tick that may look at every source once: nobody watched while the machine slept."""
        self._overdue.update(self._asked_ms)

    def ask_all_sources(self) -> None:
        """Have the next tick look at every source, due or not."""
        self._asked_ms.clear()

    def begin_anew(self) -> None:
        """The memory is another one: forget what was learned about the one before."""
        self._asked_ms.clear()
        self._version = self._swept_ms = None

    def next_sync_ms(self, intent: Intent) -> int | None:
        """Return when the next source is due (UTC ms), or ``None`` without sources."""
        moments = [
            self._asked_ms.get(source.id, 0) + round(intent.schedule.sync_seconds * 1000) for source in intent.sources
        ]
        return min(moments, default=None)


def tidy(connection: Connection, database: Path) -> bool:
    """Merge the text index and then shrink the log, for idle moments; return whether all that is done.

    Blocks for a tenth of a second or so, and for ``shrink_wal``. Writes nothing where nothing is to do.
    """
    if not merge_pieces(connection, TIDY_S):
        return False
    shrink_wal(connection, database)
    return True


def shrink_wal(connection: Connection, database: Path) -> bool:
    """Bring the write-ahead log into the database and cut it to nothing, where it holds anything; for idle moments.

    Blocks for the copying and 300 ms for readers. Returns whether it was done.
    """
    size = 0
    with contextlib.suppress(OSError):
        size = os.stat(f"{database}-wal").st_size
    if not size:
        return False
    row = connection.one("PRAGMA wal_checkpoint(TRUNCATE)")
    return row is not None and row[0] == 0


def _is_parked(connection: Connection, job: NewJob) -> bool:
    newest = connection.one(
        "SELECT status, failure_class FROM mem_tree_jobs WHERE dedupe_key = ? ORDER BY id DESC LIMIT 1",
        (job.dedupe_key,),
    )
    return newest == (JobStatus.FAILED, FailureClass.UNRECOVERABLE)


def _lease_ms(intent: Intent) -> int:
    return round(intent.queue.lease_seconds * 1000)
