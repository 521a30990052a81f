"""A fresh agent reads nothing of its owner's: what all its processes open and list is written down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.paths import paths_under
from agent.supervisor.control import call
from tests.cli.agents import run, running_agent
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the home folder of these tests is that of a Unix")


@pytest.mark.slow
def test_nothing_of_the_owners_is_opened_before_a_source_is_named(
    tmp_path: Path, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    person, reads = tmp_path / "person", tmp_path / "reads"
    for name in ("Documents", "Notes", "Desktop", ".thunderbird/abc.default/Mail/Local Folders"):
        (person / name).mkdir(parents=True)
        (person / name / "one.md").write_text("Quinces want sun.\n")
    for name, value in (
        ("HOME", person),
        ("PYTHONPATH", REPOSITORY / "tests/promises/reads"),
        ("WATCHED_FOLDER", person),
        ("WATCHED_READS", reads),
        ("SAPWOOD_SUPERVISOR__TICK_IDLE_SECONDS", "0.5"),
        ("SAPWOOD_DESKTOP__NOTIFICATIONS", "true"),
        ("SAPWOOD_DESKTOP__TRAY", "true"),
        ("DBUS_SESSION_BUS_ADDRESS", "disabled:"),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("DISPLAY", raising=False)
    paths = paths_under(tmp_path / "home").make()

    def read() -> set[str]:
        named = {str(person / each) for each in ("Documents", "Notes", "Desktop", ".thunderbird")}
        lines = set(reads.read_text().splitlines())
        return {line for line in lines if any(line == each or line.startswith(f"{each}/") for each in named)}

    with running_agent(paths, wait_until):
        for words in (("status",), ("sources",), ("search", "quinces"), ("doctor",), ("autostart",), ("config",)):
            run(paths, *words)
        wait_until(lambda: call(paths, "status")["state"] == "idle", 30, "an agent at rest")
        assert read() == set()
        assert run(paths, "setup", "--json").returncode == 0
        assert read() <= {str(person / ".thunderbird" / "profiles.ini")}, "where mail lies, and none of it"
        assert run(paths, "add", str(person / "Notes")).returncode == 0
        wait_until(lambda: str(person / "Notes" / "one.md") in read(), 30, "the notes being read")
        assert not {line for line in read() if "Documents" in line or "Desktop" in line}
