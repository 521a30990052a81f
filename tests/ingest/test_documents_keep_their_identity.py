"""Documents: stable ids, only what changed is new, provenance that points at the text."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent.ids import chunk_id, content_hash
from agent.ingest.markdown import read_outline
from agent.ingest.order import item_sort_key
from tests.ingest.conftest import Memory, paragraphs


def text_of(count: int, *, seed: int = 1) -> str:
    return "# Title\n\n" + "\n\n".join(paragraphs(count, seed=seed)) + "\n"


def test_ingesting_the_same_again_writes_no_row(memory: Memory) -> None:
    path = memory.write("notes/a.md", text_of(40))
    memory.add("notes", "folder", memory.folder)
    assert memory.sync() == 1
    before = memory.dump()
    memory.context.clock.sleep(3_600)
    os.utime(path)
    assert memory.sync() == 0
    after = memory.dump()
    assert after[:3] == before[:3]


def test_an_unchanged_file_costs_a_stat_and_a_touched_one_its_hash(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agent.ingest.readers.folder as folder

    path = memory.write("a.md", text_of(3))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    opened: list[str] = []
    real = folder.read_bytes
    monkeypatch.setattr(folder, "read_bytes", lambda path, limit: opened.append(path) or real(path, limit))
    memory.sync()
    assert opened == []
    os.utime(path, (1, 1))
    memory.sync()
    assert len(opened) == 1
    memory.sync()
    assert len(opened) == 1
    assert memory.items() == {"a.md": "current"}


def test_ids_depend_on_content_and_place_alone(memory: Memory) -> None:
    memory.write("sub/a.md", text_of(20))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    for chunk in memory.chunks():
        body_hash = content_hash(chunk["text"])
        assert chunk["chunk_id"] == chunk_id("document", "notes", "sub/a.md", chunk["position"], body_hash)


def test_an_edit_makes_only_the_chunks_around_it_new(memory: Memory) -> None:
    parts = paragraphs(200)
    memory.write("a.md", "\n\n".join(parts))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    before = {chunk["chunk_id"]: chunk for chunk in memory.chunks()}
    parts.insert(3, "A new paragraph stands near the top of the page.")
    memory.write("a.md", "\n\n".join(parts))
    memory.sync()
    after = memory.chunks()
    new = [chunk for chunk in after if chunk["chunk_id"] not in before]
    assert 1 <= len(new) <= 3
    for chunk in after:
        if chunk["chunk_id"] in before:
            held = before[chunk["chunk_id"]]
            assert (chunk["seq"], chunk["order_key"]) == (held["seq"], held["order_key"])
    assert [chunk["order_key"] for chunk in after] == sorted(chunk["order_key"] for chunk in after)


def test_kept_chunks_point_at_their_new_lines_after_an_edit_above_them(memory: Memory) -> None:
    parts = paragraphs(60)
    path = memory.write("a.md", "\n\n".join(parts))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    path.write_text("One more.\n\nAnd another.\n\n" + "\n\n".join(parts))
    memory.sync()
    lines = path.read_text().split("\n")
    for chunk in memory.chunks():
        assert "\n".join(lines[chunk["locator"]["line"] - 1 : chunk["locator"]["end_line"]]) == chunk["text"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "END"])
def test_line_ends_and_a_missing_last_one_change_no_place(memory: Memory, end: str, last: str) -> None:
    text = text_of(30).rstrip("\n") + last.replace("END", "\n")
    memory.write("a.md", text.replace("\n", end))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    lines = text.split("\n")
    chunks = memory.chunks()
    assert chunks
    for chunk in chunks:
        assert "\r" not in chunk["text"]
        assert "\n".join(lines[chunk["locator"]["line"] - 1 : chunk["locator"]["end_line"]]) == chunk["text"]


def test_moved_paragraphs_keep_their_ids_and_get_another_place(memory: Memory) -> None:
    first, second = "\n\n".join(paragraphs(40, seed=1)), "\n\n".join(paragraphs(40, seed=2))
    memory.write("a.md", f"# One\n\n{first}\n\n# Two\n\n{second}\n")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    before = [chunk["text"] for chunk in memory.chunks()]
    memory.write("a.md", f"# Two\n\n{second}\n\n# One\n\n{first}\n")
    memory.sync()
    after = memory.chunks()
    assert [chunk["order_key"] for chunk in after] == sorted(chunk["order_key"] for chunk in after)
    assert after[0]["text"].startswith("# Two")
    assert len(set(before) & {chunk["text"] for chunk in after}) >= len(before) - 4


def test_a_changed_title_makes_its_chunks_new_for_what_was_made_from_them_used_it(memory: Memory) -> None:
    body = "\n\n".join(paragraphs(5))
    memory.write("a.md", f"---\ntitle: Old name\n---\n\n{body}")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    memory.write("a.md", f"---\ntitle: New name\n---\n\n{body}")
    memory.sync()
    assert {chunk["title"] for chunk in memory.chunks()} == {"New name"}
    count = memory.connection.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'old'")
    assert count == 0


def test_a_document_without_words_has_no_chunk_and_says_so_to_its_tree(memory: Memory) -> None:
    memory.write("a.md", "Some words stand here.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    memory.write("a.md", "\n\n   \n")
    memory.sync()
    assert memory.chunks() == []
    assert len(memory.jobs("seal_document")) == 1
    assert memory.items() == {"a.md": "current"}


def test_each_new_chunk_has_a_score_an_index_row_and_one_extract_job(memory: Memory) -> None:
    memory.write("a.md", text_of(30))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    chunks = memory.chunks()
    assert {chunk["lifecycle"] for chunk in chunks} == {"pending_extraction"}
    assert sorted(memory.jobs("extract_chunk")) == sorted(f"extract:{chunk['chunk_id']}" for chunk in chunks)
    assert memory.connection.value("SELECT count(*) FROM mem_tree_score") == len(chunks)
    assert memory.connection.value("SELECT count(*) FROM mem_tree_text") == len(chunks)


def test_documents_are_ordered_by_path_with_a_folder_before_what_only_begins_like_it() -> None:
    names = ["a/b.md", "a/c/d.md", "a.md", "a b.md", "b.md"]
    ordered = sorted(names, key=lambda name: item_sort_key("document", name, 5))
    assert ordered == ["a/b.md", "a/c/d.md", "a b.md", "a.md", "b.md"]


def test_times_come_from_the_document_or_its_name_and_the_item_falls_back_on_the_file(memory: Memory) -> None:
    memory.write("dated.md", "---\ndate: 2024-02-03\n---\n\nWords of that day.\n")
    memory.write("2024-05-01 walk.md", "We went out.\n")
    plain = memory.write("plain.md", "No day here.\n")
    os.utime(plain, (1_600_000_000, 1_600_000_000))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    times = {chunk["item_key"]: chunk["time_ms"] for chunk in memory.chunks()}
    assert times == {"dated.md": 1_706_961_600_000, "2024-05-01 walk.md": 1_714_564_800_000, "plain.md": None}
    stored = dict(memory.connection.all("SELECT item_key, time_ms FROM mem_tree_items"))
    assert stored["plain.md"] == 1_600_000_000_000


def test_names_that_are_no_utf8_or_decomposed_are_read(memory: Memory, tmp_path: Path) -> None:
    memory.write("cafe\u0301.md", "Decomposed name.\n")
    try:
        with open(os.fsencode(str(memory.folder)) + b"/bad-\xff.md", "wb") as stream:
            stream.write(b"Undecodable name.\n")
    except OSError:
        pytest.skip("this file system takes only text as names")
    memory.add("notes", "folder", memory.folder)
    assert memory.sync() == 2
    assert set(memory.items()) == {"café.md", "bad-\\xff.md"}
    assert set(memory.items().values()) == {"current"}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8-sig", "Größe und Maß sind hier wichtig."),
        ("utf-16", "Größe und Maß, auch anders kodiert."),
        ("cp1252", "Die Größe der Straße – „wörtlich“ – überrascht später alle müden Gäste."),
        ("cp1251", "Вчера мы долго говорили о погоде и о том, что будет завтра утром в городе."),
    ],
)
def test_texts_in_other_encodings_are_read(memory: Memory, encoding: str, text: str) -> None:
    memory.write("a.txt", text.encode(encoding))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert [chunk["text"] for chunk in memory.chunks()] == [text]


@pytest.mark.parametrize(
    "lines",
    [["# " + "[" * 200_000], ["# " + "[](" * 100_000], ["```py", "x"] * 20_000],
    ids=["brackets", "links", "fences"],
)
def test_hostile_markup_costs_its_length(lines: list[str]) -> None:
    begun = time.process_time()
    outline = read_outline(lines)
    assert time.process_time() - begun < 5
    held = [line for block in outline.blocks for line in range(block.line, block.end_line + 1)]
    assert held == list(range(1, len(lines) + 1))


def test_a_fence_is_closed_by_the_next_line_of_its_marks_however_many_were_not() -> None:
    stray = ["~~~~ never closed", *["words", ""] * 300]
    outline = read_outline([*stray, "~~~", "# no heading", "~~~", "# A heading"])
    assert [(block.line, block.end_line) for block in outline.blocks[-2:]] == [(602, 604), (605, 605)]


def test_a_stray_fence_in_a_paragraph_repeats_no_line(memory: Memory) -> None:
    memory.write("a.md", "A paragraph.\n```py never closed\n" + "words\n\n" * 300)
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert "".join(chunk["text"] for chunk in memory.chunks()).count("A paragraph.") == 1
