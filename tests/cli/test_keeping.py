"""backup, restore and rebuild as an owner types them, with the agent running and without."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from agent.cli import keeping
from agent.db.aside import BEFORE_RESTORE, copies
from agent.paths import Paths, paths_under
from tests.cli.agents import Ids, grow, holds_chunks, ids_of, name_sources, run, running_agent, said
from tests.cli.conftest import Sapwood, widths

Wait = Callable[..., None]


@pytest.fixture
def home(tmp_path: Path, grown_home: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A home of its own with sources of its own, grown."""
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    paths = paths_under(tmp_path / "home").make()
    name_sources(paths, Path(shutil.copytree(grown_home.parent / "samples", tmp_path / "samples")))
    grow(paths)
    return paths


@pytest.fixture
def before(home: Paths) -> Ids:
    return ids_of(home.database)


def calm(words: str) -> str:
    return " ".join(words.split())


def test_backup_and_restore_say_what_they_did(sapwood: Sapwood, home: Paths, before: Ids, tmp_path: Path) -> None:
    file = tmp_path / "memory.backup"
    ran = sapwood("backup", str(file))
    assert ran.code == 0, ran.err
    assert "read back and sound" in ran.out
    assert sapwood("backup", str(file)).code == 2
    done = sapwood("backup", str(file), "--force", "--json").document
    assert {"path", "bytes", "ok"} <= set(done)
    assert (done["path"], done["bytes"], done["ok"]) == (str(file), file.stat().st_size, True)

    assert sapwood("rebuild", "--yes").code == 0
    ran = sapwood("restore", str(file))
    assert (ran.code, "--yes" in ran.err) == (2, True)
    ran = sapwood("restore", str(file), "--yes", "--json")
    assert ran.code == 0, ran.err
    assert {"path", "bytes", "ok"} <= set(ran.document)
    assert ids_of(home.database) == before
    ran = sapwood("restore", str(file), "--yes")
    assert str(copies(home.database, BEFORE_RESTORE)[0].path) in ran.out.replace("\n", "")
    assert json.dumps(before["chunks"]) == json.dumps(ids_of(home.database)["chunks"])


def test_damaged_memory_is_backed_up_with_exit_1(sapwood: Sapwood, home: Paths, tmp_path: Path) -> None:
    home.database.write_bytes(b"no database " * 1_000)
    ran = sapwood("backup", str(tmp_path / "memory.backup"))
    assert ran.code == 1
    assert "not sound" in ran.out
    assert "sapwood rebuild" in calm(ran.err)
    assert sapwood("backup", str(tmp_path / "again.backup"), "--json").document["ok"] is False


def test_rebuild_asks_and_names_what_would_be_lost(
    sapwood: Sapwood, home: Paths, before: Ids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = sapwood("rebuild")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    asked: list[str] = []

    def refuse(question: str, **_: object) -> None:
        asked.append(question)

    monkeypatch.setattr(keeping, "_is_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", refuse)
    ran = sapwood("rebuild")
    assert (ran.code, ran.err) == (130, "nothing was changed\n")
    assert asked
    assert ids_of(home.database) == before

    (tmp_path / "samples" / "club-chat").rename(tmp_path / "away")
    ran = sapwood("rebuild")
    assert ran.code == 1
    assert "club-chat" in ran.err
    assert "12 passages" in calm(ran.err)
    assert max(widths(ran.err)) <= 80
    assert ids_of(home.database) == before
    done = sapwood("rebuild", "--yes", "--json")
    assert done.code == 0, done.err
    assert {"path", "bytes", "ok"} <= set(done.document)
    assert done.document["ok"]


@pytest.mark.slow
def test_running_agent_grows_an_emptied_memory_again(home: Paths, before: Ids, wait_until: Wait) -> None:
    with running_agent(home, wait_until):
        wait_until(lambda: said(home)["state"] == "idle", 30, "an idle agent")
        workers = {worker["pid"] for worker in said(home)["workers"]}
        ran = run(home, "rebuild", "--yes")
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""
        wait_until(lambda: holds_chunks(home.database, before), 60, "the same chunks")
        assert workers <= {worker["pid"] for worker in said(home)["workers"]}, "nobody had to be started anew"
    assert run(home, "run", "--once").returncode == 0
    assert ids_of(home.database) == before
    assert json.loads(run(home, "status", "--json").stdout)["queue"]["failed"] == 0


@pytest.mark.slow
def test_restore_under_a_running_agent(home: Paths, before: Ids, tmp_path: Path, wait_until: Wait) -> None:
    file = tmp_path / "memory.backup"
    with running_agent(home, wait_until):
        wait_until(lambda: said(home)["state"] == "idle", 30, "an idle agent")
        workers = {worker["pid"] for worker in said(home)["workers"]}
        assert run(home, "backup", str(file)).returncode == 0
        # The agent is in the middle of growing when the memory is replaced.
        assert run(home, "rebuild", "--yes").returncode == 0
        wait_until(lambda: 0 < len(ids_of(home.database)["chunks"]) < len(before["chunks"]), 30, "half a memory")
        ran = run(home, "restore", str(file), "--yes")
        assert ran.returncode == 0, ran.stderr
        assert ids_of(home.database)["chunks"] == before["chunks"]

        new = tmp_path / "samples" / "notes" / "later.md"
        new.write_text("# Later\n\nThe zeppelin mooring is booked for the ninth of October.\n")
        assert run(home, "sync", "notes").returncode == 0
        wait_until(lambda: "zeppelin" in run(home, "search", "zeppelin mooring").stdout, 30, "work on the new memory")
        assert workers <= {worker["pid"] for worker in said(home)["workers"]}, "nobody had to be started anew"
        new.unlink()
        assert run(home, "sync", "notes").returncode == 0
        wait_until(lambda: holds_chunks(home.database, before), 30, "the removal")
    assert run(home, "run", "--once").returncode == 0
    assert ids_of(home.database) == before
    assert json.loads(run(home, "doctor", "--deep", "--json").stdout)["ok"]
