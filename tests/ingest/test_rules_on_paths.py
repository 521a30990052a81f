"""What of a source is read is the owner's to say, in the syntax of .gitignore; the rest is left out by itself."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.config import Intent, LimitsIntent, SourceIntent
from agent.ingest.readers.folder import FolderReader
from agent.ingest.readers.protocol import FileSeen, Found, Hidden, SourceMissing
from agent.ingest.readers.registry import with_limit
from agent.ingest.readers.rules import A_LINK, ONLY_IN_THE_CLOUD, compile_patterns, stub_of, why_not_opened
from agent.ingest.readers.walk import walk
from agent.paths import Paths

REGULAR, FOLDER = 0o100644, 0o040755


def write(root: Path, *names: str, text: str = "Words.") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def source(root: Path, **more: Any) -> SourceIntent:
    return SourceIntent("notes", "folder", "notes", (str(root),), **more)


def read(intent: SourceIntent) -> list[str]:
    return [event.item_key for event in FolderReader().scan(intent, {}) if isinstance(event, Found)]


def listed(intent: SourceIntent) -> dict[str, str | None]:
    events = FolderReader().scan(intent, {})
    return {
        event.path: event.stamp.reason
        for event in events
        if isinstance(event, FileSeen) and event.stamp.state == "unreadable"
    }


def test_an_ignore_file_counts_for_its_folder_and_below_a_deeper_one_over_a_higher_one(tmp_path: Path) -> None:
    write(
        tmp_path, "a.md", "draft.md", "sub/draft.md", "sub/kept-draft.md", "sub/deep/draft.md", "top.md", "sub/top.md"
    )
    write(tmp_path, "private/x.md", "private/kept.md", "sub/private.md")
    (tmp_path / ".sapwoodignore").write_text("# what is not ready\n*draft.md\n/top.md\nprivate/\n!private/kept.md\n")
    (tmp_path / "sub/.sapwoodignore").write_bytes(b"\xef\xbb\xbf!kept-draft.md\r\n")
    # A folder that is left out is not looked into: nothing in it can be let in again.
    assert read(source(tmp_path)) == ["a.md", "sub/kept-draft.md", "sub/private.md", "sub/top.md"]


def test_an_anchored_pattern_of_a_deeper_file_is_anchored_there(tmp_path: Path) -> None:
    write(tmp_path, "x.md", "sub/x.md", "sub/sub/x.md", "sub/y/z.md")
    (tmp_path / "sub/.sapwoodignore").write_text("/x.md\ny/*.md\n")
    assert read(source(tmp_path)) == ["x.md", "sub/sub/x.md"]


def test_include_narrows_and_exclude_takes_away_in_the_same_syntax(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "shelf/c.md", "shelf/old/d.md", "home/e.md")
    assert read(source(tmp_path, include=("*.md",))) == ["a.md", "home/e.md", "shelf/c.md", "shelf/old/d.md"]
    assert read(source(tmp_path, include=("shelf/",), exclude=("old",))) == ["shelf/c.md"]
    assert read(source(tmp_path, include=("/shelf/**",), exclude=("*.md", "!c.md"))) == ["shelf/c.md"]
    assert read(source(tmp_path, exclude=("/*.md", "shelf/*/", "home/*"))) == ["b.txt", "shelf/c.md"]


def test_no_ignore_file_lets_in_what_the_intent_excludes(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "secret.md")
    (tmp_path / ".sapwoodignore").write_text("!secret.md\n")
    assert read(source(tmp_path, exclude=("secret.md",))) == ["a.md"]


def test_patterns_know_several_roots_by_their_names(tmp_path: Path) -> None:
    write(tmp_path, "one/a.md", "one/b.md", "two/a.md", "two/b.md")
    both = SourceIntent(
        "n", "folder", "n", (str(tmp_path / "one"), str(tmp_path / "two")), exclude=("/one/a.md", "/b.md")
    )
    assert read(both) == ["two/a.md"]


def test_patterns_match_however_a_name_is_composed(tmp_path: Path) -> None:
    write(tmp_path, "e\u0301te\u0301.md", "hiver.md")
    assert read(source(tmp_path, exclude=("\u00e9t\u00e9.md",))) == ["hiver.md"]


def test_a_broken_pattern_is_said_and_the_others_count(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.md", "c.md", "sub/d.md")
    (tmp_path / "sub/.sapwoodignore").write_text("fine-[0-9].md\n[\n!\n")
    intent = source(tmp_path, exclude=("b.md", "[z-a]"))
    assert read(intent) == ["a.md", "c.md", "sub/d.md"]
    said = listed(intent)
    assert said["(exclude of the source)"] == "the pattern [z-a] is broken and was left out"
    assert said["sub/.sapwoodignore"] == "line 2 is no pattern: [; line 3 is no pattern: !"


def test_a_folder_whose_ignore_file_cannot_be_read_is_not_read_as_if_it_had_none(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md")
    (tmp_path / "sub/.sapwoodignore").mkdir()
    events = list(FolderReader().scan(source(tmp_path), {}))
    assert [event.item_key for event in events if isinstance(event, Found)] == ["a.md"]
    (hidden,) = [event for event in events if isinstance(event, Hidden)]
    assert hidden.path == "sub"
    assert ".sapwoodignore" in hidden.reason


def test_hidden_names_are_read_where_the_source_says_so_but_never_caches_and_keys(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".journal/b.md", ".git/c.md", ".cache/d.md", ".ssh/e.md", ".Trash-1000/f.md", ".g.md")
    assert read(source(tmp_path)) == ["a.md"]
    assert read(source(tmp_path, hidden=True)) == [".g.md", "a.md", ".journal/b.md"]


def test_what_programs_made_for_themselves_is_left_out_and_everyday_words_are_not(tmp_path: Path) -> None:
    write(tmp_path, "node_modules/a.md", "x/site-packages/a.md", "crate/target/a.md", "web/dist/a.md", "AppData/a.md")
    write(tmp_path, "crate/Cargo.toml", "web/package.json", "env/conda-meta/history", "env/a.md", "Trash/x.md")
    write(tmp_path, "home/.profile", "home/snap/a.md", "home/Library/a.md", "home/mine.md")
    write(tmp_path, "aims/target/kept.md", "reading/Library/kept.md", "dist/kept.md", "build/kept.md", "dev/kept.md")
    kept = [name for name in read(source(tmp_path)) if not name.startswith("Trash")]
    assert kept == [
        "aims/target/kept.md",
        "build/kept.md",
        "dev/kept.md",
        "dist/kept.md",
        "home/mine.md",
        "reading/Library/kept.md",
    ]


def test_sapwood_never_reads_its_own_folders(tmp_path: Path, paths: Paths) -> None:
    write(paths.config_dir, "note.md")
    write(paths.log_dir, "sapwood.txt")
    write(tmp_path, "mine.md")
    assert read(source(tmp_path)) == ["mine.md"]
    with pytest.raises(SourceMissing, match="own folders"):
        read(source(paths.config_dir))
    with pytest.raises(SourceMissing, match="own folders"):
        read(source(paths.log_dir / "sapwood.txt"))
    inbox = SourceIntent("pushed", "inbox", "pushed", (str(paths.inbox / "pushed"),))
    write(paths.inbox / "pushed", "x.json")
    assert [file.path for file in walk(inbox, lambda name: True)] == [str(paths.inbox / "pushed/x.json")]


def test_links_are_listed_and_not_followed_but_a_root_may_be_one(tmp_path: Path) -> None:
    real = tmp_path / "real"
    write(real, "a.md", "sub/b.md")
    write(tmp_path / "away", "c.md")
    try:
        (real / "link.md").symlink_to(tmp_path / "away/c.md")
        (real / "sub/folder").symlink_to(tmp_path / "away")
        (real / "circle").symlink_to(real)
        (real / "self.md").symlink_to(real / "self.md")
        (tmp_path / "root").symlink_to(real)
        (tmp_path / "one.md").symlink_to(real / "a.md")
    except OSError:
        pytest.skip("no symbolic links here")
    for root in (real, tmp_path / "root"):
        assert read(source(root)) == ["a.md", "sub/b.md"]
        assert listed(source(root)) == dict.fromkeys(("circle", "link.md", "self.md", "sub/folder"), A_LINK)
    one = source(tmp_path / "one.md")
    (found,) = [event for event in FolderReader().scan(one, {}) if isinstance(event, Found)]
    assert FolderReader().read(one, found.item_key, [found.part]).sections[0].lines == ["Words."]


@pytest.mark.parametrize(
    ("mode", "more", "reason"),
    [
        (REGULAR, {}, None),
        (FOLDER, {}, None),
        (REGULAR, {"st_file_attributes": 0x20}, None),
        (REGULAR, {"st_file_attributes": 0x400000}, ONLY_IN_THE_CLOUD),
        (REGULAR, {"st_file_attributes": 0x40000}, ONLY_IN_THE_CLOUD),
        (REGULAR, {"st_file_attributes": 0x1000}, ONLY_IN_THE_CLOUD),
        (REGULAR, {"st_flags": 0x40000000}, ONLY_IN_THE_CLOUD),
        (FOLDER, {"st_flags": 0x40000000}, ONLY_IN_THE_CLOUD),
        (REGULAR, {"st_flags": 0x40}, None),
        (FOLDER, {"st_reparse_tag": 0xA0000003}, A_LINK),
        (0o120777, {}, A_LINK),
        (0o010644, {}, "not a file: a pipe"),
        (0o140644, {}, "not a file: a socket"),
        (0o020644, {}, "not a file: a device"),
    ],
)
def test_what_must_not_be_opened_is_known_from_its_stat(mode: int, more: dict[str, int], reason: str | None) -> None:
    assert why_not_opened(cast("os.stat_result", SimpleNamespace(st_mode=mode, **more))) == reason


def test_a_placeholder_of_the_cloud_is_listed_and_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agent.ingest.readers.walk as room

    assert stub_of(".Letter.md.icloud") == "Letter.md"
    assert stub_of(".icloud") is None
    assert stub_of("Letter.icloud") is None
    write(tmp_path, "here.md", ".Letter.md.icloud", "away.md", ".photo.jpg.icloud")
    away = (tmp_path / "away.md").stat().st_ino
    real = room.why_not_opened
    monkeypatch.setattr(
        room, "why_not_opened", lambda found: ONLY_IN_THE_CLOUD if found.st_ino == away else real(found)
    )
    opened: list[str] = []
    open_file = room.open_file
    monkeypatch.setattr(room, "open_file", lambda path: opened.append(os.path.basename(path)) or open_file(path))
    assert read(source(tmp_path)) == ["here.md"]
    assert opened == ["here.md"]
    assert listed(source(tmp_path)) == {"Letter.md": ONLY_IN_THE_CLOUD, "away.md": ONLY_IN_THE_CLOUD}
    # Nothing is written about it again, and once it is here it is read, though its size and time are the same.
    first = list(FolderReader().scan(source(tmp_path), {}))
    known = {event.path: event.stamp for event in first if isinstance(event, FileSeen)}
    assert all(event.unchanged for event in FolderReader().scan(source(tmp_path), known) if isinstance(event, FileSeen))
    monkeypatch.setattr(room, "why_not_opened", real)
    found = [event.item_key for event in FolderReader().scan(source(tmp_path), known) if isinstance(event, Found)]
    assert found == ["away.md"]


def test_a_large_file_is_listed_with_its_size_and_what_changes_that_and_is_read_once_it_may(tmp_path: Path) -> None:
    write(tmp_path, "large.md", text="word " * 500)
    write(tmp_path, "small.md")
    strict = with_limit(source(tmp_path), Intent(limits=LimitsIntent(document_bytes=2_000)))
    reason = "larger than 2,000 bytes: it has 2,500 bytes; `limits.document_bytes` in config.toml sets that"
    events = list(FolderReader().scan(strict, {}))
    known = {event.path: event.stamp for event in events if isinstance(event, FileSeen)}
    assert known["large.md"].reason == reason
    assert read(strict) == ["small.md"]
    wide = with_limit(source(tmp_path, max_bytes=3_000), Intent(limits=LimitsIntent(document_bytes=2_000)))
    assert [event.item_key for event in FolderReader().scan(wide, known) if isinstance(event, Found)] == ["large.md"]
    assert with_limit(SourceIntent("m", "mbox", "m", ()), Intent()).max_bytes == LimitsIntent().mail_bytes


def test_walking_an_unchanged_vault_costs_little(tmp_path: Path) -> None:
    for number in range(4_000):
        write(tmp_path, f"{number // 100:02d}/note-{number}.md", text="x")
    intent = source(tmp_path)
    known = {event.path: event.stamp for event in FolderReader().scan(intent, {}) if isinstance(event, FileSeen)}
    begun = time.process_time()
    events = list(FolderReader().scan(intent, known))
    assert len(events) == 4_000
    assert all(isinstance(event, FileSeen) and event.unchanged for event in events)
    # 16,000 in half a second.
    assert time.process_time() - begun < 0.25


def test_no_pattern_is_compiled_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agent.ingest.readers.rules as room

    write(tmp_path, "a/b/c.md")
    monkeypatch.setattr(room, "compile_patterns", lambda lines: pytest.fail("compiled"))
    assert read(source(tmp_path)) == ["a/b/c.md"]
    assert compile_patterns(["", "# only words", "  "]) == (None, [])
