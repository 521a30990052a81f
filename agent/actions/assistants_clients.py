"""What an assistant's program needs to start ``sapwood mcp``: which file, and what to put there. Nothing is written.

The command is absolute and works when frozen; a home of its own is carried along, since these programs start their
servers with an environment of their own choosing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

NAME = "sapwood"
HOME_VARIABLE = "SAPWOOD_HOME"


class Client(StrEnum):
    """The programs that we know where to tell."""

    CLAUDE = "claude"
    CURSOR = "cursor"
    VSCODE = "vscode"
    CODEX = "codex"


@dataclass(frozen=True)
class ClientConfig:
    """``snippet`` belongs into the file ``path``; ``notes`` say how, and what is the same in one command."""

    client: str
    path: str
    snippet: str
    notes: tuple[str, ...]


def client_config(
    client: Client | str,
    *,
    environ: Mapping[str, str] | None = None,
    platform: str | None = None,
    home: Path | None = None,
    program: Sequence[str] | None = None,
) -> ClientConfig:
    """Return what to put where for a program; for this machine, unless told of another."""
    environ = os.environ if environ is None else environ
    platform = sys.platform if platform is None else platform
    kind = PureWindowsPath if platform == "win32" else PurePosixPath
    folder: PurePath = kind(home or Path.home())
    argv = [*(server_program() if program is None else program), "mcp"]
    own = environ.get(HOME_VARIABLE, "").strip()
    start = _Start(argv[0], argv[1:], {HOME_VARIABLE: os.path.abspath(own)} if own else {})
    return _CLIENTS[Client(client)](_Place(platform, folder, environ), start)


def server_program() -> tuple[str, ...]:
    """Return the words that start our program with the streams of whoever starts it, the first one absolute.

    What starts at login on Windows has none, so it is its neighbour that is meant.
    """
    from agent.system.autostart import WINDOWLESS, program_argv

    first, *rest = program_argv()
    folder, name = os.path.split(first)
    if name.lower() == WINDOWLESS:
        first = os.path.join(folder, "sapwood.exe")
    elif name.lower() == "pythonw.exe":
        first = os.path.join(folder, "python.exe")
    return (first, *rest)


@dataclass(frozen=True)
class _Start:
    command: str
    args: list[str]
    env: dict[str, str]

    @property
    def entry(self) -> dict[str, Any]:
        found: dict[str, Any] = {"command": self.command, "args": self.args}
        if self.env:
            found["env"] = self.env
        return found

    def words(self, client: str) -> str:
        """Return the words behind the name of a server, as programs with a command of their own take them."""
        import shlex

        flag = {"claude": "-e", "codex": "--env"}[client]
        env = [f"{flag} {shlex.quote(f'{key}={value}')}" for key, value in self.env.items()]
        return " ".join([*env, "--", shlex.join([self.command, *self.args])])


@dataclass(frozen=True)
class _Place:
    platform: str
    home: PurePath
    environ: Mapping[str, str]

    def settings(self, name: str) -> PurePath:
        """Return where a program of this name keeps its owner's settings."""
        if self.platform == "win32":
            return PureWindowsPath(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming") / name
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        return PurePosixPath(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config") / name


def _json(key: str, entry: dict[str, Any]) -> str:
    return json.dumps({key: {NAME: entry}}, indent=2, ensure_ascii=False)


MERGE = "Where the file has a list of servers already, put the entry `sapwood` into that list."


def _claude(place: _Place, start: _Start) -> ClientConfig:
    path = place.settings("Claude") / "claude_desktop_config.json"
    notes = (
        f"{MERGE} Then start Claude again.",
        f"For Claude Code in a terminal: claude mcp add {NAME} --scope user {start.words('claude')}",
    )
    return ClientConfig(Client.CLAUDE, str(path), _json("mcpServers", start.entry), notes)


def _cursor(place: _Place, start: _Start) -> ClientConfig:
    path = place.home / ".cursor" / "mcp.json"
    notes = (f"{MERGE} Then switch it on in Cursor's settings, under MCP.",)
    return ClientConfig(Client.CURSOR, str(path), _json("mcpServers", start.entry), notes)


def _vscode(place: _Place, start: _Start) -> ClientConfig:
    path = place.settings("Code") / "User" / "mcp.json"
    notes = (f"{MERGE} VS Code opens this file by its command `MCP: Open User Configuration`.",)
    return ClientConfig(Client.VSCODE, str(path), _json("servers", {"type": "stdio", **start.entry}), notes)


def _codex(place: _Place, start: _Start) -> ClientConfig:
    own = place.environ.get("CODEX_HOME")
    path = (type(place.home)(own) if own else place.home / ".codex") / "config.toml"
    # A string of JSON, a list of them too, is one of TOML.
    lines = [f"[mcp_servers.{NAME}]", f"command = {json.dumps(start.command)}", f"args = {json.dumps(start.args)}"]
    if start.env:
        lines += ["", f"[mcp_servers.{NAME}.env]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in start.env.items()]
    notes = (
        "Put it at the end of the file.",
        f"The same by a command: codex mcp add {NAME} {start.words('codex')}",
    )
    return ClientConfig(Client.CODEX, str(path), "\n".join(lines), notes)


_CLIENTS: dict[Client, Callable[[_Place, _Start], ClientConfig]] = {
    Client.CLAUDE: _claude,
    Client.CURSOR: _cursor,
    Client.VSCODE: _vscode,
    Client.CODEX: _codex,
}
