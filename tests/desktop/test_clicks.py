"""What each entry does, with a desktop that only writes down what it was asked for."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.actions.home import open_home
from agent.actions.pausing import Paused, read_paused
from agent.actions.sources import sources
from agent.config import load_intent
from agent.config_edit import edit_intent
from agent.desktop.folder_dialog import CANCELLED, NO_DIALOG, Came, Folder
from agent.desktop.tray.clicks import Clicks, Outside
from agent.errors import AgentFault, AgentNotRunning
from agent.paths import Paths


@dataclass
class Desk:
    """A desktop. ``refuses`` is what opening a page raises."""

    folder: Folder = CANCELLED
    refuses: Exception | None = None
    pages: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)

    def open_page(self, paths: Paths, place: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.pages.append(place)

    def clicks(self, paths: Paths) -> Clicks:
        def tell(key: str, title: str, body: str) -> None:
            self.told.append((title, body))

        return Clicks(paths, Outside(self.open_page, self.folders.append, lambda: self.folder, tell))


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def click(desk: Desk, paths: Paths) -> Callable[[str], str]:
    return desk.clicks(paths).do


def pause_of(paths: Paths) -> tuple[Paused, int]:
    with open_home(paths) as home:
        now_ms = home.clock.now_ms()
        return read_paused(home.connection, now_ms), now_ms


def test_open_opens_the_page(click: Callable[[str], str], desk: Desk) -> None:
    assert click("open") == ""
    assert desk.pages == [""]


def test_pauses_are_as_long_as_they_say(click: Callable[[str], str], paths: Paths) -> None:
    assert click("pause-hour") == ""
    found, now_ms = pause_of(paths)
    assert found.paused_until_ms is not None
    assert 3_590_000 < found.paused_until_ms - now_ms <= 3_600_000
    click("pause-tomorrow")
    found, now_ms = pause_of(paths)
    assert found.paused_until_ms is not None
    assert not found.indefinite
    click("pause-for-good")
    assert pause_of(paths)[0].indefinite
    click("resume")
    assert pause_of(paths)[0].paused_until_ms is None


def add_profiles(paths: Paths) -> None:
    edit_intent(
        paths,
        lambda document: document.update(
            profiles=[
                {"name": "house", "provider": "ollama", "chat_model": "m"},
                {"name": "sky", "provider": "openai", "chat_model": "m"},
                {"name": "agreed", "provider": "openai", "chat_model": "m", "consent": "api.openai.com"},
            ]
        ),
    )


def test_a_cloud_that_its_owner_has_not_agreed_to_is_not_used_but_asked_about(
    click: Callable[[str], str], desk: Desk, paths: Paths
) -> None:
    add_profiles(paths)
    assert click("model:house") == ""
    assert load_intent(paths).intent.models.active == "house"
    assert click("model:sky") == ""
    assert load_intent(paths).intent.models.active == "house"
    assert desk.pages == ["models/sky/consent"]
    assert click("model:agreed") == ""
    assert load_intent(paths).intent.models.active == "agreed"
    assert click("model:builtin") == ""
    assert load_intent(paths).intent.models.active == "builtin"
    assert desk.pages == ["models/sky/consent"]


def test_a_profile_that_is_gone_is_said(click: Callable[[str], str], desk: Desk) -> None:
    assert click("model:gone") == "there is no such model profile"
    assert desk.told[0][0] == "Sapwood: there is no such model profile"


def test_a_folder_that_was_chosen_is_a_source_and_its_owner_is_told_what_is_in_it(
    click: Callable[[str], str], desk: Desk, paths: Paths, tmp_path: Path
) -> None:
    folder = tmp_path / "My notes"
    folder.mkdir()
    (folder / "a.md").write_text("# One\n\nsome words\n")
    desk.folder = Folder(Came.CHOSEN, str(folder))
    assert click("add-folder") == ""
    with open_home(paths) as home:
        (found,) = sources(home).sources
    assert found.paths == (str(folder),)
    assert desk.told == [("Sapwood: the folder is added", "1 item found")]


def test_a_folder_that_is_one_already_is_said_without_its_path(
    click: Callable[[str], str], desk: Desk, tmp_path: Path
) -> None:
    folder = tmp_path / "My notes"
    folder.mkdir()
    desk.folder = Folder(Came.CHOSEN, str(folder))
    assert click("add-folder") == ""
    desk.told.clear()
    assert click("add-folder") == "this is a source already"
    assert "My notes" not in str(desk.told)


def test_without_a_dialog_the_page_asks_and_a_cancelled_one_does_nothing(
    click: Callable[[str], str], desk: Desk
) -> None:
    assert click("add-folder") == ""
    assert (desk.pages, desk.told) == ([], [])
    desk.folder = NO_DIALOG
    assert click("add-folder") == ""
    assert desk.pages == ["sources/add"]


def test_the_bug_report_is_shown_before_it_is_saved(click: Callable[[str], str], desk: Desk) -> None:
    assert click("bug-report") == ""
    assert desk.pages == ["help/bug-report"]
    assert desk.told == []


def test_where_no_page_can_be_had_the_bug_report_is_saved_and_named(
    click: Callable[[str], str], desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    downloads = tmp_path / "Downloads"
    downloads.mkdir()
    monkeypatch.setattr("platformdirs.user_downloads_path", lambda: downloads)
    desk.refuses = AgentFault("the page cannot be shown", "", "")
    assert click("bug-report") == ""
    (saved,) = downloads.iterdir()
    with zipfile.ZipFile(saved) as held:
        assert "report.md" in held.namelist()
    ((title, body),) = desk.told
    assert title == "Sapwood: the bug report is saved"
    assert str(saved) in body


def test_logs_are_opened_as_a_folder(click: Callable[[str], str], desk: Desk, paths: Paths) -> None:
    assert click("open-logs") == ""
    assert desk.folders == [str(paths.log_dir)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the entry is not in a folder that a test can move")
def test_start_at_login_turns_over(
    click: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from agent.actions.autostart import autostart_status

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert click("at-login") == ""
    assert autostart_status().enabled
    assert click("at-login") == ""
    assert not autostart_status().enabled


def test_what_fails_is_a_notification_and_a_line_and_never_a_crash(click: Callable[[str], str], desk: Desk) -> None:
    desk.refuses = AgentNotRunning("the page is a part of it")
    assert click("open") == "the agent is not running"
    assert click("bug-report") == "the agent is not running"
    desk.refuses = ZeroDivisionError("a word of the owner's")
    assert click("open") == "that failed (ZeroDivisionError)"
    assert [title for title, _ in desk.told] == [
        "Sapwood: the agent is not running",
        "Sapwood: the agent is not running",
        "Sapwood: that failed (ZeroDivisionError)",
    ]
    assert "a word of the owner's" not in str(desk.told)
    assert click("quit") == "the agent is not running"


def test_a_key_that_nobody_knows_does_nothing(click: Callable[[str], str], desk: Desk) -> None:
    assert click("dance") == ""
    assert (desk.pages, desk.folders, desk.told) == ([], [], [])
