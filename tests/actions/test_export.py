"""The memory as linked Markdown: whole, linked, harmless, and the same again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.actions.export_folder import LIST
from agent.actions.exporting import Exported, export
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.errors import AgentFault, UsageFault
from agent.paths import Paths, paths_under
from agent.queue import LocalContext, Registry, drain_until_idle
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES

EVIL = """\
---
title: 'x]] --- <b>'
---
# Title ]] | # ^ <script>alert(1)</script> `tick %% $

Some words ]] [[Nowhere]] and ![[Nowhere too]] about the garden and its many beds.

---
```dataviewjs
dv.pages()
```
````
~~~~~
<script>alert(2)</script> <% tp.system %> ``````
"""
MAIL = """\
From: Greta <greta@example.org>
To: Marta <marta@example.org>
Subject: {subject}
Message-ID: <{number}@example.org>
Date: Mon, 03 Mar 2025 10:00:00 +0000

The quinces of tree number {number} are ripe now, and they must be picked before the weekend.
"""
LINK = re.compile(r"\[\[([^\]|#]+)(?:#\^([\w-]+))?(?:\|([^\]]*))?\]\]")
FENCE = re.compile(r"^(`{3,})text$")


def grow(paths: Paths) -> None:
    with open_home(paths) as home:
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        drain_until_idle(context, Registry.load(KIND_NAMES), flush=close_all_tails)


@pytest.fixture(scope="session")
def grown_garden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grown memory: hostile notes, names that clash, a mailbox."""
    tmp_path = tmp_path_factory.mktemp("garden")
    paths = paths_under(tmp_path / "home").make()
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "evil.md").write_text(EVIL)
    (notes / "CON.old.txt").write_text("The console of the greenhouse was replaced in spring by Tobias Renner.")
    (notes / "Plan.md").write_text("The plan for plot seven: beans along the fence, and a new gate.")
    (notes / "plan.md").write_text("Another plan, this one for the brook behind the signal hut.")
    (notes / "中秋茶会.md").write_text("# 中秋茶会\n\n今年的茶会在信号小屋举行，大家都带了月饼和桂花茶。")
    (notes / f"{'lang ' * 40}.txt"[-200:]).write_text("A name that is longer than a file of an encrypted home may be.")
    (notes / "long.md").write_text(
        "".join(f"## Part {n}\n\n{'Beans and peas grow well. ' * 60}\n\n" for n in range(12))
    )
    with (tmp_path / "box.mbox").open("w") as stream:
        for number in range(12):
            subject = "Quinces ]] [[x]]" if number % 2 else "CON"
            stream.write(f"From x Mon Mar  3 10:00:00 2025\n{MAIL.format(number=number, subject=subject)}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
        with open_home(paths) as home:
            add(home, [str(notes)], name="My notes")
            add(home, [str(tmp_path / "box.mbox")], name="nul")
        grow(paths)
    return tmp_path / "home"


@pytest.fixture
def garden(grown_garden: Path, tmp_path: Path) -> Paths:
    return paths_under(Path(shutil.copytree(grown_garden, tmp_path / "home")))


def write(paths: Paths, folder: Path, said: Callable[[int, int], object] = lambda done, total: None) -> Exported:
    with open_home(paths) as home:
        return export(home, str(folder), said)


@contextmanager
def changed(paths: Paths) -> Iterator[Callable[[str], int]]:
    with open_home(paths) as home, home.connection.write() as connection:
        yield connection.run


def tree_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outside_and_inside(text: str) -> tuple[list[str], list[str]]:
    """Return the lines that Markdown acts on, and the bodies of the fences."""
    lines, bodies, fence, body = [], [], "", []
    for line in text.split("\n"):
        if fence:
            if line == fence:
                bodies.append("\n".join(body))
                fence = ""
            else:
                body.append(line)
        elif match := FENCE.match(line):
            fence, body = match[1], []
        else:
            lines.append(line)
    assert not fence, "a fence is not closed"
    return lines, bodies


def links_in(out: Path) -> list[tuple[str, str, str]]:
    """Return all links of an export; fail where one leads nowhere, or where nothing leads to a note."""
    notes = {path.stem: outside_and_inside(path.read_text())[0] for path in out.rglob("*.md")}
    links = [found for lines in notes.values() for line in lines for found in LINK.findall(line)]
    assert sum(line.count("[[") for lines in notes.values() for line in lines) == len(links)
    for name, place, _ in links:
        assert name in notes, name
        assert not place or sum(line.endswith(f" ^{place}") for line in notes[name]) == 1
    assert {name for name, _, _ in links} >= notes.keys() - {"Sapwood"}
    return links


def test_every_link_leads_to_a_note_and_to_a_passage_in_it(garden: Paths, tmp_path: Path) -> None:
    write(garden, tmp_path / "out")
    assert len(links_in(tmp_path / "out")) > 50


def test_links_of_a_memory_that_is_still_growing_lead_somewhere_too(garden: Paths, tmp_path: Path) -> None:
    with changed(garden) as run:
        run(
            """
            DELETE FROM mem_tree_summaries
             WHERE summary_id IN (SELECT node_id FROM mem_tree_edges WHERE parent_id <> '' AND node_kind = 'summary')
            """
        )
        run("DELETE FROM mem_tree_chunks WHERE seq % 3 = 0")
    write(garden, tmp_path / "out")
    assert len(links_in(tmp_path / "out")) > 20


def test_every_passage_is_in_it_exactly_once_word_for_word(garden: Paths, tmp_path: Path) -> None:
    found = write(garden, tmp_path / "out")
    bodies: list[str] = []
    for path in (tmp_path / "out").glob("*/items/*.md"):
        bodies += outside_and_inside(path.read_text())[1]
    with open_home(garden) as home:
        held = [text for (text,) in home.connection.all("SELECT text FROM mem_tree_chunks")]
        summaries = home.connection.all("SELECT summary_id, text FROM mem_tree_summaries")
    assert sorted(bodies) == sorted(held)
    assert found.passages == len(held) > 20
    for summary_id, text in summaries:
        (note,) = (tmp_path / "out").glob(f"*/summaries/*{summary_id[:12]}.md")
        assert outside_and_inside(note.read_text())[1] == [text]


def test_parents_and_children_name_each_other(garden: Paths, tmp_path: Path) -> None:
    write(garden, tmp_path / "out")
    with open_home(garden) as home:
        edges = home.connection.all(
            "SELECT node_id, parent_id FROM mem_tree_edges WHERE parent_id <> '' AND parent_id <> node_id"
        )
    texts = {path: path.read_text() for path in (tmp_path / "out").rglob("*.md")}
    assert len(edges) > 20
    for child, parent in edges:
        (above,) = (text for path, text in texts.items() if path.stem.endswith(parent[:12]))
        assert f"^p{child[:12]}|" in above or f" {child[:12]}|" in above
        below = [text for path, text in texts.items() if f"^p{child[:12]}\n" in text or path.stem.endswith(child[:12])]
        assert any(f" {parent[:12]}|" in text for text in below)


def test_nothing_that_others_wrote_breaks_out_of_its_place(garden: Paths, tmp_path: Path) -> None:
    write(garden, tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.md"):
        text = path.read_text()
        lines, _ = outside_and_inside(text)
        head = lines[1 : lines.index("---", 1)] if lines[0] == "---" else []
        for line in head:
            name, _, value = line.partition(": ")
            assert re.fullmatch("[a-z_]+", name)
            json.loads(value)
        for line in lines[len(head) + 2 if head else 0 :]:
            assert not re.search(r"(?<!\\)<|(?<!\\)`|(?<!\\)%|(?<!\\)\$", line), line
            assert line not in ("---", "===")
            assert "Nowhere" not in line


def test_names_are_taken_by_every_file_system(garden: Paths, tmp_path: Path) -> None:
    write(garden, tmp_path / "out")
    paths = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*")]
    folded = [str(path).casefold() for path in paths]
    assert len(set(folded)) == len(folded)
    for path in paths:
        assert len(path.name.encode()) <= 143
        assert not re.search(r'[<>:"\\|?*\[\]#^\x00-\x1f]', path.name)
        assert not re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)", path.name.partition(".")[0].strip())
        assert path.name.rstrip(". ") == path.name
    assert any(path.name.startswith("中秋茶会 ") for path in paths)
    assert sum(path.name.casefold().startswith("plan ") for path in paths) == 2


def test_the_same_memory_gives_the_same_files_and_writes_none_of_them_again(garden: Paths, tmp_path: Path) -> None:
    first = write(garden, tmp_path / "one")
    write(garden, tmp_path / "two")
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "two")
    again = write(garden, tmp_path / "one")
    assert (again.files, again.written, again.removed) == (first.files, 0, 0)
    assert first.files == first.written == sum(name.endswith(".md") for name in tree_of(tmp_path / "one"))


def test_a_second_export_replaces_the_first_and_touches_nothing_else(garden: Paths, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(garden, out)
    mine = out / "My own note.md"
    mine.write_text("mine")
    (out / "my-notes" / "items" / "beside.md").write_text("mine too")
    shutil.rmtree(next(out.glob("nul-*")))
    with changed(garden) as run:
        run("UPDATE mem_tree_items SET title = 'Renamed' WHERE item_key = 'evil.md'")
        run("DELETE FROM mem_tree_chunks WHERE item_key = 'Plan.md'")
    found = write(garden, out)
    assert found.removed == 2
    assert mine.read_text() == "mine"
    assert (out / "my-notes" / "items" / "beside.md").exists()
    assert len(list(out.glob("my-notes/items/Renamed *.md"))) == 1
    fresh = tmp_path / "fresh"
    write(garden, fresh)
    kept = tree_of(out)
    assert {name: text for name, text in kept.items() if "own note" not in name and "beside" not in name} == tree_of(
        fresh
    )


def test_an_export_that_was_cut_short_is_cleared_up_by_the_next(garden: Paths, tmp_path: Path) -> None:
    class Cut(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done == total // 2:
            raise Cut

    out = tmp_path / "out"
    with pytest.raises(Cut):
        write(garden, out, cut)
    with (out / LIST).open("a") as stream:
        stream.write('"my-notes/items/torn')
    with changed(garden) as run:
        run("UPDATE mem_tree_items SET title = 'Other ' || title")
    write(garden, out)
    write(garden, tmp_path / "fresh")
    assert tree_of(out) == tree_of(tmp_path / "fresh")


def test_a_folder_that_holds_something_else_is_refused(garden: Paths, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.md").write_text("years of work")
    with pytest.raises(UsageFault, match="not empty") as caught:
        write(garden, out)
    assert caught.value.hint
    assert tree_of(out) == {"thesis.md": b"years of work"}
    with pytest.raises(UsageFault, match="needs a folder"):
        write(garden, out / "thesis.md")
    with pytest.raises(UsageFault, match="Sapwood's own"):
        write(garden, garden.data_dir / "out")
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    assert write(garden, tmp_path / "vault").files


def test_neither_a_file_in_the_way_nor_one_outside_is_written_or_removed(garden: Paths, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(garden, out)
    outside = tmp_path / "outside.md"
    outside.write_text("mine")
    with (out / LIST).open("a") as stream:
        stream.write(f'\n"../outside.md"\n"{outside.as_posix()}"\n"my-notes/../../outside.md"\n')
    write(garden, out)
    assert outside.read_text() == "mine"
    (note,) = out.glob("my-notes/items/plan *.md")
    (out / LIST).write_text((out / LIST).read_text().replace(json.dumps(note.relative_to(out).as_posix()) + "\n", ""))
    note.write_text("the owner's by now")
    with pytest.raises(AgentFault, match="another file has the name"):
        write(garden, out)
    assert note.read_text() == "the owner's by now"
    elsewhere = tmp_path / "elsewhere"
    (out / "my-notes").rename(elsewhere)
    (out / "my-notes").symlink_to(elsewhere)
    with pytest.raises(AgentFault, match="leads elsewhere"):
        write(garden, out)
    (out / "my-notes").unlink()
    (out / LIST).rename(tmp_path / "list")
    (out / LIST).symlink_to(tmp_path / "list")
    held = (tmp_path / "list").read_bytes()
    with pytest.raises(AgentFault, match="leads elsewhere"):
        write(garden, out)
    assert (tmp_path / "list").read_bytes() == held


def test_notes_are_for_their_owner_alone_and_are_never_read_as_a_source(garden: Paths, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(garden, out)
    assert {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [out, *out.rglob("*")] if path.is_dir()} == {0o700}
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "mine.md").write_text("The one note that its owner wrote into the vault by hand.")
    write(garden, tmp_path / "vault" / "Garden")
    with open_home(garden) as home:
        assert add(home, [str(tmp_path / "vault")]).items == 1


def test_a_source_with_thousands_of_items_has_lists_of_a_thousand(
    garden: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.actions.export_source.LISTED", 5)
    write(garden, tmp_path / "out")
    lists = sorted((tmp_path / "out").rglob("Sapwood * items *.md"))
    assert len(lists) == 2 + 3
    items = len(list((tmp_path / "out").glob("*/items/*.md")))
    assert sum(path.read_text().count("\n- [[") for path in lists) == items


def test_an_empty_memory_says_so(paths: Paths, tmp_path: Path) -> None:
    assert write(paths, tmp_path / "out").files == 1
    assert "Nothing is remembered yet." in (tmp_path / "out" / "Sapwood.md").read_text()


def test_a_memory_of_many_pages_is_exported_whole(
    garden: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(garden, tmp_path / "one")
    with changed(garden) as run:
        # Items of one place in the order lie on both sides of the end of a page.
        run("UPDATE mem_tree_items SET sort_key = x'01' WHERE source_id = 'nul'")
    write(garden, tmp_path / "one")
    monkeypatch.setattr("agent.actions.exporting.PAGE", 5)
    write(garden, tmp_path / "pages")
    assert tree_of(tmp_path / "pages") == tree_of(tmp_path / "one")


def test_a_summary_that_went_up_a_level_as_itself_has_the_next_one_above_it(garden: Paths, tmp_path: Path) -> None:
    with open_home(garden) as home:
        summary, parent = home.connection.all(
            """
            SELECT e.node_id, e.parent_id
              FROM mem_tree_edges AS e
              JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
             WHERE t.kind = 'source' AND e.node_kind = 'summary' AND e.parent_id NOT IN ('', e.node_id)
            """
        )[0]
        row = "node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break, last_key, provisional"
        with home.connection.write() as connection:
            connection.run(
                "UPDATE mem_tree_edges SET level = level + 40 WHERE node_id = ? AND parent_id = ?", (summary, parent)
            )
            connection.run(
                f"INSERT INTO mem_tree_edges (tree_seq, level, sort_key, parent_id, {row}) "
                f"SELECT tree_seq, level - 1, sort_key, node_id, {row} FROM mem_tree_edges "
                "WHERE node_id = ? AND parent_id = ?",
                (summary, parent),
            )
    write(garden, tmp_path / "out")
    (note,) = (tmp_path / "out").rglob(f"*{summary[:12]}.md")
    (above,) = re.findall(r"^Above it: \[\[(.+?)\|", note.read_text(), re.MULTILINE)
    assert above.endswith(parent[:12])
