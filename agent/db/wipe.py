"""Emptying a memory in place, whole or its summaries only: what was derived goes, what its owner said stays.

The row numbers of chunks, summaries and jobs go on counting and signatures keep theirs, so nothing that another process
remembers of a row is ever true of another one. Jobs in flight lose their rows, and with them their leases: nothing of
what they were about to store is applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.state import DAMAGE_KEY, LEDGER_KEY, PAUSE_KEY
from agent.db.text_index import many_removed, remove_text

if TYPE_CHECKING:
    from agent.db.connection import Connection

_IN_ORDER = (
    "DELETE FROM mem_tree_jobs",
    "DELETE FROM mem_tree_vectors",
    "DELETE FROM mem_tree_edges",
    "DELETE FROM mem_tree_buffers",
    "DELETE FROM mem_tree_summaries",
    "DELETE FROM mem_tree_trees",
    "DELETE FROM mem_tree_entity_index",
    "DELETE FROM mem_tree_score",
    "DELETE FROM mem_tree_chunks",
    "DELETE FROM mem_tree_items",
    "DELETE FROM mem_tree_files",
    "DELETE FROM mem_tree_questions",
    "DELETE FROM mem_tree_sources",
)
KEPT_TABLES = frozenset(
    {
        *("mem_tree_state", "mem_tree_signatures", "mem_tree_workers", "mem_tree_text"),
        *("mem_tree_results", "mem_tree_result_inputs", "mem_tree_attempts", "mem_tree_usage", "mem_tree_holds"),
    }
)
"""Workers are alive; the full text is emptied by its own command. Answers of models are paid for: what grows again asks
the same and finds them. What they cost, and that a provider is out, is as true as before.
"""

_TREE_KINDS = ("append_buffer", "seal", "seal_document", "flush_stale")


@dataclass(frozen=True)
class Wiped:
    """What went."""

    chunks: int
    summaries: int


def wipe(connection: Connection) -> Wiped:
    """Delete all that was derived, inside the caller's transaction, and return what that was.

    Pause, the notice of a damage and how much of the ledger was applied stay, and what models answered; marks and
    cursors of sweeps go, they speak of what is no longer there.
    """
    chunks = int(connection.value("SELECT count(*) FROM mem_tree_chunks"))
    summaries = int(connection.value("SELECT count(*) FROM mem_tree_summaries"))
    for statement in _IN_ORDER:
        connection.run(statement)
    connection.run("INSERT INTO mem_tree_text (mem_tree_text) VALUES ('delete-all')")
    kept = (PAUSE_KEY, DAMAGE_KEY, LEDGER_KEY)
    connection.run("DELETE FROM mem_tree_state WHERE key NOT IN (?, ?, ?)", kept)
    return Wiped(chunks, summaries)


def wipe_summaries(connection: Connection) -> Wiped:
    """Delete all trees with their summaries, inside the caller's transaction, and return how many summaries went.

    Every chunk that stands in a tree is admitted again, every document not grown: the sweeps find them.
    """
    count = int(connection.value("SELECT count(*) FROM mem_tree_summaries"))
    connection.run(
        """
        DELETE FROM mem_tree_jobs
         WHERE kind IN (?, ?, ?, ?)
        """,
        _TREE_KINDS,
    )
    connection.run(
        """
        DELETE FROM mem_tree_vectors
         WHERE node < 0
        """
    )
    with many_removed(connection, count):
        _remove_texts(connection)
    connection.run("DELETE FROM mem_tree_edges")
    connection.run("DELETE FROM mem_tree_buffers")
    connection.run("DELETE FROM mem_tree_summaries")
    connection.run("DELETE FROM mem_tree_trees")
    connection.run("UPDATE mem_tree_chunks SET lifecycle = 'admitted' WHERE lifecycle IN ('buffered', 'sealed')")
    connection.run("UPDATE mem_tree_items SET grown_hash = NULL WHERE grown_hash IS NOT NULL")
    return Wiped(0, count)


def _remove_texts(connection: Connection) -> None:
    # A summary's node is its number below zero, so the last one comes first.
    last = int(connection.value("SELECT coalesce(max(seq), 0) + 1 FROM mem_tree_summaries"))
    while rows := connection.all(
        "SELECT seq, title, text FROM mem_tree_summaries WHERE seq < ? ORDER BY seq DESC LIMIT 500", (last,)
    ):
        for seq, title, text in rows:
            remove_text(connection, -seq, title, None, text)
        last = rows[-1][0]
