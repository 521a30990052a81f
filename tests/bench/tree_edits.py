"""Editing one paragraph: how many chunks change, how many summaries are made again in the document and its source."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from agent import ids
from agent.db.nodes import remove_chunk
from agent.db.text_index import add_text
from agent.ingest.canonicalize import canonicalize_document
from agent.ingest.chunker import Chunk, chunk_markdown
from agent.ingest.markdown import Markup
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.types import NewJob, NodeRef
from agent.states import ItemState, Lifecycle, SourceKind
from agent.tree.store import find_tree
from tests.bench.harness import Result, percentile
from tests.bench.tree_ground import Ground, new_ground, put_mails

SOURCE = "notes"
CHUNKS = 500
DOCUMENTS = 10
SMALL_DOCUMENTS = 300
MAILS = 5_000
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu")


class Prose:
    """Words, paragraphs and headings from one seed, distributed as in prose: few words are most of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._words = ["".join(self.chance.choices(_SYLLABLES, k=self.chance.randint(1, 4))) for _ in range(3_000)]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(3_000)))

    def paragraph(self) -> str:
        """Return a paragraph of two to seven sentences."""
        sentences = []
        for _ in range(self.chance.randint(2, 7)):
            words = self.chance.choices(self._words, cum_weights=self._weights, k=self.chance.randint(6, 24))
            sentences.append(" ".join(words).capitalize() + ".")
        return " ".join(sentences)

    def heading(self) -> str:
        """Return a heading of level 2 or 3."""
        words = self.chance.choices(self._words, cum_weights=self._weights, k=3)
        return "#" * self.chance.choice((2, 2, 3)) + " " + " ".join(words)


@dataclass
class Written:
    """One document as its owner writes it, and the chunks the memory holds of it with their order keys."""

    key: str
    blocks: list[str]
    held: dict[str, int] = field(default_factory=dict)


def chunks_of(written: Written) -> list[tuple[str, Chunk]]:
    """Return the chunks of a document with their ids, in order."""
    item = canonicalize_document(
        "# Title\n\n" + "\n\n".join(written.blocks),
        item_key=written.key,
        name=written.key,
        place={"path": written.key},
        content_hash="",
        markup=Markup.MARKDOWN,
        modified_ms=0,
    )
    return [
        (ids.chunk_id(chunk.source_kind, SOURCE, written.key, chunk.position, chunk.body_hash), chunk)
        for chunk in chunk_markdown(item)
    ]


def store(ground: Ground, written: Written) -> int:
    """Let the memory hold the document as it is, as ingest and extract would; return how many chunks changed.

    Changed are chunks that came, or went without another in their place.
    """
    found = chunks_of(written)
    connection = ground.connection
    now = ground.context.clock.now_ms()
    gone = written.held.keys() - {chunk_id for chunk_id, _ in found}
    new = [chunk_id for chunk_id, _ in found if chunk_id not in written.held]
    orders = order_keys([chunk_id for chunk_id, _ in found], written.held)
    with connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_items (
              source_id, item_key, source_kind, place, sort_key, held_hash, version_ms, state
            ) VALUES (?, ?, ?, '{}', ?, ?, ?, ?)
            ON CONFLICT (source_id, item_key) DO UPDATE
               SET held_hash = excluded.held_hash, version_ms = excluded.version_ms
            """,
            (
                SOURCE,
                written.key,
                SourceKind.DOCUMENT,
                written.key.encode(),
                ids.random_id(),
                now,
                ItemState.CURRENT,
            ),
        )
        item_seq, sort_key = connection.all(
            "SELECT item_seq, sort_key FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (SOURCE, written.key)
        )[0]
        for chunk_id in gone:
            remove_chunk(connection, chunk_id)
        for chunk_id, chunk in found:
            if chunk_id in written.held:
                if orders[chunk_id] != written.held[chunk_id]:
                    connection.run(
                        "UPDATE mem_tree_chunks SET order_key = ? WHERE chunk_id = ?", (orders[chunk_id], chunk_id)
                    )
                continue
            connection.run(
                """
                INSERT INTO mem_tree_chunks (
                  chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                  break_key, title, heading_path, locator, tokens, text, lifecycle, created_at_ms
                ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}', ?, ?, ?, ?)
                """,
                (
                    chunk_id,
                    SourceKind.DOCUMENT,
                    SOURCE,
                    written.key,
                    item_seq,
                    chunk.position,
                    chunk.body_hash,
                    orders[chunk_id],
                    sort_key,
                    chunk.break_key,
                    chunk.title,
                    chunk.heading_path,
                    chunk.tokens,
                    chunk.text,
                    Lifecycle.ADMITTED,
                    now,
                ),
            )
            add_text(connection, connection.last_id, chunk.title, chunk.heading_path, chunk.text)
        enqueue_many_tx(connection, [NewJob.seal_document(f"{SOURCE}/{written.key}", now)], now)
    written.held = orders
    return max(len(new), len(gone))


def order_keys(now: Sequence[str], held: dict[str, int]) -> dict[str, int]:
    """Return an order key for each chunk: kept ones keep theirs, new ones come between; all anew where none fits."""
    orders: dict[str, int] = {}
    low = 0
    following = [0] * (len(now) + 1)
    high = 0
    for at in range(len(now) - 1, -1, -1):
        following[at] = high
        high = held.get(now[at], high)
    for at, chunk_id in enumerate(now):
        order = held.get(chunk_id)
        if order is None:
            order = (low + following[at]) // 2 if following[at] else low + (1 << 20)
        if order <= low:
            return {chunk: (place + 1) << 20 for place, chunk in enumerate(now)}
        orders[chunk_id] = low = order
    return orders


def edit(prose: Prose, written: Written) -> None:
    """Change, insert or delete one paragraph."""
    chance = prose.chance
    places = [at for at, block in enumerate(written.blocks) if not block.startswith("#")]
    at = chance.choice(places)
    draw = chance.randrange(3)
    if draw == 0:
        words = written.blocks[at].split(" ")
        words[chance.randrange(len(words))] = prose.paragraph().split(" ")[1]
        written.blocks[at] = " ".join(words)
    elif draw == 1:
        written.blocks.insert(at, prose.paragraph())
    else:
        del written.blocks[at]


def _depth(ground: Ground, tree_id: str) -> int:
    tree = find_tree(ground.connection, tree_id)
    return 0 if tree is None else tree.max_level


@dataclass
class Over:
    """Summaries made again beyond the depth of their tree, and chunks changed, one figure an edit."""

    summaries: list[int] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)

    def report(self, result: Result, which: str, bars: bool = True) -> None:
        """Put the figures and their bars into the result."""
        values = {
            "edit_summaries_over_depth_mean": round(sum(self.summaries) / len(self.summaries), 3),
            "edit_summaries_over_depth_p95": percentile(self.summaries, 0.95),
            "edit_summaries_over_depth_max": max(self.summaries),
            "edit_chunks_max": max(self.chunks),
        }
        for (name, value), bar in zip(values.items(), (1, 2, 8, 3), strict=True):
            result.figures[f"{name}_{which}"] = value
            if bars:
                result.hold(f"{name}_{which}", "<=", bar)


def measure_edits(result: Result, edits: int) -> None:
    """Measure edits of documents (their own trees, and their folder's) and of a stream."""
    in_document, in_source = Over(), Over()
    with new_ground() as ground:
        _edit_folder(ground, edits, in_document, in_source)
    in_stream = Over()
    with new_ground() as ground:
        _edit_stream(ground, edits, in_stream)
    in_document.report(result, "doc")
    in_source.report(result, "source")
    in_stream.report(result, "stream", bars=False)


def _edit_folder(ground: Ground, edits: int, in_document: Over, in_source: Over) -> None:
    prose = Prose(11)
    documents = []
    for number in range(DOCUMENTS):
        written = Written(f"long/{number:03d}.md", [])
        while len(chunks_of(written)) < CHUNKS:
            for _ in range(200):
                written.blocks.append(prose.heading() if prose.chance.random() < 0.06 else prose.paragraph())
        documents.append(written)
        store(ground, written)
    for number in range(SMALL_DOCUMENTS):
        store(ground, Written(f"part{number % 12}/{number:03d}.md", [prose.paragraph() for _ in range(6)]))
    ground.finish()
    for number in range(edits):
        written = documents[number % len(documents)]
        edit(prose, written)
        document, source = ids.tree_id("document", SOURCE, written.key), ids.tree_id("source", SOURCE)
        depth = {"document": _depth(ground, document), "source": _depth(ground, source)}
        ground.summariser.by_kind = Counter()
        changed = store(ground, written)
        ground.finish()
        depth["document"] = max(depth["document"], _depth(ground, document))
        made = ground.summariser.by_kind
        in_document.summaries.append(made["document"] - depth["document"])
        in_document.chunks.append(changed)
        in_source.summaries.append(made["source"] - max(depth["source"], _depth(ground, source)))
        in_source.chunks.append(changed)


def _edit_stream(ground: Ground, edits: int, over: Over) -> None:
    """Insert a mail, delete one or put another in its place, anywhere in a stream."""
    chance = random.Random(12)
    connection, now = ground.connection, ground.context.clock.now_ms
    tree = ids.tree_id("source", "post")
    chunks = put_mails(connection, "post", range(0, MAILS * 4, 4), Lifecycle.ADMITTED)
    there = dict(zip(range(0, MAILS * 4, 4), chunks, strict=True))
    used = set(there)
    with connection.write():
        enqueue_many_tx(
            connection, [NewJob.append_buffer("source", "post", NodeRef.leaf(chunk)) for chunk in chunks], now()
        )
    ground.finish()
    for _ in range(edits):
        draw = chance.randrange(3)
        depth = _depth(ground, tree)
        ground.summariser.by_kind = Counter()
        place = chance.choice(list(there))
        jobs = [NewJob.seal(tree, 0)]
        if draw != 0:
            with connection.write():
                remove_chunk(connection, there.pop(place))
        if draw != 1:
            place = next(free for free in range(place + 1, place + MAILS) if free not in used)
            used.add(place)
            (there[place],) = put_mails(connection, "post", [place], Lifecycle.ADMITTED)
            # As the jobs stand after extract: the append before the seal that it asks for.
            jobs = [NewJob.append_buffer("source", "post", NodeRef.leaf(there[place]))]
        with connection.write():
            enqueue_many_tx(connection, jobs, now())
        ground.finish()
        over.summaries.append(ground.summariser.by_kind["source"] - max(depth, _depth(ground, tree)))
        over.chunks.append(1)
