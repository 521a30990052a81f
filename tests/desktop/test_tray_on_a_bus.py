"""The tray's own process on a real session bus, with a panel that speaks the protocols alone. No display anywhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from agent.actions.home import open_home
from agent.actions.pausing import read_paused
from agent.config import load_intent
from agent.config_edit import edit_intent
from agent.paths import Paths
from agent.system.companion import EXIT_IMPOSSIBLE, Say
from tests.desktop.conftest import Tray
from tests.desktop.panel import Bus, Panel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="StatusNotifierItems are of Linux")

StartPanel = Callable[..., Panel]
StartTray = Callable[..., Tray]
Wait = Callable[..., None]


@pytest.fixture(autouse=True)
def _running(monkeypatch: pytest.MonkeyPatch, paths: Paths) -> None:
    """An agent of this home is taken to run: the test's own process is it."""
    from agent.config_edit import write_atomically
    from agent.supervisor.control import AgentAddress
    from agent.system.identity import own_identity

    write_atomically(paths.agent_file, AgentAddress(own_identity(), "/nowhere/agent.sock", b"k").to_json(), mode=0o600)


def is_paused(paths: Paths) -> bool:
    with open_home(paths) as home:
        return read_paused(home.connection, home.clock.now_ms()).paused_until_ms is not None


def test_registered_within_a_second_without_a_display(start_panel: StartPanel, start_tray: StartTray) -> None:
    assert "DISPLAY" not in os.environ
    panel = start_panel()
    tray = start_tray()
    assert tray.hear(Say.UP)["detail"] == "StatusNotifierItem"
    ((service, at),) = panel.watcher.registered
    assert service.startswith("org.kde.StatusNotifierItem-")
    assert at - tray.began < 1.0
    item = panel.item()
    assert (item["Id"], item["Title"], item["Status"]) == ("sapwood", "Sapwood", "Active")
    sizes = {(width, height): len(pixels) for width, height, pixels in item["IconPixmap"]}
    assert sizes == {(size, size): size * size * 4 for size in (64, 32, 22, 16)}
    assert item["ToolTip"][2] == "Sapwood"


def test_menu_is_read_over_dbusmenu(start_panel: StartPanel, start_tray: StartTray) -> None:
    panel = start_panel()
    start_tray().hear(Say.UP)
    labels = panel.labels()
    assert labels[0].startswith("Idle")
    assert labels[1:] == [
        "Open Sapwood", "Pause", "For an hour", "Until tomorrow", "Until I resume", "Model",
        "Built in (nothing leaves this machine)", "Add folder…", "Save bug report…", "Open logs", "Start at login",
        "Quit Sapwood",
    ]  # fmt: skip
    state, model = panel.find("Idle"), panel.find("Built in")
    assert state.properties["enabled"] is False
    assert (model.properties["toggle-type"], model.properties["toggle-state"]) == ("radio", 1)
    assert panel.find("Start at login").properties["toggle-type"] == "checkmark"
    assert panel.find("Model").properties["children-display"] == "submenu"


def test_pause_and_resume_are_in_the_memory_and_the_menu_follows(
    start_panel: StartPanel, start_tray: StartTray, paths: Paths, wait_until: Wait
) -> None:
    panel = start_panel()
    start_tray().hear(Say.UP)
    numbers = {line.label: line.number for line in panel.lines()}
    state_line = panel.find("Idle").number
    panel.click("Until I resume")
    wait_until(lambda: is_paused(paths))
    wait_until(lambda: "Paused until you resume" in panel.labels())
    assert "For an hour" not in panel.labels()
    assert panel.find("Paused").number == state_line
    assert panel.find("Quit").number == numbers["Quit Sapwood"], "an entry keeps its number"
    panel.click("Resume")
    wait_until(lambda: not is_paused(paths))
    wait_until(lambda: "For an hour" in panel.labels())


def test_a_local_model_is_used_at_a_click_and_the_mark_follows(
    start_panel: StartPanel, start_tray: StartTray, paths: Paths, wait_until: Wait
) -> None:
    edit_intent(
        paths,
        lambda document: document.update(
            profiles=[{"name": "my_house", "provider": "ollama", "chat_model": "m"}]  # an underscore is no access key
        ),
    )
    panel = start_panel()
    start_tray().hear(Say.UP)
    assert panel.find("my_house").properties["toggle-state"] == 0
    panel.forget_signals()
    panel.click("my_house")
    wait_until(lambda: load_intent(paths).intent.models.active == "my_house")
    wait_until(lambda: panel.find("my_house").properties["toggle-state"] == 1)
    assert panel.find("Built in").properties["toggle-state"] == 0
    assert panel.heard.named("LayoutUpdated") == [], "a mark that moves does not close the menu"


@pytest.mark.slow
def test_a_panel_that_is_late_gets_the_icon(start_panel: StartPanel, start_tray: StartTray, wait_until: Wait) -> None:
    tray = start_tray()
    assert "no panel" in tray.hear(Say.IMPOSSIBLE)["reason"]
    assert tray.process.is_alive(), "it waits"
    panel = start_panel()
    tray.hear(Say.UP)
    assert panel.labels()


def test_a_click_that_fails_is_told_and_the_tray_lives(
    start_panel: StartPanel, start_tray: StartTray, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SAPWOOD_DESKTOP__NOTIFICATIONS", raising=False)
    # The agent's address of this test is nobody's, so no page can be had.
    panel = start_panel("org.kde.StatusNotifierWatcher", "org.freedesktop.Notifications")
    tray = start_tray()
    tray.hear(Say.UP)
    panel.click("Open Sapwood")
    wait_until(lambda: panel.notifications.shown, 20, "a notification")
    ((title, _),) = panel.notifications.shown
    assert panel.labels()[0] == title.removeprefix("Sapwood: ")
    assert tray.process.is_alive()
    panel.click("Until I resume")
    wait_until(lambda: "Paused until you resume" in panel.labels())


def test_without_a_notification_service_a_click_that_fails_is_in_the_state_line(
    start_panel: StartPanel, start_tray: StartTray, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SAPWOOD_DESKTOP__NOTIFICATIONS", raising=False)
    panel = start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    before = panel.labels()[0]
    panel.click("Quit")
    wait_until(lambda: panel.labels()[0] != before)
    assert not panel.labels()[0].startswith("Idle")
    assert tray.process.is_alive()


def test_a_panel_that_starts_anew_gets_the_icon_again(start_panel: StartPanel, start_tray: StartTray) -> None:
    first = start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    first.stop()
    second = start_panel()
    end = time.monotonic() + 5
    while not second.watcher.registered:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "Open Sapwood" in second.labels()
    assert tray.process.is_alive()


@pytest.mark.slow
def test_a_list_of_icons_that_nobody_shows_is_no_panel(start_panel: StartPanel, start_tray: StartTray) -> None:
    panel = start_panel(has_host=False)
    tray = start_tray()
    tray.hear(Say.IMPOSSIBLE)
    panel.bring_a_host()
    tray.hear(Say.UP)


def test_no_bus_is_impossible_and_no_crash(monkeypatch: pytest.MonkeyPatch, start_tray: StartTray) -> None:
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    tray = start_tray()
    assert "no session bus" in tray.hear(Say.IMPOSSIBLE)["reason"]
    assert tray.end() == EXIT_IMPOSSIBLE


def test_a_dead_bus_is_impossible_and_no_crash(desktop: Bus, start_tray: StartTray) -> None:
    desktop.stop()
    tray = start_tray()
    assert "session bus cannot be used" in tray.hear(Say.IMPOSSIBLE)["reason"]
    assert tray.end() == EXIT_IMPOSSIBLE


def test_a_bus_that_dies_later_is_the_same(desktop: Bus, start_panel: StartPanel, start_tray: StartTray) -> None:
    start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    desktop.stop()
    assert "session bus has ended" in tray.hear(Say.IMPOSSIBLE)["reason"]
    assert tray.end() == EXIT_IMPOSSIBLE


def test_it_ends_with_its_supervisor_and_at_its_word(start_panel: StartPanel, start_tray: StartTray) -> None:
    start_panel()
    told, orphan = start_tray(), start_tray()
    for tray in (told, orphan):
        tray.hear(Say.UP)
    told.say(Say.STOP)
    orphan.line.close()
    began = time.monotonic()
    assert told.end() == 0
    assert orphan.end() == 0
    assert time.monotonic() - began < 1.0


def test_it_ends_with_its_supervisor_even_while_its_loop_hangs(start_tray: StartTray) -> None:
    tray = start_tray("tests.desktop.hanging:hanging_main")
    tray.hear(Say.UP)
    tray.line.close()
    assert tray.end() == 0


def test_what_the_agent_says_is_drawn(start_panel: StartPanel, start_tray: StartTray, wait_until: Wait) -> None:
    panel = start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    before = panel.item()["IconPixmap"]
    tray.say(Say.STATE, state="error", reason="the memory cannot be opened")
    wait_until(lambda: panel.item()["Status"] == "NeedsAttention")
    assert panel.find("Error").label == "Error: the memory cannot be opened"
    assert panel.item()["IconPixmap"] != before
    assert ["NeedsAttention"] in panel.heard.named("NewStatus")


def test_nothing_is_said_to_the_panel_where_nothing_changed(
    start_panel: StartPanel, start_tray: StartTray, wait_until: Wait
) -> None:
    panel = start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    panel.forget_signals()
    for _ in range(5):
        tray.say(Say.STATE, state="idle", reason="x")
        panel.about_to_show()
    tray.say(Say.STATE, state="error", reason="y")
    # The menu's signal is the last of them: the status alone may be heard a moment before it.
    wait_until(lambda: panel.heard.named("NewStatus") and panel.heard.named("ItemsPropertiesUpdated"))
    assert len(panel.heard.named("NewIcon")) == 1
    assert len(panel.heard.named("ItemsPropertiesUpdated")) == 1
    assert panel.heard.named("LayoutUpdated") == []


def test_it_needs_little_memory_and_no_heavy_library(start_panel: StartPanel, start_tray: StartTray) -> None:
    start_panel()
    tray = start_tray()
    tray.hear(Say.UP)
    process = psutil.Process(tray.process.pid)
    mapped = " ".join(each.path for each in process.memory_maps())
    for heavy in ("numpy", "pydantic", "/gi/", "_imaging"):
        assert heavy not in mapped
    assert process.memory_full_info().pss < 35_000_000
