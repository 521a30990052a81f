"""Deleting everything that the memory holds of one source, in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.actions.erasing import Erased
from agent.db.nodes import remove_results, remove_stray_results
from agent.db.state import set_state
from agent.db.text_index import many_removed, remove_text
from agent.ids import tree_id
from agent.states import TreeKind

if TYPE_CHECKING:
    from agent.db import Connection

PAGE = 1_000

# The words of an index row are handed in again to take it out, so each is read; everything else goes in bulk.
_CHUNKS = """
SELECT c.seq, c.title, c.heading_path, c.text
  FROM mem_tree_chunks AS c
 WHERE c.source_id = ?1 AND c.seq > ?2
 ORDER BY c.seq
 LIMIT ?3
"""
_SUMMARIES = """
SELECT -seq, title, NULL, text
  FROM mem_tree_summaries
 WHERE source_id = ?1 AND -seq > ?2
 ORDER BY -seq
 LIMIT ?3
"""
_FIRST = -(2**62)


def remove_source_tx(connection: Connection, source_id: str) -> tuple[Erased, int]:
    """Delete all rows of a source inside the caller's transaction; return what went, and how many items.

    Jobs of its that run lose their lease with their row. No other source's tree has anything of it.
    """
    _remove_jobs(connection, source_id)
    nodes = int(
        connection.value(
            """
            SELECT (SELECT count(*) FROM mem_tree_chunks WHERE source_id = ?1)
                   + (SELECT count(*) FROM mem_tree_summaries WHERE source_id = ?1)
            """,
            (source_id,),
        )
    )
    with many_removed(connection, nodes):
        # In rising order of their numbers in the index: summaries have the negative ones.
        summaries = _remove_texts(connection, source_id, _SUMMARIES)
        chunks = _remove_texts(connection, source_id, _CHUNKS)
    for held in (
        "SELECT chunk_id FROM mem_tree_chunks WHERE source_id = ?",
        "SELECT summary_id FROM mem_tree_summaries WHERE source_id = ?",
    ):
        remove_results(connection, [node_id for (node_id,) in connection.all(held, (source_id,))])
    remove_stray_results(connection)
    items = int(connection.value("SELECT count(*) FROM mem_tree_items WHERE source_id = ?", (source_id,)))
    for table in ("chunks", "summaries", "trees", "items", "files", "questions", "sources"):
        connection.run(f"DELETE FROM mem_tree_{table} WHERE source_id = ?", (source_id,))
    for name in ("sync_cursor", "sync_took", "wary", "asked"):
        set_state(connection, f"{name}:{source_id}", None)
    return Erased(chunks, summaries), items


def _remove_texts(connection: Connection, source_id: str, select: str) -> int:
    count, after = 0, _FIRST
    while rows := connection.all(select, (source_id, after, PAGE)):
        for node, title, heading_path, text in rows:
            remove_text(connection, node, title, heading_path, text)
        connection.many(
            """
            DELETE FROM mem_tree_vectors
             WHERE node = ? AND signature_id IN (SELECT signature_id FROM mem_tree_signatures)
            """,
            [(row[0],) for row in rows],
        )
        count, after = count + len(rows), rows[-1][0]
    return count


def _remove_jobs(connection: Connection, source_id: str) -> None:
    """Delete the rows of the queue that name the source or something of it, in every status."""
    exact = (f"sync:{source_id}",)
    begins = (
        f"ingest:{source_id}:",
        f"seal_doc:{source_id}/",
        f"append:source:{source_id}:",
        f"seal:{tree_id(TreeKind.SOURCE, source_id)}:",
        f"seal:document:{source_id}:",
    )
    for key in exact:
        connection.run("DELETE FROM mem_tree_jobs WHERE dedupe_key = ?", (key,))
    for begin in begins:
        # The last character is a colon or a slash: what follows it in order ends the range.
        end = begin[:-1] + chr(ord(begin[-1]) + 1)
        connection.run("DELETE FROM mem_tree_jobs WHERE dedupe_key >= ? AND dedupe_key < ?", (begin, end))
    connection.run(
        """
        DELETE FROM mem_tree_jobs
         WHERE dedupe_key IN (SELECT 'extract:' || chunk_id FROM mem_tree_chunks WHERE source_id = ?)
        """,
        (source_id,),
    )
