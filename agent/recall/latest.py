"""Readers see the latest: a summary that still holds words of a version that is gone is not shown for the time being.

A chunk that leaves marks the summary right above it stale. What stands above that is made again in its turn, level by
level, and until then it tells of the old version just the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.db.connection import Connection

# A document's root stands in its folder's tree as well, so the way up goes on there by itself.
_OUTDATED = """
WITH RECURSIVE outdated (node_id) AS (
  SELECT summary_id
    FROM mem_tree_summaries INDEXED BY mem_tree_summaries_stale
   WHERE stale = 1
  UNION
  SELECT up.parent_id
    FROM outdated
   CROSS JOIN mem_tree_edges AS up INDEXED BY mem_tree_edges_by_node ON up.node_id = outdated.node_id
   WHERE up.parent_id <> ''
)
SELECT node_id FROM outdated
"""


def outdated_summaries(connection: Connection) -> frozenset[str]:
    """Return the summaries that are to be made again because something below them left. On a finished memory: none."""
    return frozenset(node_id for (node_id,) in connection.all(_OUTDATED))
