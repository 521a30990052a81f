"""What in the memory wants its owner, for notifications: a few seeks, asked by the supervisor every ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.actions.asking import asked_about
from agent.actions.held import NEEDS_OWNER, hold_of
from agent.queue.counts import has_due, has_failed, has_open
from agent.supervisor.notices import Seen, Subject

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths


def what_is_needed(paths: Paths, connection: Connection, intent: Intent, now_ms: int) -> Seen:
    """Return what wants its owner and whether the memory is grown. Reads along indexes alone.

    Raises ``OSError`` where the ledger cannot be read.
    """
    is_at_work = has_due(connection, now_ms)
    is_waiting = has_open(connection)
    has_failures = has_failed(connection)
    hold = hold_of(connection, intent, now_ms)
    needs_model = intent.active_problem is not None or (hold is not None and hold.code in NEEDS_OWNER)
    found = {
        # As `status` says it: a model is missed where something waits for one, failures count when all else is done.
        Subject.MODEL: needs_model and (is_waiting or has_failures),
        Subject.FAILED: has_failures and not is_at_work,
        Subject.QUESTION: bool(asked_about(connection, paths, intent)),
    }
    holds_any = connection.one("SELECT 1 FROM mem_tree_chunks LIMIT 1") is not None
    return Seen(
        frozenset(subject for subject, is_on in found.items() if is_on),
        holds_any=holds_any,
        is_grown=holds_any and not is_at_work and not _is_any_unread(connection),
    )


def _is_any_unread(connection: Connection) -> bool:
    """Return whether something found waits to be read, or a passage to be judged."""
    return (
        connection.one("SELECT 1 FROM mem_tree_items WHERE state IN ('found', 'queued') LIMIT 1") is not None
        or connection.one("SELECT 1 FROM mem_tree_chunks WHERE lifecycle = 'pending_extraction' LIMIT 1") is not None
    )
