"""The fast score and admission: missing signals are left out, prose is never dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ingest.canonical import BlockKind
from agent.ingest.chunker import Chunk, chunk_markdown
from agent.ingest.score import NOISE, deep_score, fast_score
from agent.models.protocol import Extraction
from agent.states import SourceKind
from agent.tokens import count_tokens
from tests.ingest.conftest import Memory, paragraphs
from tests.ingest.test_chunks_stay_where_nothing_changed import document


def chunk(
    text: str, *, kind: SourceKind = SourceKind.DOCUMENT, blocks: set[BlockKind] | None = None, **more: object
) -> Chunk:
    fields = {"heading_path": None, "turns": 0, "authors": 0, **more}
    return Chunk(
        text=text,
        tokens=count_tokens(text),
        body_hash="",
        position=0,
        time_ms=None,
        author=None,
        reference=None,
        title=None,
        locator={},
        break_key=0,
        source_kind=kind,
        kinds=frozenset(blocks or {BlockKind.PARAGRAPH}),
        **fields,  # type: ignore[arg-type]
    )


def admitted(text: str, **more: object) -> bool:
    fast = fast_score(chunk(text, **more))  # type: ignore[arg-type]
    return deep_score(fast.score, fast.signals, Extraction((), 0.5)).admitted


def test_a_signal_that_is_missing_is_left_out_not_counted_as_a_half() -> None:
    text = paragraphs(1)[0]
    plain, headed = fast_score(chunk(text)), fast_score(chunk(text, heading_path="A heading"))
    assert "structure" not in plain.signals
    assert headed.score > plain.score
    assert "voices" not in plain.signals
    assert "own_words" not in plain.signals
    assert fast_score(chunk("Buy milk.")).signals.keys() == {"length", "prose"}
    bare = {name: plain.signals[name] for name in ("length", "prose", "variety")}
    weights = {"length": 1.0, "prose": 1.5, "variety": 1.0}
    assert plain.score == pytest.approx(sum(bare[name] * weights[name] for name in bare) / 3.5, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("---", {}),
        ("* * *\n\n- - -", {}),
        ("=" * 400, {}),
        ("ab" * 300, {}),
        ("QmFzZTY0" * 40 + "\n" + "YWJjZGVm" * 40, {}),
        ("d41d8cd98f00b204e9800998ecf8427e\n" * 12, {}),
        ("-- \nAda Lovelace\nAnalyst", {"blocks": {BlockKind.SIGNATURE}, "kind": SourceKind.EMAIL}),
        ("> Will you come?\n> Bob", {"blocks": {BlockKind.QUOTE}, "kind": SourceKind.EMAIL}),
        ("From: a@b.example\nTo: c@d.example", {"blocks": {BlockKind.ADDRESSES}, "kind": SourceKind.EMAIL}),
    ],
)
def test_noise_is_refused(text: str, more: dict[str, object]) -> None:
    assert not admitted(text, **more)
    fast = fast_score(chunk(text, **more))  # type: ignore[arg-type]
    assert fast.score == 0
    assert any(name in fast.signals for name in NOISE)


@pytest.mark.parametrize(
    "text",
    [
        "Buy milk.",
        "ok",
        "42 and 43",
        "漢字",
        "明天下午三点在会议室见面。",
        "Ring +49 30 1234567",
        "https://example.org/a/very/long/path/0123456789abcdef0123456789abcdef0123 — read this, it is good",
        "The checksum is d41d8cd98f00b204e9800998ecf8427e, and the file came from the old server yesterday.",
        "No no no no no no no no no no no no!",
    ],
)
def test_short_and_odd_prose_is_admitted(text: str) -> None:
    assert admitted(text)


def test_no_real_text_is_dropped(memory: Memory, test_data: Callable[[str], Path]) -> None:
    memory.add("irc", "irc", test_data("irc"))
    memory.write("a.md", "\n\n".join(paragraphs(80)))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert memory.connection.value("SELECT count(*) FROM mem_tree_score WHERE fast = 0") == 0


def test_scores_tell_rich_text_from_poor() -> None:
    rich = fast_score(chunk(paragraphs(1, words=120)[0], heading_path="Part"))
    poor = fast_score(chunk("| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n" * 10))
    assert rich.score > 0.7 > poor.score > 0


def test_a_parked_chunk_is_judged_on_its_fast_score() -> None:
    assert deep_score(0.6, {"prose": 0.8}, None) == deep_score(0.6, {"prose": 0.8}, Extraction((), 0.6))
    assert not deep_score(0.0, {"empty": 1.0}, None).admitted


def test_scoring_is_a_function_of_the_chunk() -> None:
    chunks = chunk_markdown(document("\n\n".join(paragraphs(50))))
    assert [fast_score(each) for each in chunks] == [fast_score(each) for each in chunks]
