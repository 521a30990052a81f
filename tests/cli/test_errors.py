"""What goes wrong is said in three parts and an exit code; where in the program it was only with --debug."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agent.actions import status
from agent.paths import Paths
from tests.cli.conftest import Sapwood


@pytest.mark.parametrize(
    "arguments",
    [
        ("bogus",),
        ("--bogus",),
        ("search",),
        ("pause", "whenever"),
        ("jobs", "--status", "odd"),
        ("retry",),
        ("retry", "1", "--all"),
        ("retry", "99"),
        ("cancel", "99"),
        ("show", "xy"),
        ("sync", "nowhere"),
        ("tree", "nowhere"),
        ("search", "words", "--source", "nowhere"),
        ("search", "words", "--since", "someday"),
        ("search", " "),
        ("run", "--workers", "0"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_do(arguments: tuple[str, ...], sapwood: Sapwood) -> None:
    ran = sapwood(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) >= 2
    assert "Traceback" not in ran.err
    assert max(map(len, ran.err.splitlines())) <= 80


@pytest.mark.parametrize("kind", ["maildir", "whatsapp", "signal", "slack", "chatgpt", "git"])
def test_a_kind_that_is_not_built_yet_exits_2_and_says_so(kind: str, sapwood: Sapwood, tmp_path: Path) -> None:
    ran = sapwood("add", str(tmp_path), "--kind", kind)
    assert ran.code == 2
    assert f"the kind {kind} is not built yet" in ran.err
    assert "folder, mbox, eml, irc" in ran.err
    assert not sapwood("sources", "--json").document["sources"]


def test_stop_without_an_agent_exits_3(sapwood: Sapwood) -> None:
    ran = sapwood("stop")
    assert ran.code == 3
    assert "the agent is not running" in ran.err
    assert "sapwood run" in ran.err


@pytest.mark.parametrize("words", [("open",), ("open", "--print")])
def test_open_without_an_agent_exits_3(sapwood: Sapwood, words: tuple[str, ...]) -> None:
    ran = sapwood(*words)
    assert ran.code == 3
    assert "the agent is not running" in ran.err
    assert "sapwood run" in ran.err


def test_json_errors_are_one_document(sapwood: Sapwood) -> None:
    for arguments in (("--json", "stop"), ("stop", "--json"), ("--json", "bogus")):
        ran = sapwood(*arguments)
        assert set(ran.document["error"]) == {"title", "detail", "hint"}
        assert ran.document["error"]["hint"]
        assert ran.err.startswith("error: ")


def unforeseen(*_: object) -> None:
    raise ZeroDivisionError("nobody thought of this")


def test_no_stack_trace_reaches_a_person(sapwood: Sapwood, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "status", unforeseen)
    ran = sapwood("status")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert "ZeroDivisionError: nobody thought of this" in ran.err
    assert "--debug" in ran.err


def test_debug_shows_where_it_came_from(sapwood: Sapwood, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "status", unforeseen)
    for arguments in (("--debug", "status"), ("status", "--debug")):
        ran = sapwood(*arguments)
        assert ran.code == 1
        assert "Traceback" in ran.err
        assert "in unforeseen" in ran.err


def test_a_full_disk_is_told_as_that(sapwood: Sapwood, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/disk/config.toml")

    monkeypatch.setattr(status, "status", fill)
    ran = sapwood("status")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "error: the disk is full",
        "  /disk/config.toml: No space left on device",
        "  make room on that disk, then try again",
    ]


def test_interruption_exits_130_quietly(sapwood: Sapwood, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "status", interrupt)
    ran = sapwood("status")
    assert ran.code == 130
    assert ran.out == ran.err == ""


def test_damaged_memory_is_told_in_words(sapwood: Sapwood, paths: Paths) -> None:
    paths.database.write_bytes(b"this is no database, whatever its name says" * 100)
    for name in ("status", "jobs", "sources"):
        ran = sapwood(name)
        assert ran.code == 1
        assert "damaged" in ran.err
        assert "Traceback" not in ran.err


def test_broken_settings_are_told_in_words(sapwood: Sapwood, paths: Paths) -> None:
    paths.config_file.write_text("[queue\n")
    ran = sapwood("status")
    assert ran.code == 1
    assert "config.toml" in ran.err
    assert "Traceback" not in ran.err


def test_a_pause_is_told_also_while_the_agent_does_not_run(
    sapwood: Sapwood, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(paths.config_dir.parent))
    assert "paused" not in sapwood("status").out
    sapwood("pause")
    assert "until `sapwood resume`" in sapwood("status").out
    sapwood("pause", "1h")
    assert "paused     until 20" in sapwood("status").out


def test_a_search_says_whether_nothing_is_there_or_not_yet(
    sapwood: Sapwood, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(paths.config_dir.parent))
    ran = sapwood("search", "words")
    assert ran.out == "nothing found\n"
    assert "sapwood add PATH" in ran.err
    (tmp_path / "one.md").write_text("Some words.")
    sapwood("add", str(tmp_path / "one.md"))
    ran = sapwood("search", "words")
    assert ran.out == ""
    assert ran.err.startswith("not searched yet\n")


def test_settings_that_cannot_be_read_are_told_by_status(
    sapwood: Sapwood, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(paths.config_dir.parent))
    (tmp_path / "one.md").write_text("Some words.")
    sapwood("add", str(tmp_path / "one.md"))
    assert "last good copy" not in sapwood("status").out
    with paths.config_file.open("a") as stream:
        stream.write("[\n")
    assert "last good copy" in sapwood("status").out
