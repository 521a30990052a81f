"""How good search is, through the real database: ``python -m tests.recall.measure --data ../shared/data [--sweep]``.

SciFact: 5,183 abstracts as chunks of "title. text", 300 claims as queries, nDCG@10 with words alone and with both
sides. ``--sweep`` prints the same for other weights; the constants of ``agent/recall/fusion.py`` are chosen by it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent import ids
from agent.config import Intent
from agent.db import Connection, connect
from agent.db.text_index import add_text
from agent.models.profiles import open_profile
from agent.models.protocol import Profile
from agent.recall import fusion
from agent.recall.search import search
from agent.tokens import count_tokens


@dataclass(frozen=True)
class Collection:
    """A judged collection: texts, queries and, for each query, the documents that answer it."""

    documents: dict[str, str]
    queries: dict[str, str]
    relevant: dict[str, set[str]]


def read_scifact(data: Path) -> Collection:
    """Return SciFact from a folder of test data; ``FileNotFoundError`` where it is absent."""
    with gzip.open(data / "scifact" / "scifact.json.gz", "rt", encoding="utf-8") as stream:
        raw = json.load(stream)
    return Collection(
        {key: f"{document['title']}. {document['text']}" for key, document in raw["documents"].items()},
        raw["queries"],
        {query: {key for key, grade in judged.items() if grade > 0} for query, judged in raw["qrels"].items()},
    )


def fill(connection: Connection, profile: Profile, documents: dict[str, str]) -> dict[str, str]:
    """Write each document as one finished chunk with its windows; return document keys by chunk id."""
    embedder = profile.embedder
    pieces = {key: embedder.windows(text) for key, text in documents.items()}
    keys: dict[str, str] = {}
    with connection.write():
        connection.run("INSERT INTO mem_tree_signatures (signature) VALUES (?)", (embedder.signature,))
        signature_id = connection.last_id
        for key, text in documents.items():
            connection.run(
                "INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state)"
                " VALUES ('judged', ?, 'document', '{}', ?, 'current')",
                (key, key.encode()),
            )
            body_hash = ids.content_hash(text)
            chunk_id = ids.chunk_id("document", "judged", key, 0, body_hash)
            connection.run(
                "INSERT INTO mem_tree_chunks (chunk_id, source_kind, source_id, item_key, item_seq, position,"
                " body_hash, order_key, sort_key, break_key, locator, tokens, text, lifecycle, embedded_signature,"
                " created_at_ms) VALUES (?, 'document', 'judged', ?, ?, 0, ?, 1, ?, 0, ?, ?, ?, 'sealed', ?, 0)",
                (
                    chunk_id,
                    key,
                    connection.last_id,
                    body_hash,
                    key.encode(),
                    json.dumps({"path": key}),
                    count_tokens(text),
                    text,
                    signature_id,
                ),
            )
            seq = connection.last_id
            add_text(connection, seq, None, None, text)
            connection.run(
                "INSERT INTO mem_tree_vectors (signature_id, node, windows) VALUES (?, ?, ?)",
                (signature_id, seq, embedder.embed(pieces[key]).tobytes()),
            )
            keys[chunk_id] = key
    return keys


def ndcg(ranked: Sequence[str], relevant: set[str], depth: int = 10) -> float:
    """Return the normalised discounted cumulative gain of a ranking, every relevant document worth the same."""
    gained = sum(1 / math.log2(at + 2) for at, key in enumerate(ranked[:depth]) if key in relevant)
    best = sum(1 / math.log2(at + 2) for at in range(min(depth, len(relevant))))
    return gained / best if best else 0.0


class WordsAlone:
    """An embedder that says of every query that its vectors are no good for it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def trusts(self, query: str) -> bool:
        return False


def evaluate(
    connection: Connection, profile: Profile, collection: Collection, keys: dict[str, str]
) -> tuple[float, float]:
    """Return nDCG@10 and the median of a search in milliseconds."""
    total = 0.0
    took = []
    for query, text in collection.queries.items():
        started = time.perf_counter()
        hits = search(connection, profile, text, limit=10).hits
        took.append(time.perf_counter() - started)
        total += ndcg([keys[hit.node_id] for hit in hits], collection.relevant[query])
    return total / len(collection.queries), sorted(took)[len(took) // 2] * 1_000


@contextmanager
def meaning_share(share: float) -> Iterator[None]:
    """Search with another share of the meaning side for a while."""
    kept = dict(fusion.MEANING_SHARE)
    fusion.MEANING_SHARE.update(dict.fromkeys(kept, share))
    try:
        yield
    finally:
        fusion.MEANING_SHARE.update(kept)


def measure_scifact(data: Path, *, sweep: bool = False) -> dict[str, float]:
    """Return ``scifact_ndcg10_words``, ``scifact_ndcg10`` (both sides) and the medians in milliseconds."""
    collection = read_scifact(data)
    profile = open_profile(Intent(), {})
    alone = replace(profile, embedder=WordsAlone(profile.embedder))
    with tempfile.TemporaryDirectory() as home:
        connection = connect(Path(home) / "chunks.db")
        try:
            started = time.perf_counter()
            keys = fill(connection, profile, collection.documents)
            figures = {"fill_s": time.perf_counter() - started}
            figures["scifact_ndcg10_words"], figures["words_p50_ms"] = evaluate(connection, alone, collection, keys)
            figures["scifact_ndcg10"], figures["both_p50_ms"] = evaluate(connection, profile, collection, keys)
            for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7) if sweep else ():
                with meaning_share(share):
                    figures[f"scifact_ndcg10_meaning_{share:g}"], _ = evaluate(connection, profile, collection, keys)
        finally:
            connection.close()
    return figures


def main() -> int:
    """Print the figures, one a line."""
    parser = argparse.ArgumentParser(prog="python -m tests.recall.measure", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAPWOOD_TEST_DATA", "../shared/data")))
    parser.add_argument("--sweep", action="store_true", help="other weights too")
    options = parser.parse_args()
    for name, value in measure_scifact(options.data, sweep=options.sweep).items():
        print(f"{name:32} {value:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
