"""Front matter, wikilinks and heading paths of notes."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from agent.ingest.canonical import BlockKind
from agent.ingest.front_matter import read_front_matter
from agent.ingest.markdown import Markup, read_outline
from tests.ingest.conftest import Memory


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type, misc]


def headings(text: str) -> list[str]:
    return [
        block.heading_path or "" for block in read_outline(text.split("\n")).blocks if block.kind is BlockKind.HEADING
    ]


YAML = """---
title: "Onion: a plan"
date: 2024-05-01T09:30:00+02:00
modified: 2024-06-01
author: [Ada Lovelace, 'Bob B.']
tags:
  - garden
  - spring/onion-beds
aliases: [Allium cepa, "the smelly bed"]
publish: true
rating: 4
summary: >
  Where the onions go
  and where they do not.
cssclasses: wide
---

# Beds

Three rows.
"""

TOML = """+++
title = "Onion: a plan"
date = 2024-05-01T07:30:00Z
draft = false
authors = ["Ada Lovelace", "Bob B."]
tags = [
  "garden",
  "spring/onion-beds",
]
[taxonomies]
aliases = ["Allium cepa"]
+++

# Beds

Three rows.
"""


@pytest.mark.parametrize("note", [YAML, TOML])
def test_front_matter_gives_title_time_and_author_and_only_its_words_are_kept(memory: Memory, note: str) -> None:
    memory.write("a.md", note)
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    (chunk,) = memory.chunks()
    assert chunk["title"] == "Onion: a plan"
    assert chunk["time_ms"] == ms(2024, 5, 1, 7, 30)
    assert chunk["author"] == "Ada Lovelace, Bob B."
    for word in ("garden", "spring/onion-beds", "Allium cepa", "Three rows."):
        assert word in chunk["text"]
    for noise in ("title", "date", "2024", "publish", "draft", "rating", "wide", "---", "+++", "taxonomies", "false"):
        assert noise not in chunk["text"]
    # What is left still stands where it stands in the file.
    lines = note.split("\n")
    first = chunk["locator"]["line"]
    assert lines[first - 1] == chunk["text"].split("\n")[0]
    assert lines[chunk["locator"]["end_line"] - 1] == "Three rows."
    found = memory.connection.all("SELECT rowid FROM mem_tree_text WHERE mem_tree_text MATCH 'cepa'")
    assert len(found) == 1


@pytest.mark.parametrize(
    ("matter", "title", "author", "time_ms"),
    [
        ("title: Plain words", "Plain words", None, None),
        ("title: 'It''s one'  # no comment", "It's one", None, None),
        ("Title : Caps", "Caps", None, None),
        ("title: a #hashtag", "a", None, None),
        ("title: C# for beginners", "C# for beginners", None, None),
        ("title:\n  Below it", "Below it", None, None),
        ("created: 2024-05-01", None, None, ms(2024, 5, 1, 12)),
        ("Date Created: 2024/5/1 10:15", None, None, ms(2024, 5, 1, 10, 15)),
        ("created: 2023-01-01\ndate: 2024-05-01", None, None, ms(2024, 5, 1, 12)),
        ("date: 2024-13-45\ncreated: 2024-05-01 23:59:30-0500", None, None, ms(2024, 5, 2, 4, 59, 30)),
        ("date: yesterday", None, None, None),
        ("authors:\n- name: Ada\n- name: Bob", None, "Ada, Bob", None),
        ("author: ''\ntitle: ''", None, None, None),
    ],
)
def test_what_a_note_says_of_itself_is_understood(
    matter: str, title: str | None, author: str | None, time_ms: int | None
) -> None:
    found = read_front_matter(f"---\n{matter}\n---\ntext".split("\n"))
    assert found is not None
    assert (found.title, found.author, found.time_ms) == (title, author, time_ms)


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, then words.\n\n---\nMore: words",
        "---\nNo entry in here\n---\n",
        "---\ntitle: never closed\n\n# A heading\n",
        "---\ntitle: one\nand a sentence that is none of it.\n---\n",
        "---\n---\n",
        "\n---\ntitle: not at the top\n---\n",
        "+++\n",
        "- a list\n- title: x",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    outline = read_outline(text.split("\n"))
    assert read_front_matter(text.split("\n")) is None
    assert outline.blank == ()
    held = {line for block in outline.blocks for line in range(block.line, block.end_line + 1)}
    assert {number for number, line in enumerate(text.split("\n"), 1) if line.strip()} <= held


def test_a_note_that_is_nothing_but_front_matter_is_found_by_its_tags(memory: Memory) -> None:
    memory.write("a.md", "---\ntitle: Stub\ntags: [someday, maybe]\n---\n")
    memory.write("b.md", "---\ntitle: Nothing else\ndraft: true\n---\n")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert [chunk["text"] for chunk in memory.chunks()] == ["tags: [someday, maybe]"]
    assert memory.connection.value("SELECT title FROM mem_tree_items WHERE item_key = 'b.md'") == "Nothing else"


def test_wikilinks_are_found_by_the_words_of_either_side(memory: Memory) -> None:
    text = "See [[Heron Project#Budget]], [[Ada Lovelace|the countess]] and ![[old map.png]]."
    memory.write("a.md", text)
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert [chunk["text"] for chunk in memory.chunks()] == [text]
    for words in ("Heron", "Budget", "Lovelace", "countess", '"old map"', '"ada lovelace"'):
        found = memory.connection.all("SELECT rowid FROM mem_tree_text WHERE mem_tree_text MATCH ?", (words,))
        assert len(found) == 1, words


@pytest.mark.parametrize(
    ("heading", "path"),
    [
        ("# On [[Heron Project]]", "On Heron Project"),
        ("# On [[Heron Project|the birds]] again", "On the birds again"),
        ("## [[Heron Project#Budget]]", "Heron Project Budget"),
        ("# ![[map.png]] and [a link](https://example.org/x)", "map.png and a link"),
        ("# [[#Below]]", "Below"),
        ("# [[ unfinished", "[[ unfinished"),
        ("# **Strong** and `code` #", "Strong and code"),
    ],
)
def test_a_heading_reads_as_it_is_shown(heading: str, path: str) -> None:
    assert headings(heading) == [path]


def test_heading_paths_follow_both_kinds_of_headings() -> None:
    text = "Top\n===\n\n## One\n\ntext\n\n### Deep\n\nOne\n---\n\n#### Skipped a level\n\n# End\n\n# End\n"
    assert headings(text) == [
        "Top",
        "Top › One",
        "Top › One › Deep",
        "Top › One",
        "Top › One › Skipped a level",
        "End",
        "End",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n# a comment\n```",
        "~~~~\n~~~\n# in it\n~~~\n~~~~",
        "````md\n```\n# in it\n```\n````",
        "- item\n\n  ```\n  # in an item\n  ```",
        "    # indented code",
        "> # A heading in a quotation",
        "> [!note] # A callout\n> ## in it\n> ---",
        "> quoted\n---",
        "| a | b |\n---",
        "<!--\n# commented out\n\n## and this\n-->",
        "%%\n# a comment of Obsidian\n\nmore\n%%",
        "#tag at the beginning",
        "#",
        "- a list\n---",
        "%% # on one line %%",
        "<!-- # on one line -->",
    ],
)
def test_what_is_no_heading_of_the_note_is_in_no_path(text: str) -> None:
    outline = read_outline([*text.split("\n"), "", "# After", "", "words"])
    assert [block.heading_path for block in outline.blocks if block.kind is BlockKind.HEADING] == ["After"]
    held = {line for block in outline.blocks for line in range(block.line, block.end_line + 1)}
    assert set(range(1, text.count("\n") + 2)) - held <= {
        number for number, line in enumerate(text.split("\n"), 1) if not line.strip()
    }


def test_a_comment_that_is_never_closed_swallows_no_heading() -> None:
    assert headings("<!-- begun\n\n# A heading\n\n%%\n\n# Another\n") == ["A heading", "Another"]


@pytest.mark.parametrize("line", ["<!--", "%%", "%% x", "<!-- x", "> [!", "[[" * 50, "---", "+++", "![[" * 30 + "|"])
@pytest.mark.parametrize("markup", [Markup.MARKDOWN, Markup.PLAIN])
def test_hostile_notes_cost_their_length(line: str, markup: Markup) -> None:
    begun = time.process_time()
    read_outline([line] * 60_000 + ["# end"], markup)
    read_outline(["# " + line * 2_000] * 20, markup)
    assert time.process_time() - begun < 5


def test_front_matter_of_hostile_lines_costs_its_length() -> None:
    begun = time.process_time()
    for line in (
        "a" * 30_000 + ":",
        "[" * 30_000,
        "a: " + "[" * 30_000,
        "a: '" + "''" * 30_000,
        " " * 30_000 + "x",
    ):
        read_front_matter(["---", *[line] * 150, "---"])
        read_front_matter(["---", "a: b", *[line] * 150, "---"])
    assert time.process_time() - begun < 5


def test_names_in_links_are_the_names_alone() -> None:
    from agent.models.builtin.entities import entities

    found = {entity.name for entity in entities("On Tuesday [[Ada Lovelace|Ada]] met [[Grace Hopper]] there.")}
    assert found == {"ada lovelace", "ada", "grace hopper"}
