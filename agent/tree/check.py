"""The invariants of the trees, read from the rows: for tests and for ``doctor``.

Each function yields what is wrong as words, lazily, and holds no more than a group of nodes at a time, so a memory of
any size can be looked at. A tree that still grows is held to what is always so; one that rests must equal its shape.
Call them inside one snapshot where others write; nothing is written but a temporary table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from agent.tree.check_documents import documents_standing
from agent.tree.check_groups import tree_shapes
from agent.tree.check_reach import chunks_reached, lifecycles
from agent.tree.store import ROOT

if TYPE_CHECKING:
    from agent.db import Connection

__all__ = [
    "chunks_reached",
    "documents_standing",
    "lifecycles",
    "mark_open",
    "problems",
    "tree_links",
    "tree_nodes",
    "tree_shapes",
]

_MOST = 1_000
"""How many rows one query names at most: a table in ruins is no reason to list all of it."""


def problems(connection: Connection, limit: int = 100) -> list[str]:
    """Return what is wrong with the trees, at most ``limit`` findings; an empty list: all is well.

    Where there are more, the last one says how many. Reads every row; call it inside a snapshot where others write.
    """
    mark_open(connection)
    found: list[str] = []
    more = 0
    for text in chain(
        tree_links(connection),
        tree_nodes(connection),
        tree_shapes(connection),
        chunks_reached(connection),
        lifecycles(connection),
        documents_standing(connection),
    ):
        if len(found) < limit:
            found.append(text)
        else:
            more += 1
    if more:
        found[-1] = f"and {more + 1} more"
    return found


def mark_open(connection: Connection) -> None:
    """Note the documents that are on their way: their rows are between two versions and are not held to either.

    These are the ones whose held version does not stand in the source's tree, with a chunk that is not decided on or
    not placed, with a summary to be made again, or with a ``seal_document`` that waits or is parked. Of one that is so
    long that it leaves in parts even the links are not whole.
    """
    # Both first: where the items cannot be read, the looks that need these still look at the rest.
    for table in ("doctor_open (item_seq", "doctor_leaving (tree_seq"):
        connection.run(f"CREATE TEMP TABLE IF NOT EXISTS {table} INTEGER PRIMARY KEY)")
    connection.run("DELETE FROM temp.doctor_open")
    connection.run("DELETE FROM temp.doctor_leaving")
    connection.run(
        """
        INSERT INTO temp.doctor_leaving (tree_seq)
        SELECT t.tree_seq
          FROM mem_tree_items AS i
          JOIN mem_tree_trees AS t ON t.source_id = i.source_id AND t.item_key = i.item_key
         WHERE i.held_hash IS NULL AND t.kind = 'document'
        """
    )
    connection.run(
        """
        INSERT INTO temp.doctor_open (item_seq)
        SELECT i.item_seq
          FROM mem_tree_items AS i
         WHERE i.source_kind = 'document'
           AND (i.held_hash IS NOT i.grown_hash
                OR i.held_hash IS NULL
                OR EXISTS (SELECT 1
                             FROM mem_tree_chunks AS c
                            WHERE c.item_seq = i.item_seq AND c.lifecycle NOT IN ('sealed', 'dropped'))
                OR EXISTS (SELECT 1
                             FROM mem_tree_jobs AS j
                            WHERE j.dedupe_key = 'seal_doc:' || i.source_id || '/' || i.item_key
                                                 || coalesce('@' || i.version_ms, '')
                              AND j.status IN ('ready', 'running', 'failed', 'cancelled')))
         UNION
        SELECT i.item_seq
          FROM mem_tree_summaries AS s INDEXED BY mem_tree_summaries_stale
         CROSS JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         CROSS JOIN mem_tree_items AS i ON i.source_id = t.source_id AND i.item_key = t.item_key
         WHERE s.stale = 1 AND t.kind = 'document'
        """
    )


def tree_links(connection: Connection) -> Iterator[str]:
    """Yield where children and parents do not agree: who stands above whom, on which level, once, up to one root."""
    for words, sql in _LINKS:
        for row in connection.all(f"{sql} LIMIT {_MOST}"):
            yield words.format(*row)


_STANDS = """
EXISTS (SELECT 1 FROM mem_tree_edges WHERE node_id = {node} AND tree_seq = {tree} AND level = {level})
OR EXISTS (SELECT 1 FROM mem_tree_buffers WHERE node_id = {node} AND tree_seq = {tree} AND level = {level})
"""
_ALL = "(SELECT tree_seq, level, node_id FROM mem_tree_{table} WHERE level > 0)"

_LINKS: tuple[tuple[str, str], ...] = (
    (
        "{0}: level {1}: the parent {3} of {2} does not stand on the level above",
        f"""
        SELECT t.tree_id, e.level, e.node_id, e.parent_id
          FROM mem_tree_edges AS e
          JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
         WHERE e.parent_id <> '{ROOT}'
           AND e.tree_seq NOT IN (SELECT tree_seq FROM temp.doctor_leaving)
           AND NOT ({_STANDS.format(node="e.parent_id", tree="e.tree_seq", level="e.level + 1")})
        """,
    ),
    (
        "{0}: level {1}: the parent {3} of {2} is no summary of the level above",
        f"""
        SELECT t.tree_id, e.level, e.node_id, e.parent_id
          FROM mem_tree_edges AS e
          JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
         WHERE e.parent_id <> '{ROOT}'
           AND e.parent_id <> e.node_id
           AND e.tree_seq NOT IN (SELECT tree_seq FROM temp.doctor_leaving)
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_summaries AS s
                            WHERE s.summary_id = e.parent_id AND s.level = e.level + 1 AND s.tree_seq = e.tree_seq)
        """,
    ),
    (
        "{0}: level {1}: {2} stands there twice",
        """
        SELECT t.tree_id, e.level, e.node_id
          FROM mem_tree_edges AS e
          JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
         WHERE EXISTS (SELECT 1
                         FROM mem_tree_edges AS o
                        WHERE o.node_id = e.node_id AND o.tree_seq = e.tree_seq AND o.level = e.level
                          AND o.sort_key < e.sort_key)
            OR EXISTS (SELECT 1
                         FROM mem_tree_buffers AS o
                        WHERE o.node_id = e.node_id AND o.tree_seq = e.tree_seq AND o.level = e.level)
            OR EXISTS (SELECT 1
                         FROM mem_tree_buffers AS o
                        WHERE o.tree_seq = e.tree_seq AND o.level = e.level AND o.sort_key = e.sort_key)
         UNION ALL
        SELECT t.tree_id, b.level, b.node_id
          FROM mem_tree_buffers AS b
          JOIN mem_tree_trees AS t ON t.tree_seq = b.tree_seq
         WHERE EXISTS (SELECT 1
                         FROM mem_tree_buffers AS o
                        WHERE o.node_id = b.node_id AND o.tree_seq = b.tree_seq AND o.level = b.level
                          AND o.sort_key < b.sort_key)
        """,
    ),
    *(
        (
            "{0}: level {1}: {2} has nothing below it",
            f"""
            SELECT t.tree_id, n.level, n.node_id
              FROM {_ALL.format(table=table)} AS n
              JOIN mem_tree_trees AS t ON t.tree_seq = n.tree_seq
             WHERE NOT EXISTS (SELECT 1
                                 FROM mem_tree_edges AS c
                                WHERE c.parent_id = n.node_id AND c.tree_seq = n.tree_seq AND c.level = n.level - 1)
               AND NOT EXISTS (SELECT 1
                                 FROM mem_tree_summaries AS s
                                WHERE s.summary_id = n.node_id AND s.stale = 1)
            """,
        )
        for table in ("edges", "buffers")
    ),
    (
        "{0}: summary {1} stands nowhere",
        f"""
        SELECT t.tree_id, s.summary_id
          FROM mem_tree_summaries AS s
          JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         WHERE NOT ({_STANDS.format(node="s.summary_id", tree="s.tree_seq", level="s.level")})
           AND NOT (t.kind = 'document'
                    AND EXISTS (SELECT 1
                                  FROM mem_tree_items AS i
                                  JOIN temp.doctor_open AS o ON o.item_seq = i.item_seq
                                 WHERE i.source_id = t.source_id AND i.item_key = t.item_key))
        """,
    ),
    (
        "{0}: names {1} as its root, which does not stand as one",
        f"""
        SELECT t.tree_id, t.root_id
          FROM mem_tree_trees AS t
         WHERE t.root_id IS NOT NULL
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_edges AS e
                            WHERE e.node_id = t.root_id AND e.tree_seq = t.tree_seq AND e.parent_id = '{ROOT}'
                              AND e.node_kind = t.root_kind)
        """,
    ),
    (
        "{0}: level {1}: {2} stands as a root, but the tree names {3}",
        f"""
        SELECT t.tree_id, e.level, e.node_id, coalesce(t.root_id, 'none')
          FROM mem_tree_edges AS e
          JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
         WHERE e.parent_id = '{ROOT}' AND t.root_id IS NOT e.node_id
        """,
    ),
    (
        "{0}: {1} waits in a document's tree, which has no buffer",
        """
        SELECT t.tree_id, b.node_id
          FROM mem_tree_buffers AS b
          JOIN mem_tree_trees AS t ON t.tree_seq = b.tree_seq
         WHERE t.kind = 'document'
        """,
    ),
    (
        "{0}: its document is not there",
        """
        SELECT t.tree_id
          FROM mem_tree_trees AS t
         WHERE t.kind = 'document'
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_items AS i
                            WHERE i.source_id = t.source_id AND i.item_key = t.item_key)
        """,
    ),
    (
        "{0}: is of the kind {1}, which nothing grows",
        "SELECT tree_id, kind FROM mem_tree_trees WHERE kind NOT IN ('document', 'source', 'topic', 'day')",
    ),
)


def tree_nodes(connection: Connection) -> Iterator[str]:
    """Yield places whose node is gone, or that say other things of their node than the node's own row."""
    for table in ("edges", "buffers"):
        for words, sql in _NODES:
            for row in connection.all(f"{sql.format(table=table)} LIMIT {_MOST}"):
                yield words.format(*row)


_KEY = "unhex(printf('%016X', c.order_key))"

_NODES: tuple[tuple[str, str], ...] = (
    (
        "{0}: level {1}: {2} stands there but is gone",
        """
        SELECT t.tree_id, n.level, n.node_id
          FROM mem_tree_{table} AS n
          JOIN mem_tree_trees AS t ON t.tree_seq = n.tree_seq
         WHERE CASE n.node_kind
               WHEN 'leaf' THEN NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE chunk_id = n.node_id)
               WHEN 'summary' THEN NOT EXISTS (SELECT 1 FROM mem_tree_summaries WHERE summary_id = n.node_id)
               ELSE 1 END
        """,
    ),
    (
        "{0}: level {1}: the place of summary {2} differs from it in shape, tokens or order",
        """
        SELECT t.tree_id, n.level, n.node_id
          FROM mem_tree_{table} AS n
          JOIN mem_tree_trees AS t ON t.tree_seq = n.tree_seq
          JOIN mem_tree_summaries AS s ON s.summary_id = n.node_id AND s.tree_seq = n.tree_seq
         WHERE n.node_kind = 'summary'
           AND (n.shape_id, n.tokens, n.sort_key) IS NOT (s.shape_id, s.tokens, s.sort_key)
        """,
    ),
    (
        "{0}: the place of chunk {1} differs from it in tokens, breaks or order",
        f"""
        SELECT t.tree_id, n.node_id
          FROM mem_tree_{{table}} AS n
          JOIN mem_tree_trees AS t ON t.tree_seq = n.tree_seq
          JOIN mem_tree_chunks AS c ON c.chunk_id = n.node_id
         WHERE n.level = 0
           AND n.node_kind = 'leaf'
           AND c.source_kind <> 'document'
           AND (n.shape_id, n.leaf_id, n.tokens, n.first_break, n.last_break, n.sort_key, n.last_key)
               IS NOT (c.chunk_id, c.chunk_id, c.tokens, c.break_key, c.break_key,
                       CAST(c.sort_key || {_KEY} AS BLOB), CAST(c.sort_key || {_KEY} AS BLOB))
        """,
    ),
    (
        "{0}: the place of chunk {1} differs from it in tokens, breaks or order",
        f"""
        SELECT t.tree_id, n.node_id
          FROM mem_tree_{{table}} AS n
          JOIN mem_tree_trees AS t ON t.tree_seq = n.tree_seq
          JOIN mem_tree_chunks AS c ON c.chunk_id = n.node_id
         WHERE n.level = 0
           AND n.node_kind = 'leaf'
           AND t.kind = 'document'
           AND c.item_seq NOT IN (SELECT item_seq FROM temp.doctor_open)
           AND (n.shape_id, n.leaf_id, n.tokens, n.first_break, n.last_break, n.sort_key, n.last_key)
               IS NOT (c.chunk_id, c.chunk_id, c.tokens, c.break_key, c.break_key, {_KEY}, {_KEY})
        """,
    ),
)
