"""The first start's three questions, answered as a person would on a terminal."""

from __future__ import annotations

import http.server
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.actions import setting_up
from agent.actions.autostart import autostart_status
from agent.actions.home import open_home
from agent.actions.setting_up import (
    LocalServer,
    count_items,
    local_server,
    questions,
    suggested_places,
    use_local_model,
)
from agent.cli.output import Output
from agent.cli.setup import _ask_model
from agent.config import load_intent
from agent.paths import Paths, paths_under
from tests.cli.conftest import Sapwood, widths

if sys.platform != "win32":
    from tests.cli.terminal import Terminal, on_a_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the terminal of these tests is a pty")


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with documents, notes and Thunderbird's mail."""
    home = tmp_path / "person"
    for name in ("Documents", "Notes"):
        (home / name).mkdir(parents=True)
        (home / name / "one.md").write_text("Quinces want sun.\n")
    mail = home / ".thunderbird" / "abc.default" / "Mail" / "Local Folders"
    mail.mkdir(parents=True)
    (home / ".thunderbird" / "profiles.ini").write_text("[Profile0]\nName=default\nIsRelative=1\nPath=abc.default\n")
    for name in ("Archive", "Trash"):
        (mail / name).write_text("From a@b Thu Jan  1 00:00:00 2026\nFrom: a@b.example\nSubject: Hello\n\nHello.\n\n")
        (mail / f"{name}.msf").write_text("index")
    (mail / "Empty").write_text("")
    (mail / "Empty.msf").write_text("index")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    return home


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_under(tmp_path / "home")


def sources_of(paths: Paths) -> list[tuple[str, str]]:
    return [(source.kind, source.paths[0]) for source in load_intent(paths).intent.sources]


def skip_all(terminal: Terminal) -> None:
    for question in ("Enter goes on", "when you log in?"):
        terminal.wait_for(question)
        terminal.type("\n")


def test_three_answers_are_in_force_afterwards(person: Path, paths: Paths) -> None:
    with on_a_terminal("setup") as terminal:
        terminal.wait_for("1 of 3  What to remember")
        terminal.wait_for("Enter goes on")
        terminal.type(f"1 '{person / 'Documents'}'\n")
        terminal.wait_for("added notes (folder): 1 item")
        terminal.wait_for("added documents (folder): 1 item")
        terminal.wait_for("Enter goes on")
        terminal.type("\n")
        terminal.wait_for("2 of 3  Which model")
        terminal.wait_for("3 of 3  Start at login")
        terminal.wait_for("when you log in?")
        terminal.type("y\n")
        terminal.wait_for("start at login is on")
        terminal.wait_for("`sapwood run` starts the agent")
        assert terminal.end() == 0
    assert sources_of(paths) == [("folder", str(person / "Notes")), ("folder", str(person / "Documents"))]
    assert autostart_status(paths).enabled
    shown = "\n".join(line for line in terminal.text.splitlines() if "Enter goes on" not in line)
    assert max(widths(shown)) <= 80, "but for what was typed"


def test_every_question_can_be_skipped_and_then_nothing_was_changed(person: Path, paths: Paths) -> None:
    with on_a_terminal("setup") as terminal:
        skip_all(terminal)
        terminal.wait_for("Nothing is named to remember yet")
        assert terminal.end() == 0
    assert not paths.config_file.exists()
    assert not autostart_status(paths).enabled


def test_ctrl_c_leaves_what_was_answered_in_force_and_says_so(person: Path, paths: Paths) -> None:
    with on_a_terminal("setup") as terminal:
        terminal.wait_for("Enter goes on")
        terminal.type("1\n")
        terminal.wait_for("added notes")
        terminal.wait_for("Enter goes on")
        terminal.interrupt("Ended here. Done so far, and it holds: added notes.")
        assert terminal.end() == 130
    assert sources_of(paths) == [("folder", str(person / "Notes"))]
    with on_a_terminal("setup") as terminal:
        terminal.wait_for("Some is remembered already")
        terminal.wait_for("Enter goes on")
        terminal.type("\x04")
        terminal.wait_for("Ended here. Nothing was changed.")
        assert terminal.end() == 130


def test_a_path_that_is_not_there_is_told_and_asked_for_again(person: Path, paths: Paths) -> None:
    with on_a_terminal("setup") as terminal:
        terminal.wait_for("Enter goes on")
        terminal.type("~/Notez 'open\n")
        terminal.wait_for("a quote is not closed")
        terminal.wait_for("Enter goes on")
        terminal.type("~/Notez ~/Notes 17\n")
        terminal.wait_for("there is nothing at this path")
        terminal.wait_for("added notes")
        terminal.wait_for("there is nothing at this path")
        skip_all(terminal)
        assert terminal.end() == 0
    assert len(sources_of(paths)) == 1


def test_a_mailbox_is_added_as_what_it_is(person: Path, paths: Paths) -> None:
    with on_a_terminal("setup") as terminal:
        terminal.wait_for("mail: Local Folders, Archive")
        terminal.wait_for("Enter goes on")
        terminal.type("3\n")
        terminal.wait_for("added archive (mbox): 1 item")
        skip_all(terminal)
        assert terminal.end() == 0
    assert sources_of(paths)[0][0] == "mbox"


def test_a_clouds_profile_is_used_only_after_consent(person: Path, paths: Paths, sapwood: Sapwood) -> None:
    assert sapwood("model", "add", "far", "--provider", "openai", "--model", "gpt-4o-mini").code == 0
    for answer, active in (("n", "builtin"), ("y", "far")):
        with on_a_terminal("setup") as terminal:
            terminal.wait_for("Enter goes on")
            terminal.type("\n")
            terminal.wait_for("cloud, api.openai.com")
            terminal.wait_for("Enter keeps 1")
            terminal.type("7\n")
            terminal.wait_for("a number from 1 to 2")
            terminal.wait_for("Enter keeps 1")
            terminal.type("2\n")
            terminal.wait_for("api.openai.com is sent:")
            terminal.wait_for("Send this to api.openai.com?")
            terminal.type(f"{answer}\n")
            terminal.wait_for("when you log in?")
            terminal.interrupt("Ended here.")
            terminal.end()
        assert load_intent(paths).intent.models.active == active
        assert ("it holds: the model is far" in " ".join(terminal.text.split())) is (answer == "y")


def test_without_a_terminal_it_says_what_to_run_instead(sapwood: Sapwood, paths: Paths) -> None:
    ran = sapwood("setup")
    assert ran.code == 2
    for words in ("sapwood add PATH", "sapwood model use NAME", "sapwood autostart on"):
        assert words in " ".join(ran.err.split())
    assert not paths.config_file.exists()


def test_json_says_what_it_would_ask_and_asks_nothing(person: Path, sapwood: Sapwood) -> None:
    found = sapwood("setup", "--json").document
    assert found["is_first"] is True
    assert [(each["kind"], each["path"]) for each in found["suggestions"]] == [
        ("folder", str(person / "Notes")),
        ("folder", str(person / "Documents")),
        ("mbox", str(person / ".thunderbird/abc.default/Mail/Local Folders/Archive")),
    ]
    assert found["autostart"]["enabled"] is False


def test_the_folder_of_documents_is_found_under_its_own_name(person: Path, tmp_path: Path, paths: Paths) -> None:
    (person / "Dokumente" / "Obsidian").mkdir(parents=True)
    (tmp_path / "xdg").mkdir(exist_ok=True)
    (tmp_path / "xdg" / "user-dirs.dirs").write_text('# names\nXDG_DOCUMENTS_DIR="$HOME/Dokumente"\n')
    with open_home(paths) as home:
        found = [each.path for each in suggested_places(home)]
        assert str(person / "Dokumente") in found
        assert str(person / "Dokumente" / "Obsidian") in found
        assert str(person / "Documents") not in found
        (tmp_path / "xdg" / "user-dirs.dirs").write_text('XDG_DOCUMENTS_DIR="$HOME/"\n')
        assert str(person) not in [each.path for each in suggested_places(home)]


def test_what_is_named_already_is_not_offered_again(person: Path, sapwood: Sapwood, paths: Paths) -> None:
    assert sapwood("add", str(person / "Notes")).code == 0
    with open_home(paths) as home:
        assert [each.is_named for each in suggested_places(home)] == [True, False, False]
        assert count_items(home, suggested_places(home)[0]) == 1


def test_suggesting_opens_nothing_of_what_it_suggests(person: Path, paths: Paths, opened: list[str]) -> None:
    with open_home(paths) as home:
        opened.clear()
        assert questions(home).suggestions
    about = [path for path in opened if path.startswith(str(person))]
    assert set(about) <= {str(person / ".thunderbird" / "profiles.ini")}


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Which files and folders this process opens or lists from now on."""
    found: list[str] = []
    is_on = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_on and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
            path = os.path.abspath(os.fspath(arguments[0]))
            # Its lists of folders and mailboxes are looked at by name alone.
            if event == "open" or ".thunderbird" not in path:
                found.append(path)

    sys.addaudithook(hook)
    yield found
    is_on = False


# -- a server on this machine -----------------------------------------------------------------------------------------


@pytest.fixture
def ollama() -> Iterator[str]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"models": [{"name": "quince:3b"}, {"name": "apple:1b"}]}).encode()
            self.send_response(200 if self.path == "/api/tags" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_on_this_machine_says_which_models_it_has(ollama: str) -> None:
    found = local_server(ollama)
    assert found.answers
    assert found.models == ("apple:1b", "quince:3b")


def test_a_server_that_says_nothing_costs_half_a_second() -> None:

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert not local_server(address).answers
        assert time.monotonic() - began < 2.0
    assert not local_server(address).answers, "nobody listens"


def test_a_model_of_this_machine_is_offered_and_used(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_home(paths) as home:
        asked = replace(questions(home), local_server=LocalServer(True, models=("apple:1b", "quince:3b")))
    monkeypatch.setattr("agent.cli.setup._number", lambda output, question, most: most)
    done: list[str] = []
    _ask_model(Output(), paths, asked, done)
    assert done == ["the model is quince:3b"]
    assert load_intent(paths).intent.models.active == "ollama"
    assert "No Ollama answers" not in capsys.readouterr().out


def test_a_model_of_this_machine_becomes_a_profile_once(paths: Paths) -> None:
    for _ in range(2):
        with open_home(paths) as home:
            assert use_local_model(home, "quince:3b").active == "ollama"
    with open_home(paths) as home:
        assert use_local_model(home, "apple:1b").active == "ollama-2"
    intent = load_intent(paths).intent
    assert [(each.name, each.chat_model) for each in intent.profiles] == [
        ("ollama", "quince:3b"),
        ("ollama-2", "apple:1b"),
    ]
    assert intent.profiles[0].address == setting_up.OLLAMA_ADDRESS
