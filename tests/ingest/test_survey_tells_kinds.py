"""What `add` says before anything is stored: the kind, how much, and what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config import Intent, LimitsIntent
from agent.errors import UsageFault
from agent.ingest.readers.registry import PLANNED_KINDS, reader_for
from agent.ingest.survey import detect, survey
from tests.ingest.conftest import Memory


def test_kinds_are_detected_and_counted(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    notes = memory.write("notes/a.md", "Words.").parent
    memory.write("notes/b.txt", "More words.")
    memory.write("notes/bad.txt", b"\0\0")
    mails = memory.write("mails/1.eml", mail_bytes(1)).parent
    memory.write("mails/README.md", "About these mails.")
    memory.write("mails/2.eml", mail_bytes(2))
    box = memory.write(
        "all.mbox", b"".join(b"From a@b.c Mon Jan  1 10:00:00 2024\n" + mail_bytes(n) + b"\n" for n in range(3))
    )
    bare = memory.write("Inbox", box.read_bytes())
    chat = memory.write("chat/2024-01-01.log", "[10:00] <ada> hi\n[10:01] <bob> hello\n").parent
    assert (survey(notes).kind, survey(notes).items) == ("folder", 2)
    assert [(entry.path, entry.reason) for entry in survey(notes).unreadable] == [
        ("bad.txt", "not a text: it contains NUL bytes")
    ]
    assert (survey(mails).kind, survey(mails).items) == ("eml", 2)
    assert (survey(box).kind, survey(box).items) == ("mbox", 3)
    assert detect(bare) == "mbox"
    assert (survey(chat).kind, survey(chat).items) == ("irc", 1)
    assert detect(notes / "a.md") == "folder"
    assert detect(mails / "1.eml") == "eml"
    assert survey(notes / "a.md").items == 1
    empty = memory.folder / "empty"
    empty.mkdir()
    assert survey(empty) == type(survey(empty))("folder", 0, ())


def test_the_test_data_is_told_apart(test_data: Callable[[str], Path]) -> None:
    assert detect(test_data("mail")) == "eml"
    assert detect(test_data("irc")) == "irc"


@pytest.mark.parametrize("kind", PLANNED_KINDS)
def test_a_kind_that_is_not_built_yet_exits_2_and_says_so(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="is not built yet") as fault:
        survey(tmp_path, kind)
    assert fault.value.exit_code == 2


def test_an_unknown_kind_and_a_missing_path_are_usage_faults(tmp_path: Path) -> None:
    with pytest.raises(UsageFault):
        reader_for("nonsense")
    with pytest.raises(UsageFault):
        survey(tmp_path / "nowhere")
    with pytest.raises(UsageFault):
        survey(tmp_path / "nowhere", "folder")


def test_a_maildir_is_recognised_and_not_built_yet(tmp_path: Path) -> None:
    for name in ("cur", "new", "tmp"):
        (tmp_path / name).mkdir()
    assert detect(tmp_path) == "maildir"
    with pytest.raises(UsageFault, match="not built yet"):
        survey(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("kind", ["auto", "folder", "mbox", "irc", "eml"])
def test_a_pipe_is_refused_and_not_waited_for(memory: Memory, kind: str) -> None:
    path = memory.folder / "pipe.txt"
    os.mkfifo(path)
    with pytest.raises(UsageFault, match="file"):
        survey(path, kind)


def test_the_owner_s_limits_count_in_the_first_look_too(tmp_path: Path) -> None:
    (tmp_path / "short.md").write_text("Words.\n")
    (tmp_path / "long.md").write_text("Words. " * 1_000)
    assert survey(tmp_path).items == 2
    intent = Intent(limits=LimitsIntent(document_bytes=1_000))
    looked = survey(tmp_path, intent=intent)
    assert looked.items == 1
    (unread,) = looked.unreadable
    assert unread.path == "long.md"
    assert "limits.document_bytes" in unread.reason
