"""A small memory to work on: items and chunks as ingest writes them."""

from __future__ import annotations

import json

from agent.db import Connection
from agent.db.text_index import add_text
from agent.ids import chunk_id, content_hash
from agent.states import ItemState, Lifecycle
from agent.tokens import count_tokens


def add_item(
    connection: Connection, item_key: str = "note.md", *, source_id: str = "notes", source_kind: str = "document"
) -> int:
    connection.run(
        """
        INSERT INTO mem_tree_items
               (source_id, item_key, source_kind, place, title, sort_key, seen_hash, held_hash, version_ms, state)
        VALUES (?, ?, ?, '{}', ?, ?, 'h', 'h', 1000, ?)
        """,
        (source_id, item_key, source_kind, item_key, item_key.encode(), ItemState.CURRENT),
    )
    return connection.last_id


def add_chunk(
    connection: Connection,
    item_seq: int,
    text: str,
    *,
    order: int = 0,
    lifecycle: Lifecycle = Lifecycle.PENDING_EXTRACTION,
    fast: float = 0.6,
) -> str:
    item = connection.one(
        "SELECT source_id, item_key, source_kind, sort_key FROM mem_tree_items WHERE item_seq = ?", (item_seq,)
    )
    assert item is not None
    source_id, item_key, source_kind, sort_key = item
    body = content_hash(text)
    found = chunk_id(source_kind, source_id, item_key, 0, body)
    connection.run(
        """
        INSERT INTO mem_tree_chunks
               (chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                break_key, title, locator, tokens, text, lifecycle, created_at_ms)
        VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, 0, ?, ?, ?, ?, ?, 1000)
        """,
        (
            *(found, source_kind, source_id, item_key, item_seq, body, (order + 1) << 20, sort_key, item_key),
            *(json.dumps({"path": item_key}), count_tokens(text), text, lifecycle),
        ),
    )
    seq = connection.last_id
    add_text(connection, seq, item_key, None, text)
    connection.run(
        "INSERT INTO mem_tree_score (chunk_seq, fast, signals, score_version) VALUES (?, ?, '{}', 1)", (seq, fast)
    )
    return found


def add_summary(connection: Connection, text: str, summary_id: str = "s" * 32) -> int:
    connection.run(
        """
        INSERT INTO mem_tree_trees (tree_id, kind, source_id, shape_version, updated_at_ms)
        VALUES ('source:notes@1', 'source', 'notes', 1, 1000) ON CONFLICT DO NOTHING
        """
    )
    connection.run(
        """
        INSERT INTO mem_tree_summaries
               (summary_id, shape_id, tree_seq, source_id, level, sort_key, text, tokens, leaves, signature,
                created_at_ms)
        VALUES (?, ?, (SELECT tree_seq FROM mem_tree_trees), 'notes', 1, x'00', ?, 10, 2, 'test', 1000)
        """,
        (summary_id, summary_id, text),
    )
    seq = connection.last_id
    add_text(connection, -seq, None, None, text)
    return seq
