"""What must hold for the nodes of the memory, read from the rows: identities, counts, vectors, rows that lost theirs.

Each function yields what is wrong as words, lazily and page by page, and writes nothing; for ``doctor``, inside one
snapshot. Words name rows by their ids, never by what is written in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent import ids
from agent.db.serving import NEEDS_NO_VECTOR, PRIVATE, serving_signature, signature_number
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from agent.db.connection import Connection, Row

PAGE = 500


def pages(connection: Connection, sql: str, params: Sequence[object] = (), size: int = PAGE) -> Iterator[Row]:
    """Yield the rows of a query that is asked again from behind the first column of its last row.

    ``sql`` takes that column as ``?1`` and how many rows as ``?2``, further parameters behind them, and orders by it.
    """
    last = -(1 << 62)
    while rows := connection.all(sql, (last, size, *params)):
        yield from rows
        last = rows[-1][0]
        if len(rows) < size:
            return


def chunk_ids(connection: Connection) -> Iterator[str]:
    """Yield chunks whose id is not that of their parts."""
    for _, chunk_id, *parts in pages(
        connection,
        """
        SELECT seq, chunk_id, source_kind, source_id, item_key, position, body_hash
          FROM mem_tree_chunks
         WHERE seq > ?1
         ORDER BY seq
         LIMIT ?2
        """,
    ):
        if ids.chunk_id(*parts) != chunk_id:
            yield f"chunk {chunk_id} is not named after its parts"


def chunk_bodies(connection: Connection) -> Iterator[str]:
    """Yield chunks whose text is not the one that their hash was made of."""
    for _, chunk_id, body_hash, text in pages(
        connection,
        "SELECT seq, chunk_id, body_hash, text FROM mem_tree_chunks WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if ids.content_hash(text) != body_hash:
            yield f"the text of chunk {chunk_id} is not the one that it was named after"


def token_counts(connection: Connection) -> Iterator[str]:
    """Yield chunks and summaries that count other tokens than the one estimator."""
    for _, chunk_id, tokens, text in pages(
        connection,
        "SELECT seq, chunk_id, tokens, text FROM mem_tree_chunks WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if (counted := count_tokens(text)) != tokens:
            yield f"chunk {chunk_id} says {tokens} tokens, counted {counted}"
    for _, summary_id, tokens, text in pages(
        connection,
        "SELECT seq, summary_id, tokens, text FROM mem_tree_summaries WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if (counted := count_tokens(text)) != tokens:
            yield f"summary {summary_id} says {tokens} tokens, counted {counted}"


def chunks_of_items(connection: Connection) -> Iterator[str]:
    """Yield chunks that say other things of their item than the item does, or share their place in it."""
    for (chunk_id,) in connection.all(
        """
        SELECT c.chunk_id
          FROM mem_tree_chunks AS c
          LEFT JOIN mem_tree_items AS i ON i.item_seq = c.item_seq
         WHERE i.item_seq IS NULL
            OR (i.source_id, i.item_key, i.source_kind, i.sort_key)
               IS NOT (c.source_id, c.item_key, c.source_kind, c.sort_key)
         LIMIT 1000
        """
    ):
        yield f"chunk {chunk_id} belongs to another item than it says, or to none"
    for item_seq, number in connection.all(
        """
        SELECT item_seq, count(*)
          FROM mem_tree_chunks
         GROUP BY item_seq, order_key
        HAVING count(*) > 1
         LIMIT 1000
        """
    ):
        yield f"{number} chunks of item {item_seq} stand in one place"


def summary_ids(connection: Connection) -> Iterator[str]:
    """Yield summaries whose id is not that of their shape and signature."""
    for _, summary_id, shape, signature in pages(
        connection,
        "SELECT seq, summary_id, shape_id, signature FROM mem_tree_summaries WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    ):
        if ids.summary_id(shape, signature) != summary_id:
            yield f"summary {summary_id} is not named after its shape and who made it"


def tree_ids(connection: Connection) -> Iterator[str]:
    """Yield trees whose id is not that of their scope, or whose summaries say another source."""
    for _, name, kind, source_id, item_key, version in pages(
        connection,
        """
        SELECT tree_seq, tree_id, kind, source_id, item_key, shape_version
          FROM mem_tree_trees
         WHERE tree_seq > ?1
         ORDER BY tree_seq
         LIMIT ?2
        """,
    ):
        if version == ids.SHAPE_VERSION and ids.tree_id(kind, source_id, item_key) != name:
            yield f"tree {name} is not named after its scope"
    for summary_id, name in connection.all(
        """
        SELECT s.summary_id, t.tree_id
          FROM mem_tree_summaries AS s
          LEFT JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         WHERE t.source_id IS NOT s.source_id
         LIMIT 1000
        """
    ):
        yield f"summary {summary_id} names another source than its tree {name}"


_ANY_VECTOR = "SELECT EXISTS (SELECT 1 FROM mem_tree_vectors)"


def vectors(connection: Connection) -> Iterator[str]:
    """Yield vectors of nothing or of an impossible size, and nodes that no back-fill would ever come to.

    A row without windows says that a model refused the text; the built-in table refuses none.
    Nodes that are called embedded and have no vector are ``bare_nodes``: it takes the model to tell whether they need
    one.
    """
    serving = serving_signature(connection, "")
    if serving and signature_number(connection, serving) is None and connection.value(_ANY_VECTOR):
        yield f"searches are served by {serving}, of which there is no vector"
    for signature_id, node in connection.all(
        """
        SELECT v.signature_id, v.node
          FROM mem_tree_vectors AS v
         WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = v.node)
           AND NOT EXISTS (SELECT 1 FROM mem_tree_summaries WHERE seq = -v.node)
         LIMIT 1000
        """
    ):
        yield f"a vector (signature {signature_id}) belongs to node {node}, which is gone"
    for signature_id, node, size, signature in connection.all(
        """
        SELECT v.signature_id, v.node, length(v.windows), s.signature
          FROM mem_tree_vectors AS v
          LEFT JOIN mem_tree_signatures AS s ON s.signature_id = v.signature_id
         WHERE s.signature IS NULL
            OR (length(v.windows) = 0 AND s.signature LIKE 'builtin:%')
            OR length(v.windows) % max(1, CAST(substr(s.signature, instr(s.signature, '@') + 1) AS INTEGER)) <> 0
         LIMIT 1000
        """
    ):
        where = f"the vector of node {node}"
        if signature is None:
            yield f"{where} has signature {signature_id}, which is not known"
        else:
            yield f"{where} has {size} bytes, which is no number of windows of {signature}"
    for name, wrong in connection.all(
        """
        SELECT 'chunk ' || chunk_id, embedded_signature
          FROM mem_tree_chunks
         WHERE (lifecycle = 'dropped') IS NOT coalesce(embedded_signature = ?1, 0)
            OR (embedded_signature NOT IN (?1, ?2)
                AND embedded_signature NOT IN (SELECT signature_id FROM mem_tree_signatures))
        UNION ALL
        SELECT 'summary ' || summary_id, embedded_signature
          FROM mem_tree_summaries
         WHERE embedded_signature <> ?2
           AND embedded_signature NOT IN (SELECT signature_id FROM mem_tree_signatures)
         LIMIT 1000
        """,
        (NEEDS_NO_VECTOR, PRIVATE),
    ):
        yield (
            f"{name} says that it needs no vector"
            if wrong == NEEDS_NO_VECTOR
            else f"{name} was dropped and waits for a vector"
            if wrong is None
            else f"{name} is embedded under signature {wrong}, which is not known or not due"
        )


def bare_nodes(connection: Connection, signature: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield (name, text, title, heading path) of nodes that are called embedded at a signature and have no vector."""
    yield from connection.all(
        """
        SELECT 'chunk ' || c.chunk_id, c.text, c.title, c.heading_path
          FROM mem_tree_signatures AS s
         CROSS JOIN mem_tree_chunks AS c ON c.embedded_signature = s.signature_id
         WHERE s.signature = ?1
           AND NOT EXISTS (SELECT 1 FROM mem_tree_vectors WHERE signature_id = s.signature_id AND node = c.seq)
        UNION ALL
        SELECT 'summary ' || c.summary_id, c.text, c.title, NULL
          FROM mem_tree_signatures AS s
         CROSS JOIN mem_tree_summaries AS c ON c.embedded_signature = s.signature_id
         WHERE s.signature = ?1
           AND NOT EXISTS (SELECT 1 FROM mem_tree_vectors WHERE signature_id = s.signature_id AND node = -c.seq)
         LIMIT 1000
        """,
        (signature,),
    )


def stray_rows(connection: Connection) -> Iterator[str]:
    """Yield chunks without a score, and scores, entities and results of nodes that are gone."""
    for what, sql in (
        (
            "chunk {} has no score",
            """
            SELECT chunk_id FROM mem_tree_chunks AS c
             WHERE NOT EXISTS (SELECT 1 FROM mem_tree_score WHERE chunk_seq = c.seq)
             LIMIT 1000
            """,
        ),
        (
            "a score belongs to chunk number {}, which is gone",
            """
            SELECT chunk_seq FROM mem_tree_score AS s
             WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = s.chunk_seq)
             LIMIT 1000
            """,
        ),
        (
            "entities belong to chunk number {}, which is gone",
            """
            SELECT DISTINCT chunk_seq FROM mem_tree_entity_index AS e
             WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = e.chunk_seq)
             LIMIT 1000
            """,
        ),
        (
            "a model's answer to input {} names no node that it was made from",
            """
            SELECT DISTINCT input_hash FROM mem_tree_results AS r
             WHERE NOT EXISTS (SELECT 1 FROM mem_tree_result_inputs WHERE input_hash = r.input_hash)
             LIMIT 1000
            """,
        ),
        (
            "a model's answer belongs to node {}, which is gone",
            # After a rebuild they wait for their nodes to grow again.
            """
            SELECT node_id
              FROM (SELECT node_id FROM mem_tree_results UNION SELECT node_id FROM mem_tree_result_inputs) AS r
             WHERE NOT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE chunk_id = r.node_id)
               AND NOT EXISTS (SELECT 1 FROM mem_tree_summaries WHERE summary_id = r.node_id)
               AND NOT EXISTS (SELECT 1 FROM mem_tree_state WHERE key = 'regrowing_since_ms')
             LIMIT 1000
            """,
        ),
    ):
        for (name,) in connection.all(sql):
            yield what.format(name)


def future_times(connection: Connection, now_ms: int) -> Iterator[str]:
    """Yield how many rows were made after ``now_ms``: the clock was ahead once, or is behind now."""
    for what, sql in (
        ("chunks", "SELECT count(*) FROM mem_tree_chunks WHERE created_at_ms > ?"),
        ("summaries", "SELECT count(*) FROM mem_tree_summaries WHERE created_at_ms > ?"),
        ("versions of items", "SELECT count(*) FROM mem_tree_items WHERE version_ms > ?"),
        ("looks at sources", "SELECT count(*) FROM mem_tree_sources WHERE last_sync_ms > ?"),
        ("jobs", "SELECT count(*) FROM mem_tree_jobs WHERE created_at_ms > ?"),
        ("nodes in buffers", "SELECT count(*) FROM mem_tree_buffers WHERE added_at_ms > ?"),
    ):
        if count := connection.value(sql, (now_ms,)):
            yield f"{count} {what} are of the future"
