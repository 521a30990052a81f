"""Holds: for a while nothing that may call a model is claimed for a profile.

A provider that is out, a key that was refused or a limit that is reached concerns every row of the LLM-bound kinds. The
row that met it says so; the others stay ready and unwritten, and one is tried again when the hold ends. (openhuman
3616: 12,016 payment errors in a day; every row had asked for itself.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.queue.recovery import CLOCK_SLACK_MS
from agent.queue.wake import wake_workers
from agent.states import Hold

if TYPE_CHECKING:
    from agent.db import Connection

_COLUMNS = "scope, code, reason, until_ms, failures, openings"


STRANDED_MS = 60_000
"""A row that is due sooner need not be brought forward."""
_STRANDED = """
SELECT id
  FROM (SELECT job.id, job.failure_scope, job.failure_reason, job.failure_class
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 2 AND job.at_ms > ?
         LIMIT 10000) AS put_off
 WHERE failure_scope IS NOT NULL
   AND failure_reason IS NOT NULL
   AND failure_class IS NULL
   AND NOT EXISTS (SELECT 1 FROM mem_tree_holds AS hold WHERE hold.scope = failure_scope AND hold.openings > 0)
"""


@dataclass(frozen=True)
class HoldRow:
    """One profile's hold. ``failures`` calls failed in a row; it was opened ``openings`` times in a row.

    It is over once ``until_ms`` (UTC ms) is past; the row stays until a call succeeds, for the count.
    """

    scope: str
    code: Hold
    reason: str
    until_ms: int
    failures: int = 0
    openings: int = 0

    def is_on(self, now_ms: int) -> bool:
        """Return whether nothing is to be claimed at this moment."""
        return now_ms < self.until_ms


def read_hold(connection: Connection, scope: str) -> HoldRow | None:
    """Return the hold of a profile, over or not. Reads one row."""
    row = connection.one(f"SELECT {_COLUMNS} FROM mem_tree_holds WHERE scope = ?", (scope,))
    return None if row is None else _row(row)


def all_holds(connection: Connection) -> list[HoldRow]:
    """Return the holds of all profiles, over or not."""
    return [_row(row) for row in connection.all(f"SELECT {_COLUMNS} FROM mem_tree_holds ORDER BY scope")]


def put_hold_tx(connection: Connection, hold: HoldRow, now_ms: int) -> None:
    """Write a hold inside the caller's transaction, in the place of the profile's one."""
    connection.run(
        """
        INSERT INTO mem_tree_holds (scope, code, reason, until_ms, failures, openings, changed_at_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (scope) DO UPDATE
           SET code = excluded.code, reason = excluded.reason, until_ms = excluded.until_ms,
               failures = excluded.failures, openings = excluded.openings, changed_at_ms = excluded.changed_at_ms
        """,
        (hold.scope, str(hold.code), hold.reason, hold.until_ms, hold.failures, hold.openings, now_ms),
    )


def lift_hold_tx(connection: Connection, scope: str) -> bool:
    """Remove a profile's hold inside the caller's transaction; return whether there was one."""
    return bool(connection.run("DELETE FROM mem_tree_holds WHERE scope = ?", (scope,)))


def mend_hold_clock(connection: Connection, now_ms: int) -> int:
    """Let holds that were written in the future, before a clock was set back, last as long from now; return how many.

    Reads first. A hold of half a minute would last as long as the clock went back otherwise.
    """
    latest = now_ms + CLOCK_SLACK_MS
    if connection.value("SELECT 1 FROM mem_tree_holds WHERE changed_at_ms > ? LIMIT 1", (latest,)) is None:
        return 0
    with connection.write():
        return connection.run(
            """
            UPDATE mem_tree_holds
               SET until_ms = ?1 + max(until_ms - changed_at_ms, 0),
                   changed_at_ms = ?1
             WHERE changed_at_ms > ?2
            """,
            (now_ms, latest),
        )


def bring_forward(connection: Connection, scope: str, now_ms: int) -> int:
    """Make ready rows that were put off for a profile's sake due now, and return how many."""
    with connection.write():
        moved = connection.run(
            """
            UPDATE mem_tree_jobs
               SET available_at_ms = ?1
             WHERE id IN (SELECT job.id
                            FROM mem_tree_job_kinds AS kinds
                           CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 2 AND job.at_ms > ?1
                           WHERE job.failure_scope = ?2)
            """,
            (now_ms, scope),
        )
    if moved:
        wake_workers(connection)
    return moved


def bring_stranded_forward(connection: Connection, now_ms: int) -> int:
    """Make rows due that were put off for a hold which is not there any more, and return how many. Reads first.

    Such a row settled after its hold was lifted, or its profile's hold went with it. One that failed keeps its rest.
    """
    stranded = [job_id for (job_id,) in connection.all(_STRANDED, (now_ms + STRANDED_MS,))]
    if not stranded:
        return 0
    with connection.write():
        moved = sum(
            connection.run(
                "UPDATE mem_tree_jobs SET available_at_ms = ? WHERE id = ? AND status = 'ready'", (now_ms, job_id)
            )
            for job_id in stranded
        )
    wake_workers(connection)
    return moved


def _row(row: tuple[object, ...]) -> HoldRow:
    scope, code, reason, until_ms, failures, openings = row
    return HoldRow(str(scope), Hold(str(code)), str(reason), int(str(until_ms)), int(str(failures)), int(str(openings)))
