"""A new version of a document: its readers see the latest at once, and only one path is made again."""

from __future__ import annotations

from agent.models.profiles import open_profile
from agent.queue.enqueue import enqueue
from agent.queue.registry import Registry
from agent.queue.run import run_due
from agent.queue.types import NewJob
from agent.recall.latest import outdated_summaries
from agent.recall.search import search
from agent.recall.show import show
from agent.worker.kinds import KIND_NAMES
from tests.ingest.conftest import Grown, paragraphs


def book(grown: Grown, marker: str, *, chapters: int = 60) -> None:
    parts = paragraphs(chapters * 4, seed=5, words=120)
    # So often that any summary of it has the word.
    parts[100] = " ".join(f"The {marker} is told of here, for the {marker} matters." for _ in range(40))
    grown.write("book.md", "\n\n".join(f"## Chapter {at}\n\n{part}" for at, part in enumerate(parts)))


def ingest_only(grown: Grown) -> None:
    """Look and read; extract and seal nothing."""
    registry = Registry.load(KIND_NAMES)
    kept = Registry.of(spec for spec in registry if spec.kind in ("sync_source", "ingest_file"))
    enqueue(grown.connection, NewJob.sync_source("notes"), grown.context.clock.now_ms())
    run_due(grown.connection, kept, grown.context)


def found(grown: Grown, word: str) -> list[tuple[str, str]]:
    profile = open_profile(grown.context.intent, {})
    hits = search(grown.connection, profile, word, limit=200, intent=grown.context.intent).hits
    return [(hit.kind, hit.node_id) for hit in hits if word in hit.text]


def test_while_a_new_version_is_being_built_nothing_tells_of_the_old_one(grown: Grown) -> None:
    book(grown, "quinquereme")
    for number in range(8):
        grown.write(f"{number}.md", f"# Note {number}\n\n" + "\n\n".join(paragraphs(2, seed=number)))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    before = [node for kind, node in found(grown, "quinquereme") if kind == "summary"]
    assert len(before) > 1
    book(grown, "hippocampus")
    ingest_only(grown)
    # The old summaries still stand, but nobody is shown them.
    texts = grown.connection.all("SELECT summary_id FROM mem_tree_summaries WHERE instr(text, 'quinquereme')")
    assert len(texts) > 1
    assert found(grown, "quinquereme") == []
    assert [kind for kind, _ in found(grown, "hippocampus")] == ["leaf"] * len(found(grown, "hippocampus"))
    assert found(grown, "hippocampus")
    assert all(show(grown.connection, summary).node.stale for (summary,) in texts)
    grown.settle_down()
    assert outdated_summaries(grown.connection) == frozenset()
    assert grown.count("mem_tree_summaries", "instr(text, 'quinquereme')") == 0
    assert found(grown, "hippocampus")


def test_a_changed_paragraph_makes_one_path_again(grown: Grown) -> None:
    book(grown, "quinquereme")
    for number in range(30):
        grown.write(f"{number:02d}.md", f"# Note {number}\n\n" + "\n\n".join(paragraphs(3, seed=number)))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    last = grown.connection.value("SELECT max(seq) FROM mem_tree_summaries")
    total = grown.count("mem_tree_summaries")
    chunks = {chunk["chunk_id"] for chunk in grown.chunks()}
    levels = grown.connection.value(
        "SELECT sum(max_level) FROM mem_tree_trees WHERE item_key = 'book.md' OR kind = 'source'"
    )
    text = (grown.folder / "book.md").read_text()
    (grown.folder / "book.md").write_text(text.replace("quinquereme matters", "quinquereme is what matters", 1))
    grown.grow()
    assert len({chunk["chunk_id"] for chunk in grown.chunks()} - chunks) <= 3
    made = grown.count("mem_tree_summaries", f"seq > {last}")
    # One path, and a neighbour of it on a level where a boundary moved.
    assert 0 < made <= levels + 3 < total / 2
