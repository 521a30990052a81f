"""What the figures of ``tree`` are measured on: homes that are thrown away, a cheap summariser, bulk-grown trees."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent import ids
from agent.clock import SYSTEM_CLOCK
from agent.config import Intent
from agent.db import Connection, Database
from agent.db.text_index import add_text
from agent.models.protocol import SummaryRequest, SummaryText
from agent.paths import paths_under
from agent.queue.registry import JobSpec, Registry
from agent.queue.run import LocalContext, drain_until_idle
from agent.queue.types import AppendBufferPayload, FlushStalePayload, SealDocumentPayload, SealPayload
from agent.states import ItemState, JobKind, Lifecycle, SourceKind
from agent.tokens import count_tokens
from agent.tree.append import plan_append
from agent.tree.documents import plan_seal_document
from agent.tree.flush import close_all_tails, plan_flush_stale, unfinished
from agent.tree.seal import plan_seal

T0 = 1_600_000_000_000


class Counting:
    """A summariser that costs nothing and counts: a hash of its children, padded to a summary's length."""

    def __init__(self) -> None:
        self.signature = "bench:counting@1"
        self.by_kind: Counter[str] = Counter()

    def summarise(self, request: SummaryRequest) -> SummaryText:
        self.by_kind[request.tree_kind] += 1
        mark = hashlib.sha256("\n".join(child.text for child in request.children).encode()).hexdigest()
        text = f"{mark} " + "summary " * 60
        return SummaryText(text, None, count_tokens(text))


def registry_for(summariser: Counting) -> Registry:
    """Return the tree's kinds with this summariser, ranked as the design ranks them."""
    return Registry.of(
        [
            JobSpec(
                JobKind.SEAL, lambda c, job: plan_seal(c, job.payload(SealPayload), summariser), llm_bound=True, rank=1
            ),
            JobSpec(JobKind.FLUSH_STALE, lambda c, job: plan_flush_stale(c, job.payload(FlushStalePayload)), rank=2),
            JobSpec(JobKind.APPEND_BUFFER, lambda c, job: plan_append(c, job.payload(AppendBufferPayload)), rank=3),
            JobSpec(
                JobKind.SEAL_DOCUMENT,
                lambda c, job: plan_seal_document(c, job.payload(SealDocumentPayload), summariser),
                llm_bound=True,
            ),
        ]
    )


@dataclass
class Ground:
    """One memory and what runs its jobs."""

    connection: Connection
    home: Path
    context: LocalContext
    summariser: Counting
    registry: Registry

    def finish(self) -> None:
        """Run all jobs and close all tails; raises ``RuntimeError`` if a tree is not finished then."""
        drain_until_idle(self.context, self.registry, flush=close_all_tails)
        left = unfinished(self.connection)
        if left:
            raise RuntimeError(f"not finished: {left[:3]}")


@contextmanager
def new_ground() -> Iterator[Ground]:
    """Hold an empty memory in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as home:
        paths = paths_under(Path(home)).make()
        database = Database(paths.database, paths.write_turn)
        summariser = Counting()
        context = LocalContext(database.connection, SYSTEM_CLOCK, Intent(), paths)
        yield Ground(database.connection, Path(home), context, summariser, registry_for(summariser))
        database.close()


def put_mails(connection: Connection, source: str, places: Sequence[int], lifecycle: Lifecycle) -> list[str]:
    """Insert mails of one short chunk each, a second apart by place; return their chunk ids."""
    found = []
    with connection.write():
        for place in places:
            key = f"m{place:08d}"
            time_ms = T0 + place * 1000
            sort_key = (time_ms + 2**62).to_bytes(8, "big") + key.encode()
            connection.run(
                """
                INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, held_hash, state)
                VALUES (?, ?, ?, '{}', ?, 'h', ?)
                """,
                (source, key, SourceKind.EMAIL, sort_key, ItemState.CURRENT),
            )
            item = connection.last_id
            text = f"Mail number {place} about matter {place % 97}, with a line that nobody reads twice."
            chunk_id = ids.chunk_id(SourceKind.EMAIL, source, key, 0, ids.content_hash(text))
            connection.run(
                """
                INSERT INTO mem_tree_chunks (
                  chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                  break_key, time_ms, locator, tokens, text, lifecycle, created_at_ms
                ) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, '{}', ?, ?, ?, 0)
                """,
                (
                    chunk_id,
                    SourceKind.EMAIL,
                    source,
                    key,
                    item,
                    ids.content_hash(text),
                    1 << 20,
                    sort_key,
                    place // 40,
                    time_ms,
                    count_tokens(text),
                    text,
                    lifecycle,
                ),
            )
            add_text(connection, connection.last_id, None, None, text)
            found.append(chunk_id)
    return found
