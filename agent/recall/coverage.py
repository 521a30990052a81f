"""How much of the memory a search could look at, so that *not searched yet* is never told as *nothing found*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.states import Searched

if TYPE_CHECKING:
    from agent.db.connection import Connection

_ANY_CHUNK = "SELECT EXISTS (SELECT 1 FROM mem_tree_chunks)"

_ANY_CHUNK_OF = """
SELECT EXISTS (
  SELECT 1
    FROM mem_tree_items AS i
    CROSS JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
   WHERE i.source_id = ?1
)
"""

# Sources are few and items many: the sources are hopped over in the index of items by state, each asked by itself. An
# item whose job is parked is listed as unreadable and not waited for; one that the queue lost is.
_ITEM_WAITING = """
WITH RECURSIVE
  hop (source_id) AS (
    SELECT min(source_id) FROM mem_tree_items
    UNION ALL
    SELECT (SELECT min(i.source_id) FROM mem_tree_items AS i WHERE i.source_id > hop.source_id)
      FROM hop
     WHERE hop.source_id IS NOT NULL
  )
SELECT EXISTS (
  SELECT 1
    FROM hop
   WHERE hop.source_id IS NOT NULL
     AND (?1 IS NULL OR hop.source_id = ?1)
     AND (
       EXISTS (SELECT 1 FROM mem_tree_items AS i WHERE i.source_id = hop.source_id AND i.state = 'found')
       OR EXISTS (
         SELECT 1
           FROM mem_tree_items AS i
          WHERE i.source_id = hop.source_id
            AND i.state = 'queued'
            AND coalesce((SELECT j.status
                            FROM mem_tree_jobs AS j
                           WHERE j.dedupe_key = 'ingest:' || i.source_id || ':' || i.item_key
                           ORDER BY j.id DESC
                           LIMIT 1), 'lost') NOT IN ('failed', 'cancelled')
       )
     )
)
"""

# A source that was never looked at to the end; a later look of a known one hides nothing. The range of keys is what the
# index of waiting rows is asked by, however many others there are.
_SOURCE_WAITING = """
SELECT EXISTS (
  SELECT 1
    FROM mem_tree_jobs AS j
   WHERE j.dedupe_key >= 'sync:'
     AND j.dedupe_key < 'sync;'
     AND j.status IN ('ready', 'running')
     AND (?1 IS NULL OR j.dedupe_key = 'sync:' || ?1)
     AND NOT EXISTS (
       SELECT 1
         FROM mem_tree_sources AS s
        WHERE s.source_id = substr(j.dedupe_key, 6)
          AND s.last_sync_ms IS NOT NULL
     )
)
"""

_CHUNK_PENDING = """
SELECT EXISTS (
  SELECT 1
    FROM mem_tree_chunks
   WHERE lifecycle = 'pending_extraction'
     AND (?1 IS NULL OR source_id = ?1)
)
"""

# Embedded under another signature, or not at all; -1 needs no vector.
_CHUNK_WITHOUT_VECTOR = """
SELECT EXISTS (
  SELECT 1 FROM mem_tree_chunks
   WHERE embedded_signature IS NULL AND (?1 IS NULL OR source_id = ?1)
) OR EXISTS (
  SELECT 1 FROM mem_tree_chunks
   WHERE embedded_signature > -1 AND embedded_signature < ?2 AND (?1 IS NULL OR source_id = ?1)
) OR EXISTS (
  SELECT 1 FROM mem_tree_chunks
   WHERE embedded_signature > ?2 AND (?1 IS NULL OR source_id = ?1)
)
"""

_SUMMARY_WITHOUT_VECTOR = """
SELECT EXISTS (
  SELECT 1 FROM mem_tree_summaries
   WHERE embedded_signature IS NULL AND (?1 IS NULL OR source_id = ?1)
) OR EXISTS (
  SELECT 1 FROM mem_tree_summaries
   WHERE embedded_signature > -1 AND embedded_signature < ?2 AND (?1 IS NULL OR source_id = ?1)
) OR EXISTS (
  SELECT 1 FROM mem_tree_summaries
   WHERE embedded_signature > ?2 AND (?1 IS NULL OR source_id = ?1)
)
"""


def has_chunks(connection: Connection, source: str | None = None) -> bool:
    """Return whether anything of a source (of all of them) is in the memory."""
    if source is None:
        return bool(connection.value(_ANY_CHUNK))
    return bool(connection.value(_ANY_CHUNK_OF, (source,)))


def coverage(connection: Connection, signature: str, source: str | None = None) -> Searched:
    """Return how much of a source (of all of them) a search at this signature sees. Reads a few index rows."""
    waiting = bool(connection.value(_ITEM_WAITING, (source,)) or connection.value(_SOURCE_WAITING, (source,)))
    if not has_chunks(connection, source):
        return Searched.NOT_YET if waiting else Searched.FULL
    if waiting or connection.value(_CHUNK_PENDING, (source,)):
        return Searched.PARTIAL
    found = connection.value("SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (signature,))
    missing = (source, -1 if found is None else found)
    if connection.value(_CHUNK_WITHOUT_VECTOR, missing) or connection.value(_SUMMARY_WITHOUT_VECTOR, missing):
        return Searched.PARTIAL
    return Searched.FULL
