"""Taking nodes out of the memory: every table that knows them, in one place.

A node that goes marks the summary above it stale; the tree's seal then makes that summary again or dissolves it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from agent.db.text_index import many_removed, remove_text

if TYPE_CHECKING:
    from agent.db.connection import Connection

# The primary key begins with the signature, of which there are few.
_DELETE_VECTORS = """
DELETE FROM mem_tree_vectors
 WHERE node = ?
   AND signature_id IN (SELECT signature_id FROM mem_tree_signatures)
"""


def remove_vectors(connection: Connection, node: int) -> None:
    """Delete the vectors of a chunk's number, or of minus a summary's, inside the caller's transaction."""
    connection.run(_DELETE_VECTORS, (node,))


# An answer about several nodes (a summary) goes with any of them. The hash names the input and nothing else, so
# whatever was ever answered to it goes, whoever was asked.
_DELETE_RESULTS = """
DELETE FROM mem_tree_results
 WHERE input_hash IN (SELECT input_hash FROM mem_tree_result_inputs WHERE node_id = ?)
"""
_DELETE_INPUTS = """
DELETE FROM mem_tree_result_inputs
 WHERE input_hash IN (SELECT input_hash FROM mem_tree_result_inputs WHERE node_id = ?)
"""
_OF_NO_NODE = """
SELECT i.input_hash
  FROM mem_tree_result_inputs AS i
 WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE chunk_id = i.node_id)
   AND NOT EXISTS (SELECT 1 FROM mem_tree_summaries WHERE summary_id = i.node_id)
"""


def remove_results(connection: Connection, node_ids: Collection[str]) -> None:
    """Delete all stored answers of models that were made from any of these nodes, inside the caller's transaction."""
    nodes = [(node_id,) for node_id in node_ids]
    connection.many(_DELETE_RESULTS, nodes)
    connection.many(_DELETE_INPUTS, nodes)


def rename_in_results(connection: Connection, old_id: str, new_id: str) -> None:
    """Let stored answers say a node's new name, inside the caller's transaction."""
    connection.run("UPDATE mem_tree_results SET node_id = ? WHERE node_id = ?", (new_id, old_id))
    connection.run("UPDATE OR REPLACE mem_tree_result_inputs SET node_id = ? WHERE node_id = ?", (new_id, old_id))


def remove_stray_results(connection: Connection) -> int:
    """Delete all stored answers that were made from a node that is nowhere, and return how many.

    Inside the caller's transaction; for forgetting. A memory that was emptied to be grown again keeps them otherwise.
    """
    removed = connection.run(f"DELETE FROM mem_tree_results WHERE input_hash IN ({_OF_NO_NODE})")
    connection.run(f"DELETE FROM mem_tree_result_inputs WHERE input_hash IN ({_OF_NO_NODE})")
    removed += connection.run(
        "DELETE FROM mem_tree_results WHERE input_hash NOT IN (SELECT input_hash FROM mem_tree_result_inputs)"
    )
    return removed


def prune_results(connection: Connection, limit: int) -> int:
    """Delete stored answers that were made from a node that is nowhere, to ``limit`` inputs; return how many went.

    For quiet moments, when what was emptied has grown again. Looks first, and writes nothing where there is nothing.
    """
    found = connection.all(f"SELECT DISTINCT input_hash FROM ({_OF_NO_NODE}) LIMIT ?", (limit,))
    if found:
        with connection.write():
            connection.many("DELETE FROM mem_tree_results WHERE input_hash = ?", found)
            connection.many("DELETE FROM mem_tree_result_inputs WHERE input_hash = ?", found)
    return len(found)


def remove_chunk(connection: Connection, chunk_id: str) -> bool:
    """Delete a chunk with its index row, vectors, score, entities, results and places in trees.

    Runs inside the caller's transaction; returns whether it was there.
    """
    row = connection.one("SELECT seq, title, heading_path, text FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,))
    if row is None:
        return False
    seq, title, heading_path, text = row
    remove_text(connection, seq, title, heading_path, text)
    remove_vectors(connection, seq)
    remove_results(connection, (chunk_id,))
    detach_node(connection, chunk_id)
    # Scores and entities go with the chunk by foreign key.
    connection.run("DELETE FROM mem_tree_chunks WHERE seq = ?", (seq,))
    return True


def remove_summary(connection: Connection, summary_id: str) -> bool:
    """Delete a summary with its index row, vectors and results, and take it out of the level it stood on.

    Its children's edges are the caller's to move. Runs inside the caller's transaction; returns whether it was there.
    """
    if not clear_summary(connection, summary_id):
        return False
    detach_node(connection, summary_id)
    return True


def clear_summary(connection: Connection, summary_id: str) -> bool:
    """Delete a summary's row with its words, vectors and results; its places in trees stay for the row after it.

    A text that is made again gets a new number with it, so that nothing made from the old text is stored for the new
    one. Runs inside the caller's transaction; returns whether it was there.
    """
    row = connection.one("SELECT seq, title, text FROM mem_tree_summaries WHERE summary_id = ?", (summary_id,))
    if row is None:
        return False
    seq, title, text = row
    remove_text(connection, -seq, title, None, text)
    remove_vectors(connection, -seq)
    remove_results(connection, (summary_id,))
    connection.run("DELETE FROM mem_tree_summaries WHERE seq = ?", (seq,))
    return True


def remove_nodes(
    connection: Connection, chunk_ids: Collection[str], summary_ids: Collection[str] = ()
) -> tuple[int, int]:
    """Delete many chunks and summaries as ``remove_chunk`` and ``remove_summary`` do; return how many of each.

    All words go first, in the order of the index: it writes what it holds back wherever the order goes back, and at
    each statement that may be undone by itself.
    """
    chunks = _numbers(connection, chunk_ids, "SELECT seq FROM mem_tree_chunks WHERE chunk_id = ?", 1)
    summaries = _numbers(connection, summary_ids, "SELECT seq FROM mem_tree_summaries WHERE summary_id = ?", -1)
    nodes = {**summaries, **chunks}
    with many_removed(connection, len(nodes)):
        for node in sorted(nodes):
            row = connection.one(_SUMMARY_TEXT if node < 0 else _CHUNK_TEXT, (abs(node),))
            if row is not None:
                remove_text(connection, node, *row)
    connection.many(_DELETE_VECTORS, [(node,) for node in nodes])
    remove_results(connection, list(nodes.values()))
    for node_id in nodes.values():
        detach_node(connection, node_id)
    # Scores and entities go with the chunks by foreign key.
    connection.many("DELETE FROM mem_tree_chunks WHERE seq = ?", [(node,) for node in chunks])
    connection.many("DELETE FROM mem_tree_summaries WHERE seq = ?", [(-node,) for node in summaries])
    return len(chunks), len(summaries)


_CHUNK_TEXT = "SELECT title, heading_path, text FROM mem_tree_chunks WHERE seq = ?"
_SUMMARY_TEXT = "SELECT title, NULL, text FROM mem_tree_summaries WHERE seq = ?"


def _numbers(connection: Connection, node_ids: Collection[str], select: str, sign: int) -> dict[int, str]:
    """Return the ids of nodes by their number in the text index; those that are not there are left out."""
    found: dict[int, str] = {}
    for node_id in node_ids:
        seq = connection.value(select, (node_id,))
        if seq is not None:
            found[sign * seq] = node_id
    return found


def detach_node(connection: Connection, node_id: str, tree_seq: int | None = None) -> None:
    """Take a node out of every level of every tree (or of one) and mark the summaries above it stale.

    A node that stood alone in its group has no summary above it; there its neighbour before it is marked, whose group
    may end elsewhere now that another node follows. A tree whose root it was has none until its next seal.
    """
    # The plus keeps SQLite from walking all roots, of which there is one for each document, instead of the node's rows.
    connection.run(
        """
        UPDATE mem_tree_trees SET root_id = NULL, root_kind = NULL
         WHERE tree_seq IN (
           SELECT tree_seq FROM mem_tree_edges WHERE node_id = ?1 AND +parent_id = '' AND (?2 IS NULL OR tree_seq = ?2)
         )
        """,
        (node_id, tree_seq),
    )
    for alone_in, level, sort_key in connection.all(
        """
        SELECT tree_seq, level, sort_key
          FROM mem_tree_edges
         WHERE node_id = ?1 AND +parent_id = ?1 AND (?2 IS NULL OR tree_seq = ?2)
        """,
        (node_id, tree_seq),
    ):
        connection.run(
            """
            UPDATE mem_tree_summaries SET stale = 1
             WHERE summary_id = (
               SELECT parent_id
                 FROM mem_tree_edges
                WHERE tree_seq = ? AND level = ? AND sort_key < ?
                ORDER BY sort_key DESC
                LIMIT 1
             )
            """,
            (alone_in, level, sort_key),
        )
    mark_above(connection, node_id, tree_seq)
    connection.run(
        "DELETE FROM mem_tree_edges WHERE node_id = ?1 AND (?2 IS NULL OR tree_seq = ?2)", (node_id, tree_seq)
    )
    connection.run(
        "DELETE FROM mem_tree_buffers WHERE node_id = ?1 AND (?2 IS NULL OR tree_seq = ?2)", (node_id, tree_seq)
    )


def mark_above(connection: Connection, node_id: str, tree_seq: int | None = None) -> None:
    """Mark the summaries right above a node stale, in every tree (or in one): it left, or says something else now."""
    connection.run(
        """
        UPDATE mem_tree_summaries SET stale = 1
         WHERE summary_id IN (
           SELECT parent_id
             FROM mem_tree_edges
            WHERE node_id = ?1 AND parent_id NOT IN ('', ?1) AND (?2 IS NULL OR tree_seq = ?2)
         )
        """,
        (node_id, tree_seq),
    )
