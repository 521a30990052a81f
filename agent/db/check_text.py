"""Whether the full-text index holds each node's words, no fewer and no others, each in its place.

The words are not stored beside the index, so it is read from its end to its start: every occurrence it knows is summed
into its node's number and compared with the sum over the words of the node's own text, cut by the index's own
tokenizer. Exact but for equal sums by chance (one in 2**60), at eight bytes a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

import apsw

from agent.db.check import pages
from agent.db.text_index import index_body, index_text

if TYPE_CHECKING:
    from agent.db.connection import Connection

_MASK = (1 << 60) - 1


def index_rows(connection: Connection) -> Iterator[str]:
    """Yield nodes without a row in the index and rows without a node."""
    for (name,) in connection.all(
        """
        SELECT 'chunk ' || chunk_id FROM mem_tree_chunks AS c
         WHERE NOT EXISTS (SELECT 1 FROM mem_tree_text_docsize WHERE id = c.seq)
        UNION ALL
        SELECT 'summary ' || summary_id FROM mem_tree_summaries AS s
         WHERE NOT EXISTS (SELECT 1 FROM mem_tree_text_docsize WHERE id = -s.seq)
         LIMIT 1000
        """
    ):
        yield f"{name} is not in the index: no word of it is found"
    for (node,) in connection.all(
        """
        SELECT id FROM mem_tree_text_docsize AS d
         WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = d.id)
           AND NOT EXISTS (SELECT 1 FROM mem_tree_summaries WHERE seq = -d.id)
         LIMIT 1000
        """
    ):
        yield f"the index holds node {node}, which is gone"


def index_structure(connection: Connection) -> Iterator[str]:
    """Yield what FTS5 itself finds wrong with its index. Call it inside a snapshot."""
    # Its check keeps to what it knew of the index before others wrote, until a cursor is opened (``integrity.py``).
    connection.all("SELECT rowid FROM mem_tree_text WHERE mem_tree_text MATCH 'sapwood' LIMIT 1")
    for (found,) in connection.all("PRAGMA integrity_check(mem_tree_text)"):
        if found != "ok":
            yield str(found)


def index_words(connection: Connection) -> Iterator[str]:
    """Yield nodes whose words in the index are not those of their text. Blocks some 1 µs per word of the memory."""
    chunks = array("q", bytes(8 * (1 + _highest(connection, "SELECT max(seq) FROM mem_tree_chunks"))))
    summaries = array("q", bytes(8 * (1 + _highest(connection, "SELECT max(seq) FROM mem_tree_summaries"))))
    _sum_index(connection, chunks, summaries)
    tokenizer = connection.raw.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def wanted(title: str | None, heading_path: str | None, text: str) -> int:
        words = tokenizer(
            index_text(index_body(title, heading_path, text)).encode("utf-8", "surrogatepass"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return sum(hash((word, place)) for place, word in enumerate(words)) & _MASK

    for seq, chunk_id, title, heading_path, text in pages(
        connection,
        "SELECT seq, chunk_id, title, heading_path, text FROM mem_tree_chunks WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if chunks[seq] != wanted(title, heading_path, text):
            yield f"the index holds other words for chunk {chunk_id} than its text"
    for seq, summary_id, title, text in pages(
        connection,
        "SELECT seq, summary_id, title, text FROM mem_tree_summaries WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if summaries[seq] != wanted(title, None, text):
            yield f"the index holds other words for summary {summary_id} than its text"


def _highest(connection: Connection, sql: str) -> int:
    return int(connection.value(sql) or 0)


def _sum_index(connection: Connection, chunks: array[int], summaries: array[int]) -> None:
    # A view of the temporary schema: nothing is written to the memory.
    connection.run("CREATE VIRTUAL TABLE temp.doctor_words USING fts5vocab('main', 'mem_tree_text', 'instance')")
    last_chunk, last_summary = len(chunks), len(summaries)
    try:
        # Millions of rows, read to their end here: the one place where they are not held all at once.
        for term, node, place in connection.raw.execute("SELECT term, doc, offset FROM temp.doctor_words"):
            if 0 < node < last_chunk:
                chunks[node] = (chunks[node] + hash((term, place))) & _MASK
            elif 0 < -node < last_summary:
                summaries[-node] = (summaries[-node] + hash((term, place))) & _MASK
    finally:
        connection.run("DROP TABLE temp.doctor_words")
