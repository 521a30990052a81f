"""How the two sides become one order, and which words are looked up besides those that were typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agent.db import Connection
from agent.models.builtin.embedding import BuiltinEmbedder
from agent.models.protocol import KnowsNearWords
from agent.recall import query as asking
from agent.recall.fusion import Candidate, fuse
from agent.recall.query import parse_query, with_near_words, without_common_terms
from tests.recall.conftest import HashEmbedder, Memory

Found = Callable[..., list[str]]


def _leaf(node: int, kind: str = "document", item: int | None = None, time_ms: int = 0) -> Candidate:
    return Candidate(node, f"{node:032x}", kind, time_ms, node if item is None else item)


def _order(hits: list[tuple[Candidate, float]]) -> list[int]:
    return [candidate.node for candidate, _ in hits]


def test_how_far_a_text_is_behind_counts_not_only_its_place() -> None:
    leaves = [_leaf(1), _leaf(2), _leaf(3)]
    near_tie = fuse({1: 10.0, 2: 9.9, 3: 1.0}, {1: 0.5, 2: 0.6, 3: 0.3}, leaves)
    far_behind = fuse({1: 10.0, 2: 5.0, 3: 1.0}, {1: 0.5, 2: 0.6, 3: 0.3}, leaves)
    assert _order(near_tie) == [2, 1, 3]
    assert _order(far_behind) == [1, 2, 3]
    assert all(0 <= score <= 1 for _, score in near_tie)


def test_meaning_counts_less_on_a_chat() -> None:
    words, meaning = {1: 8.0, 2: 10.0}, {1: 0.9, 2: 0.3}
    assert _order(fuse(words, meaning, [_leaf(1), _leaf(2)])) == [1, 2]
    assert _order(fuse(words, meaning, [_leaf(1, "chat"), _leaf(2, "chat")])) == [2, 1]


def test_words_alone_are_all_there_is_where_meaning_is_silent() -> None:
    (_, best), (_, half) = fuse({1: 10.0, 2: 5.0}, None, [_leaf(1, "email"), _leaf(2, "email")])
    assert half == pytest.approx(best / 2, abs=1e-5)


def test_a_page_that_answers_elsewhere_too_comes_before_one_that_does_not() -> None:
    leaves = [_leaf(1, item=7), _leaf(2, item=8), _leaf(3, item=8)]
    assert _order(fuse({1: 10.0, 2: 9.8, 3: 9.0}, None, leaves)) == [2, 3, 1]


def test_a_page_is_opened_where_it_begins_if_its_texts_are_equally_good() -> None:
    leaves = [_leaf(1, item=7), Candidate(2, "f" * 32, "document", 0, 7, first=True), _leaf(3, item=7)]
    assert _order(fuse({1: 10.0, 2: 10.0, 3: 10.0}, None, leaves))[0] == 2
    mails = [_leaf(1, "email", item=7), Candidate(2, "f" * 32, "email", 0, 7, first=True)]
    assert _order(fuse({1: 10.0, 2: 10.0}, None, mails)) == [1, 2]


def test_what_one_side_is_sure_of_comes_before_what_both_find_middling() -> None:
    words, meaning = {1: 3.0, 2: 6.0, 3: 10.0}, {1: 0.9, 2: 0.5, 3: 0.3}
    hits = _order(fuse(words, meaning, [_leaf(1), _leaf(2), _leaf(3)]))
    assert hits.index(1) < hits.index(2)


def test_words_that_stand_together_in_the_question_are_better_together_in_a_text(memory: Memory, found: Found) -> None:
    filling = "and more of it " * 9
    apart = memory.chunk(f"the argument {filling} default here", item_key="a.md")
    together = memory.chunk(f"the default argument {filling} here", item_key="b.md")
    assert parse_query("default argument").pairs() == 'NEAR("default" "argument", 4)'
    assert parse_query("argument").pairs() == ""
    assert found("default argument") == [together, apart]


def test_turns_of_one_day_do_not_support_each_other() -> None:
    leaves = [_leaf(1, "chat", item=7), _leaf(2, "chat", item=8), _leaf(3, "chat", item=8)]
    assert _order(fuse({1: 10.0, 2: 9.8, 3: 9.0}, None, leaves)) == [1, 2, 3]


def test_near_words_find_what_was_called_by_another_name(
    memory: Memory, found: Found, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = memory.chunk("Copy the directory tree with everything below it, to another disk, as often as you like.")
    memory.chunk("Nothing of the kind is said here, about anything at all, by anyone.", item_key="other.md")
    assert found("folder") == []

    def near_words(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {"folder": ("folders", "directory")}

    monkeypatch.setattr(embedder, "near_words", near_words, raising=False)
    assert isinstance(embedder, KnowsNearWords)
    assert found("folder") == [wanted]
    embedder.trusted = False
    assert found("folder") == []


def test_the_words_that_were_typed_come_before_those_that_are_near(
    memory: Memory, found: Found, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = memory.chunk("a directory", item_key="a.md")
    typed = memory.chunk("a folder", item_key="b.md")
    monkeypatch.setattr(embedder, "near_words", lambda words: {"folder": ("directory",)}, raising=False)
    assert found("folder") == [typed, near]


def test_near_words_are_new_stems_few_and_rare(
    memory: Memory, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(6):
        memory.chunk("a common word here", item_key=f"{at}.md")
    memory.chunk("a rare one", item_key="rare.md")
    near = {"photos": ("photo", "photographs", "pictures", "images"), "thing": ("common", "rare")}
    query = parse_query("photos thing")
    added = with_near_words(connection, query, near, 7)
    assert added is not None
    assert added.terms == ("photographs", "pictures", "common", "rare")
    monkeypatch.setattr(asking, "NEAR_WORDS_PLACES", 3)
    bounded = with_near_words(connection, query, near, 7)
    assert bounded is not None
    assert set(bounded.terms) == {"photographs", "pictures", "rare"}
    assert with_near_words(connection, query, {}, 7) is None
    assert with_near_words(connection, query, {"photos": ("photo",)}, 7) is None


def test_terms_that_most_of_a_large_memory_has_are_left_out_but_the_two_rarest_stay(
    memory: Memory, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(8):
        memory.chunk(f"common usual {'seldom' if at < 2 else ''}", item_key=f"{at}.md")
    monkeypatch.setattr(asking, "COMMON_FLOOR", 4)
    assert without_common_terms(connection, parse_query("common seldom rare"), 8).terms == ("seldom", "rare")
    assert without_common_terms(connection, parse_query("usual common seldom"), 8).terms == ("common", "seldom")
    assert without_common_terms(connection, parse_query("usual common"), 8).terms == ("usual", "common")
    monkeypatch.setattr(asking, "COMMON_FLOOR", 100)
    assert without_common_terms(connection, parse_query("common seldom rare"), 8).terms == ("common", "seldom", "rare")


def test_the_table_knows_words_that_mean_the_same() -> None:
    near = BuiltinEmbedder().near_words(["Folder", "photos", "xyzzy", "3"])
    assert near["Folder"][0] == "directory"
    assert "pictures" in near["photos"]
    assert set(near) == {"Folder", "photos"}
    assert all(len(words) <= 8 for words in near.values())
