"""Where the running page is: what its process writes when it serves, and how others tell whether that still holds.

``runtime/gateway.json`` may be left behind by a process that was killed, and its port be another program's by then. So
it counts only together with the start of the process that it names; and nobody is sent the token who has not proved to
be that process by being the one that the agent started.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from agent.config_edit import write_atomically
from agent.paths import Paths
from agent.system.identity import ProcessIdentity, is_alive


@dataclass(frozen=True)
class GatewayAddress:
    """The page's process and its port on 127.0.0.1."""

    identity: ProcessIdentity
    port: int

    @property
    def origin(self) -> str:
        """What an address of the page begins with."""
        return f"http://127.0.0.1:{self.port}"

    def to_json(self) -> str:
        """Return the file's text."""
        return json.dumps({"pid": self.identity.pid, "started": self.identity.started, "port": self.port})


def read_gateway(paths: Paths) -> GatewayAddress | None:
    """Return what ``gateway.json`` says, or ``None`` where it is missing or unreadable. Says nothing about life."""
    try:
        held = json.loads(paths.gateway_file.read_text("utf-8"))
        return GatewayAddress(ProcessIdentity(int(held["pid"]), str(held["started"])), int(held["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running_gateway(paths: Paths) -> GatewayAddress | None:
    """Return where the page is, ``None`` where its process does not live. Reads one small file."""
    found = read_gateway(paths)
    return found if found is not None and is_alive(found.identity) else None


def read_token(paths: Paths) -> str | None:
    """Return the bearer token of the page that serves, ``None`` where there is none."""
    try:
        return paths.rpc_token.read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def publish(paths: Paths, address: GatewayAddress, token: str) -> None:
    """Write both files for the owner alone, the token first: whoever finds the address finds it. Raises ``OSError``."""
    write_atomically(paths.rpc_token, token, mode=0o600)
    write_atomically(paths.gateway_file, address.to_json(), mode=0o600)


def withdraw(paths: Paths, address: GatewayAddress) -> None:
    """Remove both files, unless another process has put its own there since. Does not raise."""
    if read_gateway(paths) != address:
        return
    for path in (paths.gateway_file, paths.rpc_token):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
