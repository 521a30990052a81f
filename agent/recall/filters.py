"""Narrowing a search to a source, a kind of node, a time or an entity, inside SQL.

Parameters are numbered alike in every statement that filters: ?1 source, ?2 since, ?3 until, ?4 entity, ?5 the sources
that may be read, as a JSON array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.states import NodeKind

if TYPE_CHECKING:
    from agent.db.connection import Connection

_LEAVES = """
SELECT c.seq
  FROM json_each(?6) AS wanted
  CROSS JOIN mem_tree_chunks AS c ON c.seq = wanted.value
 WHERE (?1 IS NULL OR c.source_id = ?1)
   AND (?2 IS NULL OR c.time_ms >= ?2)
   AND (?3 IS NULL OR c.time_ms <= ?3)
   AND (?4 IS NULL OR EXISTS (SELECT 1 FROM mem_tree_entity_index AS e WHERE e.entity = ?4 AND e.chunk_seq = c.seq))
   AND (?5 IS NULL OR c.source_id IN (SELECT value FROM json_each(?5)))
"""

_SUMMARIES = """
WITH RECURSIVE
  mentioned (node_id) AS (
    SELECT c.chunk_id
      FROM mem_tree_entity_index AS e
      JOIN mem_tree_chunks AS c ON c.seq = e.chunk_seq
     WHERE e.entity = ?4
    UNION
    SELECT up.parent_id
      FROM mentioned
      JOIN mem_tree_edges AS up ON up.node_id = mentioned.node_id
     WHERE up.parent_id <> ''
  )
SELECT -s.seq
  FROM json_each(?6) AS wanted
  CROSS JOIN mem_tree_summaries AS s ON s.seq = -wanted.value
 WHERE s.stale = 0
   AND (?1 IS NULL OR s.source_id = ?1)
   AND (?2 IS NULL OR s.last_time_ms >= ?2)
   AND (?3 IS NULL OR s.first_time_ms <= ?3)
   AND (?4 IS NULL OR s.summary_id IN (SELECT node_id FROM mentioned))
   AND (?5 IS NULL OR s.source_id IN (SELECT value FROM json_each(?5)))
"""


@dataclass(frozen=True)
class Filters:
    """What a hit must be. A node without a date is in no period; a summary is in a period that it overlaps, and
    mentions what a leaf below it mentions.
    """

    source: str | None = None
    kind: NodeKind | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    entity: str | None = None  # as stored: case-folded, white space collapsed
    readable: tuple[str, ...] | None = None  # the sources that whoever asks may read; ``None``: all

    @property
    def narrow(self) -> bool:
        """Whether anything but the kind is asked for."""
        return any(value is not None for value in self.params)

    @property
    def params(self) -> tuple[Any, ...]:
        """The values of ?1 … ?5."""
        readable = None if self.readable is None else json.dumps(self.readable)
        return (self.source, self.since_ms, self.until_ms, self.entity, readable)

    @property
    def leaves(self) -> bool:
        """Whether leaves are wanted."""
        return self.kind is not NodeKind.SUMMARY

    @property
    def summaries(self) -> bool:
        """Whether summaries are wanted."""
        return self.kind is not NodeKind.LEAF


def passing(connection: Connection, filters: Filters, nodes: Sequence[int]) -> set[int]:
    """Return those of some nodes (chunk seq, or minus summary seq) that pass the filters and still exist."""
    found: set[int] = set()
    if filters.leaves:
        wanted = json.dumps([node for node in nodes if node > 0])
        found.update(row[0] for row in connection.all(_LEAVES, (*filters.params, wanted)))
    if filters.summaries:
        wanted = json.dumps([node for node in nodes if node < 0])
        found.update(row[0] for row in connection.all(_SUMMARIES, (*filters.params, wanted)))
    return found
