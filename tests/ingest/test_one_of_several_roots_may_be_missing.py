"""A source of several folders of which one is not there: the others are looked at, what was in it is unknown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingest.conftest import Memory
from tests.permissions import ordinary_permissions


def said(memory: Memory) -> str | None:
    found: str | None = memory.connection.value("SELECT last_error FROM mem_tree_sources")
    return found


@pytest.fixture(params=["house", "office"])
def away(request: pytest.FixtureRequest, memory: Memory) -> str:
    """The name of the root that will be missing: the first or the last."""
    for name in ("house", "office"):
        for number in range(6):
            memory.write(f"{name}/{number}.md", f"# {name} {number}\n\nWords {number} of the {name}.\n")
    memory.add("notes", "folder", memory.folder / "house", memory.folder / "office")
    memory.sync()
    assert len(memory.items()) == 12
    found: str = request.param
    return found


def test_the_others_are_looked_at_and_it_is_said(memory: Memory, away: str) -> None:
    here = "office" if away == "house" else "house"
    held = memory.chunks()
    (memory.folder / away).rename(memory.folder / "unmounted")
    memory.write(f"{here}/new.md", "# New\n\nNew words.\n")
    (memory.folder / here / "0.md").unlink()
    assert memory.sync() == 1
    assert set(memory.items()) == {
        *(f"{away}/{number}.md" for number in range(6)),
        *(f"{here}/{number}.md" for number in range(1, 6)),
        f"{here}/new.md",
    }
    error = said(memory) or ""
    assert error.startswith(f"{away}: the source is not there ({memory.folder / away}: No such file or directory)")
    assert memory.connection.value("SELECT count(*) FROM mem_tree_questions") == 0
    (memory.folder / "unmounted").rename(memory.folder / away)
    assert memory.sync() == 0
    assert said(memory) is None
    assert [chunk for chunk in memory.chunks() if chunk["item_key"].startswith(away)] == [
        chunk for chunk in held if chunk["item_key"].startswith(away)
    ]


def test_a_copy_in_another_root_takes_nothing_from_the_one_that_is_away(memory: Memory, away: str) -> None:
    here = "office" if away == "house" else "house"
    shutil.copy(memory.folder / away / "3.md", memory.folder / here / "copy.md")
    (memory.folder / away).rename(memory.folder / "unmounted")
    memory.sync()
    assert memory.items()[f"{away}/3.md"] == "current"
    assert memory.items()[f"{here}/copy.md"] == "current"


def test_with_none_of_them_there_the_source_is_not_there(memory: Memory, away: str) -> None:
    for name in ("house", "office"):
        (memory.folder / name).rename(memory.folder / f"{name} unmounted")
    assert memory.sync() == 0
    assert len(memory.items()) == 12
    assert (said(memory) or "").startswith("the source is not there")


def test_one_that_may_not_be_listed_is_unknown_too(memory: Memory, away: str) -> None:
    (memory.folder / away).chmod(0)
    try:
        with ordinary_permissions():
            memory.sync()
        assert len(memory.items()) == 12
        assert "Permission denied" in (said(memory) or "")
    finally:
        (memory.folder / away).chmod(0o700)


def test_a_mailbox_that_is_away_keeps_its_mails(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    boxes: list[Path] = []
    for name in ("one", "two"):
        mails = [
            mail_bytes(number, f"Mail {number} in {name}.", Message_ID=f"<{number}@{name}>") for number in range(5)
        ]
        data = b"".join(b"From ada@example.org Mon Jan  1 10:00:00 2024\n" + mail + b"\n" for mail in mails)
        boxes.append(memory.write(f"{name}.mbox", data))
    memory.add("mail", "mbox", *boxes)
    memory.sync()
    boxes[0].unlink()
    memory.sync()
    assert len(memory.items()) == 10
    assert (said(memory) or "").startswith("one.mbox: the source is not there")
