"""A memory written row by row, and a profile whose vectors say which words a text has in common with a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agent import ids
from agent.db import Connection
from agent.db.text_index import add_text
from agent.models.protocol import (
    Extraction,
    Profile,
    SummaryRequest,
    SummaryText,
)
from agent.recall.vectors import forget_held_windows
from agent.tokens import count_tokens

BASE_MS = 1_700_000_000_000


class HashEmbedder:
    """Each word has a direction of its own: texts are as near as they share words. ``meanings`` makes words one."""

    dimensions = 512  # enough that unlike words are far apart

    def __init__(self, meanings: dict[str, str] | None = None, *, signature: str = "test:hash@512") -> None:
        self.signature = signature
        self.meanings = meanings or {}
        self.asked: list[str] = []
        self.trusted = True

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        self.asked += texts
        rows = np.zeros((len(texts), self.dimensions), np.float64)
        for at, text in enumerate(texts):
            for word in text.casefold().split():
                word = self.meanings.get(word, word)
                seed = ids.stable_number(word) % (1 << 32)
                rows[at] += np.random.default_rng(seed).normal(size=self.dimensions)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        norms[norms == 0] = 1
        return np.rint(rows / norms * 127).astype(np.int8)

    def windows(self, text: str) -> list[str]:
        return [text]

    def trusts(self, query: str) -> bool:
        return self.trusted and query.isascii()


class Nobody:
    signature = "test:nobody"

    def summarise(self, request: SummaryRequest) -> SummaryText:
        raise AssertionError("searching makes no summary")

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        raise AssertionError("searching extracts nothing")


class Memory:
    """Writes the rows that ingest, extraction, embedding and the tree would have written."""

    def __init__(self, connection: Connection, embedder: HashEmbedder) -> None:
        self.connection = connection
        self.embedder = embedder

    def signature_id(self, signature: str | None = None) -> int:
        name = signature or self.embedder.signature
        self.connection.run("INSERT OR IGNORE INTO mem_tree_signatures (signature) VALUES (?)", (name,))
        found: int = self.connection.value("SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (name,))
        return found

    def item(
        self,
        item_key: str = "notes.md",
        *,
        source: str = "notes",
        source_kind: str = "document",
        state: str = "current",
        time_ms: int | None = BASE_MS,
    ) -> int:
        found = self.connection.value(
            "SELECT item_seq FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (source, item_key)
        )
        if found is None:
            self.connection.run(
                "INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, title, time_ms, sort_key, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (source, item_key, source_kind, "{}", item_key, time_ms, item_key.encode(), state),
            )
            return self.connection.last_id
        return int(found)

    def chunk(
        self,
        text: str,
        *,
        item_key: str = "notes.md",
        source: str = "notes",
        source_kind: str = "document",
        time_ms: int | None = BASE_MS,
        title: str | None = None,
        heading_path: str | None = None,
        author: str | None = None,
        locator: dict[str, Any] | None = None,
        lifecycle: str = "sealed",
        vectors: bool = True,
        entities: Sequence[str] = (),
    ) -> str:
        with self.connection.write():
            item_seq = self.item(item_key, source=source, source_kind=source_kind, time_ms=time_ms)
            body_hash = ids.content_hash(text)
            position = self.connection.value(
                "SELECT count(*) FROM mem_tree_chunks WHERE item_seq = ? AND body_hash = ?", (item_seq, body_hash)
            )
            order = self.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE item_seq = ?", (item_seq,)) + 1
            chunk_id = ids.chunk_id(source_kind, source, item_key, position, body_hash)
            dropped = lifecycle == "dropped"
            held = -1 if dropped else self.signature_id() if vectors else None
            self.connection.run(
                "INSERT INTO mem_tree_chunks (chunk_id, source_kind, source_id, item_key, item_seq, position,"
                " body_hash, order_key, sort_key, break_key, time_ms, author, reference, title, heading_path,"
                " locator, tokens, text, lifecycle, embedded_signature, created_at_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, 0)",
                (
                    chunk_id,
                    source_kind,
                    source,
                    item_key,
                    item_seq,
                    position,
                    body_hash,
                    order << 20,
                    item_key.encode(),
                    time_ms,
                    author,
                    title,
                    heading_path,
                    json.dumps(locator or {"path": item_key, "line": order, "end_line": order}),
                    count_tokens(text),
                    text,
                    lifecycle,
                    held,
                ),
            )
            seq = self.connection.last_id
            add_text(self.connection, seq, title, heading_path, text)
            if vectors and not dropped:
                self._vectors(seq, text)
            for entity in entities:
                self.connection.run(
                    "INSERT INTO mem_tree_entity_index (entity, kind, chunk_seq, surface, mentions)"
                    " VALUES (?, 'person', ?, ?, 1)",
                    (entity, seq, entity),
                )
        return chunk_id

    def _vectors(self, node: int, text: str) -> None:
        self.connection.run(
            "INSERT INTO mem_tree_vectors (signature_id, node, windows) VALUES (?, ?, ?)",
            (self.signature_id(), node, self.embedder.embed([text]).tobytes()),
        )

    def tree(self, kind: str = "document", *, source: str = "notes", item_key: str | None = "notes.md") -> int:
        tree_id = ids.tree_id(kind, source, item_key)
        found = self.connection.value("SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (tree_id,))
        if found is None:
            self.connection.run(
                "INSERT INTO mem_tree_trees (tree_id, kind, source_id, item_key, shape_version, updated_at_ms)"
                " VALUES (?, ?, ?, ?, 1, 0)",
                (tree_id, kind, source, item_key),
            )
            return self.connection.last_id
        return int(found)

    def summary(
        self,
        text: str,
        children: Sequence[str],
        *,
        level: int = 1,
        kind: str = "document",
        source: str = "notes",
        item_key: str | None = "notes.md",
        title: str | None = None,
        first_ms: int | None = BASE_MS,
        last_ms: int | None = BASE_MS,
        stale: bool = False,
        vectors: bool = True,
    ) -> str:
        """Write a summary over nodes that stand one level below it."""
        with self.connection.write():
            tree_seq = self.tree(kind, source=source, item_key=item_key)
            tree_id = ids.tree_id(kind, source, item_key)
            shape = ids.shape_id(tree_id, level, children)
            summary_id = ids.summary_id(shape, "test:nobody")
            place = self.connection.value("SELECT count(*) FROM mem_tree_summaries") + 1
            self.connection.run(
                "INSERT INTO mem_tree_summaries (summary_id, shape_id, tree_seq, source_id, level, sort_key, title,"
                " text, tokens, leaves, first_time_ms, last_time_ms, signature, stale, embedded_signature,"
                " created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'test:nobody', ?, ?, 0)",
                (
                    summary_id,
                    shape,
                    tree_seq,
                    source,
                    level,
                    place.to_bytes(8, "big"),
                    title,
                    text,
                    count_tokens(text),
                    len(children),
                    first_ms,
                    last_ms,
                    int(stale),
                    self.signature_id() if vectors else None,
                ),
            )
            seq = self.connection.last_id
            add_text(self.connection, -seq, title, None, text)
            if vectors:
                self._vectors(-seq, text)
            for child in children:
                self.edge(tree_seq, level - 1, child, summary_id)
        return summary_id

    def edge(self, tree_seq: int, level: int, node_id: str, parent_id: str) -> None:
        leaf = self.connection.value("SELECT 1 FROM mem_tree_chunks WHERE chunk_id = ?", (node_id,))
        place = self.connection.value(
            "SELECT count(*) FROM mem_tree_edges WHERE tree_seq = ? AND level = ?", (tree_seq, level)
        )
        self.connection.run(
            "INSERT INTO mem_tree_edges (tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens,"
            " first_break, last_break, last_key, parent_id) VALUES (?, ?, ?, ?, ?, ?, ?, 1, 0, 0, ?, ?)",
            (
                tree_seq,
                level,
                (place + 1).to_bytes(8, "big"),
                node_id,
                "leaf" if leaf else "summary",
                node_id,
                node_id,
                b"",
                parent_id,
            ),
        )


@pytest.fixture(autouse=True)
def _no_held_windows() -> Iterator[None]:
    forget_held_windows()
    yield
    forget_held_windows()


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def profile(embedder: HashEmbedder) -> Profile:
    return Profile("test", embedder, Nobody(), Nobody())


@pytest.fixture
def memory(connection: Connection, embedder: HashEmbedder) -> Memory:
    return Memory(connection, embedder)


@pytest.fixture
def found(connection: Connection, profile: Profile) -> Callable[..., list[str]]:
    """Return a function from a query (and filters) to the ids found, best first."""
    from agent.recall.search import search

    def find(query: str, **filters: Any) -> list[str]:
        return [hit.node_id for hit in search(connection, profile, query, **filters).hits]

    return find
