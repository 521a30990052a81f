"""What no answer may tell, and how much it may hold at most, seen without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.actions import assistants, assistants_levels
from agent.actions.assistants_paging import ANSWER_CHARS, size_of
from agent.actions.home import open_home
from agent.errors import UsageFault
from agent.gateway.mcp.wording import in_words
from agent.ids import content_hash
from agent.paths import Paths


@pytest.mark.parametrize("words", ["heron-diary", "much of heron-diary is gone", "/x/heron-diary cannot be read"])
def test_the_agents_reason_does_not_name_a_private_source(
    grown: Paths, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.actions import glance

    real = glance.glance
    monkeypatch.setattr(glance, "glance", lambda home: replace(real(home), reason=words))
    with open_home(grown) as home:
        found = assistants.status(home)
        assert "heron" not in json.dumps(in_words(found))
        assert "sapwood status" in found.reason


def test_an_error_about_a_source_names_only_those_that_may_be_read(grown: Paths) -> None:
    with open_home(grown) as home, pytest.raises(UsageFault) as caught:
        assistants.search_memory(home, "key", source="heron-diary-2")
    assert "club-mail" in caught.value.hint
    assert "diary" not in caught.value.hint


def test_every_node_of_every_readable_source_is_reached_and_no_other(grown: Paths) -> None:
    with open_home(grown) as home:
        reached: set[str] = set()
        below: list[str | None] = [None]
        while below:
            at, cursor = below.pop(), None
            while True:
                level = assistants.drill_down(home, at, cursor=cursor)
                assert size_of(level) <= ANSWER_CHARS
                below += [source.source_id for source in level.sources]
                for node in level.nodes:
                    assert node.id not in reached
                    reached.add(node.id)
                    if node.kind == "summary":
                        below.append(node.id)
                cursor = level.next_cursor
                if cursor is None:
                    break
        held = home.connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE source_id <> 'heron-diary'")
        dropped = home.connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE lifecycle = 'dropped'")
        hidden = home.connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE source_id = 'heron-diary'")
        assert {row[0] for row in held} - {row[0] for row in dropped} <= reached
        assert not reached & {row[0] for row in hidden}


def test_a_long_text_is_fetched_in_pieces_that_are_the_whole(grown: Paths) -> None:
    text = "".join(f'Line {number} says "hello"\\ \t 漢字 and goes on.\n' for number in range(2_000))
    with open_home(grown) as home:
        chunk = home.connection.value("SELECT chunk_id FROM mem_tree_chunks WHERE source_id = 'notes' LIMIT 1")
        home.connection.run("UPDATE mem_tree_chunks SET text = ? WHERE chunk_id = ?", (text, chunk))
        pieces, cursor = [], None
        while True:
            found = assistants.fetch(home, chunk, cursor=cursor)
            assert size_of(found) <= ANSWER_CHARS
            assert found.offset == sum(map(len, pieces))
            pieces.append(found.text)
            cursor = found.next_cursor
            if cursor is None:
                break
        assert "".join(pieces) == text
        assert found.characters == len(text)
        first = assistants.fetch(home, chunk).next_cursor
        home.connection.run("UPDATE mem_tree_chunks SET text = ? WHERE chunk_id = ?", (text[::-1], chunk))
        with pytest.raises(UsageFault, match="cursor"):
            assistants.fetch(home, chunk, cursor=first)
        assert content_hash(text) != content_hash(text[::-1])


def test_an_answer_stays_in_bounds_with_the_longest_titles_and_texts(grown: Paths) -> None:
    with open_home(grown) as home:
        home.connection.run(
            "UPDATE mem_tree_chunks SET title = ?, author = ?, text = text || ?, heading_path = ?",
            ("T" * 9_000, "A" * 9_000, ' "key" \\ \n\x01' * 3_000, "H" * 9_000),
        )
        home.connection.run("UPDATE mem_tree_summaries SET title = ?", ("S" * 9_000,))
        seen: list[str] = []
        cursor = None
        while True:
            page = assistants.search_memory(home, "greenhouse", limit=20, cursor=cursor)
            assert page.hits
            assert size_of(page) <= ANSWER_CHARS
            seen += [hit.id for hit in page.hits]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) > 8
        for id in (seen[0], page.hits[-1].id):
            assert size_of(assistants.fetch(home, id)) <= ANSWER_CHARS
        found: Any = assistants.drill_down(home, "club-mail")
        assert size_of(assistants.drill_down(home, found.nodes[0].id)) <= ANSWER_CHARS


def test_a_walk_through_what_has_changed_since_is_refused_and_leaves_nothing_out_unsaid(
    grown: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants_levels, "PAGE_NODES", 1)
    with open_home(grown) as home:
        top = assistants.drill_down(home, "notes").nodes[0].id
        first = assistants.drill_down(home, top)
        assert first.next_cursor is not None
        second = assistants.drill_down(home, top, cursor=first.next_cursor)
        assert second.nodes[0].id != first.nodes[0].id
        home.connection.run("DELETE FROM mem_tree_edges WHERE node_id = ?", (first.nodes[0].id,))
        with pytest.raises(UsageFault, match="cursor"):
            assistants.drill_down(home, top, cursor=first.next_cursor)
