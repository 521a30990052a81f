"""The word side of a search: FTS5's BM25 over leaves and summaries together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.recall.filters import Filters, passing

if TYPE_CHECKING:
    from agent.db.connection import Connection
    from agent.recall.query import Query

# FTS5's own order by rank sorts all that matches before the limit is seen; SQLite's keeps only the best (17 against
# 25 ms for 27,000 matches).
_ALL = """
SELECT rowid, rank
  FROM mem_tree_text
 WHERE mem_tree_text MATCH ?1
 ORDER BY +rank
 LIMIT ?2
"""

_LEAVES = """
SELECT t.rowid, t.rank
  FROM mem_tree_text AS t
  CROSS JOIN mem_tree_chunks AS c ON c.seq = t.rowid
 WHERE t.mem_tree_text MATCH ?6
   AND t.rowid > 0
   AND (?1 IS NULL OR c.source_id = ?1)
   AND (?2 IS NULL OR c.time_ms >= ?2)
   AND (?3 IS NULL OR c.time_ms <= ?3)
   AND (?4 IS NULL OR EXISTS (SELECT 1 FROM mem_tree_entity_index AS e WHERE e.entity = ?4 AND e.chunk_seq = c.seq))
   AND (?5 IS NULL OR c.source_id IN (SELECT value FROM json_each(?5)))
 ORDER BY +t.rank
 LIMIT ?7
"""

_SUMMARIES = """
SELECT rowid, rank
  FROM mem_tree_text
 WHERE mem_tree_text MATCH ?1
   AND rowid < 0
 ORDER BY +rank
 LIMIT ?2
"""

# How many equally good texts are looked at for the newest of them.
_MAX_TIED = 5_000

Scored = list[tuple[int, float]]


def best_texts(connection: Connection, query: Query, filters: Filters, limit: int) -> Scored:
    """Return ``(node, score)`` of the best texts, best first; higher is better.

    A text that is as good as the last of them is never cut off in favour of its equals, however many there are (up to
    a few thousand): which of them an owner sees is decided by time, not by the order of the index.
    """
    expression = query.expression()
    if not expression:
        return []
    found = _best(connection, expression, filters, limit + 1)
    if len(found) <= limit or found[limit][1] < found[limit - 1][1]:
        return found[:limit]
    last = found[limit - 1][1]
    return [hit for hit in _best(connection, expression, filters, _MAX_TIED) if hit[1] >= last]


def best_pairs(connection: Connection, query: Query, filters: Filters, limit: int) -> Scored:
    """Return ``(node, score)`` of the texts in which neighbours of the query stand close together, best first."""
    expression = query.pairs()
    return _best(connection, expression, filters, limit) if expression else []


def first_of(found: Scored, limit: int) -> list[int]:
    """Return the nodes of the best, with all that are as good as the last of them."""
    if len(found) <= limit:
        return [node for node, _ in found]
    last = found[limit - 1][1]
    return [node for node, score in found if score >= last]


def _best(connection: Connection, expression: str, filters: Filters, limit: int) -> Scored:
    rows: list[tuple[int, float]] = []
    if filters.kind is None and not filters.narrow:
        rows = [(node, rank) for node, rank in connection.all(_ALL, (expression, limit))]
    else:
        if filters.leaves:
            rows += [(node, rank) for node, rank in connection.all(_LEAVES, (*filters.params, expression, limit))]
        if filters.summaries:
            rows += _best_summaries(connection, expression, filters, limit)
    # FTS5's rank is smaller for the better text.
    return sorted(((node, -rank) for node, rank in rows), key=lambda hit: (-hit[1], hit[0]))[:limit]


def _best_summaries(connection: Connection, expression: str, filters: Filters, limit: int) -> Scored:
    # Summaries are few beside leaves, and their filter climbs trees: it runs once over the best of them.
    rows = connection.all(_SUMMARIES, (expression, limit))
    if not filters.narrow:
        return [(node, rank) for node, rank in rows]
    rows = connection.all(_SUMMARIES, (expression, -1))
    allowed = passing(connection, filters, [node for node, _ in rows])
    return [(node, rank) for node, rank in rows if node in allowed][:limit]
