"""The chunker is anchored: an edit moves nothing elsewhere, and a chunk is the text of its place."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.ingest.boundaries import NEVER, Pieces, cut
from agent.ingest.canonical import CanonicalItem, Section
from agent.ingest.canonicalize import canonicalize_document
from agent.ingest.chunker import MAX_TOKENS, chunk_markdown
from agent.ingest.markdown import Markup, read_outline
from agent.states import SourceKind
from agent.tokens import count_tokens
from tests.ingest.conftest import paragraphs


def document(text: str, name: str = "a.md") -> CanonicalItem:
    lines = text.split("\n")
    outline = read_outline(lines)
    section = Section(lines, outline.blocks, [{"path": name}], outline.title)
    return CanonicalItem(SourceKind.DOCUMENT, name, outline.title, None, "hash", (section,))


def identities(text: str) -> set[tuple[str, int]]:
    return {(chunk.body_hash, chunk.position) for chunk in chunk_markdown(document(text))}


def edited(parts: list[str], chance: random.Random, fresh: list[str]) -> list[str]:
    parts = list(parts)
    at = chance.randrange(len(parts))
    match chance.choice(["replace", "change a word", "insert", "delete"]):
        case "replace":
            parts[at] = chance.choice(fresh)
        case "change a word":
            words = parts[at].split()
            words[chance.randrange(len(words))] = "changed"
            parts[at] = " ".join(words)
        case "insert":
            parts.insert(at, chance.choice(fresh))
        case _:
            del parts[at]
    return parts


def test_one_edited_paragraph_changes_at_most_three_chunks_of_a_500_chunk_document() -> None:
    parts = paragraphs(2_300)
    fresh = paragraphs(100, seed=100)
    base = identities("\n\n".join(parts))
    assert len(base) >= 480
    chance = random.Random(1)
    for _ in range(12):
        after = identities("\n\n".join(edited(parts, chance, fresh)))
        assert len(after - base) <= 3
        assert len(base - after) <= 4


def test_edits_under_headings_change_at_most_three_chunks() -> None:
    chance = random.Random(5)
    parts = [f"## {text[:40]}" if chance.random() < 0.15 else text for text in paragraphs(300, seed=5)]
    fresh = paragraphs(200, seed=6)
    base = identities("\n\n".join(parts))
    for _ in range(120):
        assert len(identities("\n\n".join(edited(parts, chance, fresh))) - base) <= 3


@pytest.mark.slow
def test_a_thousand_edits_never_change_more_than_three_chunks() -> None:
    for seed in range(4):
        parts = paragraphs(250, seed=seed + 10, words=40 + 15 * seed)
        fresh = paragraphs(400, seed=seed + 50, words=40 + 15 * seed)
        base = identities("\n\n".join(parts))
        chance = random.Random(seed)
        assert all(len(identities("\n\n".join(edited(parts, chance, fresh))) - base) <= 3 for _ in range(1_000)), (
            f"seed {seed}"
        )


def test_documents_come_in_chunks_of_350_to_450_tokens_on_average() -> None:
    for words in (20, 60, 120):
        chunks = chunk_markdown(document("\n\n".join(paragraphs(1_200, words=words))))
        mean = sum(chunk.tokens for chunk in chunks) / len(chunks)
        assert 340 <= mean <= 460, words
        assert max(chunk.tokens for chunk in chunks) <= MAX_TOKENS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("words", " ".join(paragraphs(2_500)).replace(".", "")),
        ("sentences", " ".join(paragraphs(2_500))),
        ("base64", "".join(random.Random(1).choices("ABCDEFabcdef0123456789+/", k=1_000_000))),
        ("chinese", "".join(chr(0x4E00 + random.Random(1).randrange(4_000)) for _ in range(3)) * 30_000),
        ("one letter", "x" * 300_000),
    ],
)
def test_one_line_without_an_end_is_cut_into_chunks_of_bounded_size(name: str, text: str) -> None:
    chunks = chunk_markdown(document(text))
    assert len(chunks) >= 20, name
    assert max(count_tokens(chunk.text) for chunk in chunks) <= MAX_TOKENS * 1.1
    kept = "".join("".join(chunk.text.split()) for chunk in chunks)
    assert kept == "".join(text.split())


def test_an_edit_inside_an_endless_line_changes_few_chunks() -> None:
    words = " ".join(paragraphs(1_500)).replace(".", "").split()
    base = identities(" ".join(words))
    chance = random.Random(2)
    for _ in range(10):
        changed = list(words)
        changed[chance.randrange(len(words))] = "something else"
        assert len(identities(" ".join(changed)) - base) <= 3


def test_chinese_is_measured_by_its_characters_not_by_quarters_of_them() -> None:
    chance = random.Random(3)
    sentences = [
        "".join(chr(0x4E00 + chance.randrange(3_000)) for _ in range(chance.randint(8, 30))) + "。" for _ in range(900)
    ]
    text = "\n\n".join("".join(sentences[at : at + 4]) for at in range(0, 900, 4))
    chunks = chunk_markdown(document(text))
    mean = sum(len(chunk.text) for chunk in chunks) / len(chunks)
    assert 250 <= mean <= 500  # characters; counted as a quarter token each they came four times as large


def test_a_heading_is_never_parted_from_what_it_heads() -> None:
    # Introductions about as long as the window: their heading stands too near the beginning to be cut at, what follows
    # it does not.
    for words in range(60, 130):
        introduction = " ".join(["word"] * words * 2)
        text = "\n\n".join([introduction, "## Section", *paragraphs(12, seed=words, words=20)])
        for chunk in chunk_markdown(document(text)):
            assert not chunk.text.rstrip().endswith("## Section")


def test_heading_paths_and_breaks_follow_the_outline() -> None:
    long = "\n\n".join(paragraphs(8))
    text = f"# Book\n\n{long}\n\n## Part one\n\n{long}\n\n### Deep\n\n{long}\n\n## Part two\n\n{long}\n"
    chunks = chunk_markdown(document(text))
    assert {chunk.title for chunk in chunks} == {"Book"}
    assert [*dict.fromkeys(chunk.heading_path for chunk in chunks)] == [None, "Part one", "Part one › Deep", "Part two"]
    assert len({chunk.break_key for chunk in chunks}) == 3  # level three is no break


def test_identical_bodies_are_told_apart_by_their_occurrence() -> None:
    section = "\n\n".join(paragraphs(6))
    text = "\n\n".join(f"# Same\n\n{section}" for _ in range(3))
    chunks = chunk_markdown(document(text))
    bodies = [(chunk.body_hash, chunk.position) for chunk in chunks]
    assert len(set(bodies)) == len(bodies)
    assert max(position for _, position in bodies) >= 1


_line = st.one_of(
    st.just(""),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\0"), max_size=80).map(
        lambda text: text.replace("\n", " ")
    ),
    st.sampled_from(
        ["# One", "## Two", "---", "===", "```", "~~~~", "- item", "1. first", "> quoted", "\t", "    code"]
    ),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_line, max_size=60), st.sampled_from(list(Markup)), st.integers(1, 4))
def test_any_text_is_kept_whole_and_each_chunk_is_its_place(lines: list[str], markup: Markup, times: int) -> None:
    text = "\n".join(lines * times)
    item = canonicalize_document(
        text, item_key="a", name="a", place={"path": "a"}, content_hash="h", markup=markup, modified_ms=None
    )
    chunks = chunk_markdown(item)
    source = item.sections[0].lines if item.sections else []
    for chunk in chunks:
        assert chunk.text.strip()
        place = "\n".join(source[chunk.locator["line"] - 1 : chunk.locator["end_line"]])
        assert chunk.text in place
    kept = "".join("".join(chunk.text.split()) for chunk in chunks)
    assert kept == "".join("".join(source).split())


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(NEVER, 3), st.integers(0, 5)), min_size=1, max_size=120),
    st.integers(1, 60),
)
def test_cuts_stand_a_window_apart_and_depend_on_their_surroundings_alone(
    rows: list[tuple[int, int, int]], window: int
) -> None:
    starts = [0]
    for size, _, _ in rows:
        starts.append(starts[-1] + size)
    pieces = Pieces(starts, [rank for _, rank, _ in rows], [value for _, _, value in rows])
    points = cut(pieces, 0, len(rows), window=window, maximum=10**9, levels=(0,))
    assert points[0] == 0
    assert points == sorted(set(points))
    for left, right in pairwise(points):
        assert starts[right] - starts[left] >= window
        assert pieces.ranks[right] >= 0
