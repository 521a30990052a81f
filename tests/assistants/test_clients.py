"""What each program is told: a file it reads, in its own form, with a command that works from anywhere."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent.actions.assistants_clients import Client, ClientConfig, client_config, server_program
from tests.cli.conftest import sapwood

__all__ = ["sapwood"]

PROGRAM = ("/opt/Sap wood/sapwood",)


def told(client: Client, platform: str = "linux", **environ: str) -> ClientConfig:
    home = Path(r"C:\Users\ada") if platform == "win32" else Path("/home/ada")
    return client_config(client, environ=environ, platform=platform, home=home, program=PROGRAM)


def entry_of(found: ClientConfig) -> Any:
    if found.client == "codex":
        return tomllib.loads(found.snippet)["mcp_servers"]["sapwood"]
    (servers,) = json.loads(found.snippet).values()
    return servers["sapwood"]


@pytest.mark.parametrize("client", list(Client))
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_each_entry_starts_the_program_with_its_own_home(client: Client, platform: str) -> None:
    plain = entry_of(told(client, platform))
    assert (plain["command"], plain["args"]) == (PROGRAM[0], ["mcp"])
    assert "env" not in plain
    own = entry_of(told(client, platform, SAPWOOD_HOME='/home/ada/a "home"'))
    assert own["env"] == {"SAPWOOD_HOME": '/home/ada/a "home"'}


@pytest.mark.parametrize(
    ("client", "platform", "path"),
    [
        (Client.CLAUDE, "linux", "/home/ada/.config/Claude/claude_desktop_config.json"),
        (Client.CLAUDE, "darwin", "/home/ada/Library/Application Support/Claude/claude_desktop_config.json"),
        (Client.CLAUDE, "win32", r"C:\Users\ada\AppData\Roaming\Claude\claude_desktop_config.json"),
        (Client.CURSOR, "linux", "/home/ada/.cursor/mcp.json"),
        (Client.CURSOR, "win32", r"C:\Users\ada\.cursor\mcp.json"),
        (Client.VSCODE, "linux", "/home/ada/.config/Code/User/mcp.json"),
        (Client.VSCODE, "darwin", "/home/ada/Library/Application Support/Code/User/mcp.json"),
        (Client.VSCODE, "win32", r"C:\Users\ada\AppData\Roaming\Code\User\mcp.json"),
        (Client.CODEX, "linux", "/home/ada/.codex/config.toml"),
        (Client.CODEX, "win32", r"C:\Users\ada\.codex\config.toml"),
    ],
)
def test_the_file_is_the_one_that_the_program_reads(client: Client, platform: str, path: str) -> None:
    assert told(client, platform).path == path


def test_folders_that_were_moved_are_followed() -> None:
    assert told(Client.CODEX, CODEX_HOME="/srv/codex").path == "/srv/codex/config.toml"
    assert told(Client.VSCODE, XDG_CONFIG_HOME="/srv/xdg").path == "/srv/xdg/Code/User/mcp.json"
    assert told(Client.CLAUDE, "win32", APPDATA=r"D:\Roaming").path == r"D:\Roaming\Claude\claude_desktop_config.json"


@pytest.mark.parametrize("client", [Client.CLAUDE, Client.CODEX])
def test_the_command_that_does_the_same_can_be_pasted(client: Client) -> None:
    (command,) = [note for note in told(client, SAPWOOD_HOME="/a b").notes if "mcp add" in note]
    pasted = shlex.split(command.partition(": ")[2])
    assert pasted[-3:] == ["--", PROGRAM[0], "mcp"]
    assert "SAPWOOD_HOME=/a b" in pasted


def test_the_program_is_one_that_is_there_and_has_streams() -> None:
    first, *_ = server_program()
    assert os.path.isabs(first)
    assert os.path.isfile(first)
    assert os.path.basename(first).lower() not in ("sapwoodw.exe", "pythonw.exe")


@pytest.mark.parametrize(
    ("login", "server"),
    [
        (("/apps/sapwoodw.exe",), ("/apps/sapwood.exe",)),
        (("/python/pythonw.exe", "-m", "agent.cli.main"), ("/python/python.exe", "-m", "agent.cli.main")),
    ],
)
def test_what_starts_without_streams_at_login_starts_with_them_here(
    login: tuple[str, ...], server: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.system.autostart.program_argv", lambda: login)
    assert server_program() == server


def test_the_command_prints_the_snippet_alone_on_stdout(sapwood: Any) -> None:
    ran = sapwood("mcp", "config", "vscode")
    assert ran.code == 0
    assert json.loads(ran.out)["servers"]["sapwood"]["type"] == "stdio"
    assert "mcp.json" in ran.err
    missing = sapwood("mcp", "config")
    assert missing.code == 2
    assert "claude" in missing.err
