"""How others talk to the running agent: one supervisor per data directory, one private address.

The single instance is a kernel lock that dies with its process (five fixes elsewhere for lock files left behind:
openhuman 1612 and its kin). ``runtime/agent.json`` (mode 0600) says where to call and with which key. The channel needs
no database: it answers while the memory is damaged or gone. Messages are JSON; nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from agent.config_edit import write_atomically
from agent.errors import AgentFault, AgentNotRunning
from agent.paths import Paths
from agent.system.identity import ProcessIdentity, is_alive, own_identity

VERBS = ("ping", "stop", "open", "look", "reload", "status", "examine", "rebuild")
MAX_MESSAGE = 1 << 20
MAX_CLIENTS = 16
CLIENT_PATIENCE_S = 5.0
PLACE_PATIENCE_S = 1.0
UNIX_PATH_LIMIT = 100
"""AF_UNIX takes 108 bytes on Linux and 104 on macOS, the closing zero included."""
_SHORT_FOLDER = "sapwood-"

Answer = Callable[[str], dict[str, Any]]
_log = logging.getLogger("sapwood.supervisor")


@dataclass(frozen=True)
class AgentAddress:
    """What ``agent.json`` holds: who answers, where, and the key to ask with."""

    identity: ProcessIdentity
    address: str
    key: bytes

    def to_json(self) -> str:
        """Return the file's text."""
        return json.dumps(
            {
                "pid": self.identity.pid,
                "started": self.identity.started,
                "address": self.address,
                "key": self.key.hex(),
            }
        )


def read_address(paths: Paths) -> AgentAddress | None:
    """Return what ``agent.json`` says, or ``None`` where it is missing or unreadable. Says nothing about life."""
    try:
        held = json.loads(paths.agent_file.read_text("utf-8"))
        return AgentAddress(
            ProcessIdentity(int(held["pid"]), str(held["started"])), str(held["address"]), bytes.fromhex(held["key"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running_agent(paths: Paths) -> ProcessIdentity | None:
    """Return the supervisor of this data directory if it is alive, else ``None``."""
    found = read_address(paths)
    return found.identity if found is not None and is_alive(found.identity) else None


class SingleInstance:
    """The lock that the one supervisor of a data directory holds for as long as it lives."""

    def __init__(self, paths: Paths) -> None:
        from filelock import FileLock

        # A soft lock would outlive a kill -9; better no agent than two (filelock 315, 331).
        self._lock = FileLock(
            paths.supervisor_lock, timeout=0, fallback_to_soft=False, preserve_lock_file=True, thread_local=False
        )

    def acquire(self) -> bool:
        """Return whether the lock is ours now. Raises ``AgentFault`` where the folder cannot hold a kernel lock."""
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:
            raise AgentFault(
                "the agent's lock cannot be taken",
                f"{self._lock.lock_file}: {error}",
                "check that the data folder is yours, writable and on a disk of this machine",
            ) from error
        return True

    def release(self) -> None:
        """Let the next supervisor in."""
        self._lock.release()


class ControlServer:
    """Answers callers from threads of its own; what they want of the main loop is posted there by ``answer``.

    ``answer(verb)`` runs in a client's thread and must not block; it returns what the caller gets.
    """

    def __init__(self, paths: Paths, answer: Answer) -> None:
        self._paths = paths
        self._answer = answer
        self._key = os.urandom(32)
        self._clients = threading.Semaphore(MAX_CLIENTS)
        self._closed = False
        self._folder: Path | None = None
        forget_stale_address(paths)
        self._listener = self._listen()
        self._address = str(self._listener.address)
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)

    def start(self) -> None:
        """Publish the address and begin to answer. Raises ``OSError``."""
        self._thread.start()
        write_atomically(
            self._paths.agent_file, AgentAddress(own_identity(), self._address, self._key).to_json(), mode=0o600
        )

    def close(self) -> None:
        """Withdraw the address and stop answering; does not wait for callers in the middle of a question."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._paths.agent_file.unlink(missing_ok=True)
        # Closing a listening socket does not wake the thread that accepts on it; a caller does.
        with contextlib.suppress(OSError, EOFError):
            Client(self._address, self._family).close()
        self._thread.join(0.5)
        with contextlib.suppress(OSError):
            self._listener.close()
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    @property
    def _family(self) -> str:
        return "AF_PIPE" if sys.platform == "win32" else "AF_UNIX"

    def _listen(self) -> Listener:
        if sys.platform == "win32":
            return Listener(rf"\\.\pipe\sapwood-{os.urandom(12).hex()}", "AF_PIPE")
        path = self._paths.runtime_dir / "agent.sock"
        if len(os.fsencode(path)) > UNIX_PATH_LIMIT:
            # mkdtemp makes a folder that is ours alone; its name goes into agent.json. An owner's own folder for such
            # things may be as deep as their home.
            place = tempfile.gettempdir()
            is_deep = len(os.fsencode(place)) > UNIX_PATH_LIMIT - 30
            self._folder = Path(tempfile.mkdtemp(prefix=_SHORT_FOLDER, dir="/tmp" if is_deep else place))
            path = self._folder / "agent.sock"
        path.unlink(missing_ok=True)
        return Listener(str(path), "AF_UNIX", backlog=MAX_CLIENTS)

    def _accept(self) -> None:
        while not self._closed:
            try:
                # Without a key here: the handshake blocks on the caller, so it is made in the caller's own thread.
                caller = self._listener.accept()
            except (OSError, EOFError):
                if self._closed:
                    return
                time.sleep(0.2)
                continue
            # A caller has its answer before the thread that gave it is done: who asks again and again on a busy machine
            # would find all places taken by callers that have gone.
            if self._closed or not self._clients.acquire(timeout=PLACE_PATIENCE_S):
                caller.close()
                continue
            threading.Thread(target=self._serve, args=(caller,), name="caller", daemon=True).start()

    def _serve(self, caller: Any) -> None:
        try:
            _limit_waiting(caller, CLIENT_PATIENCE_S)
            deliver_challenge(caller, self._key)
            answer_challenge(caller, self._key)
            if not caller.poll(CLIENT_PATIENCE_S):
                return
            request = json.loads(caller.recv_bytes(MAX_MESSAGE))
            verb = request.get("verb") if isinstance(request, dict) else None
            answer = self._answer(verb) if verb in VERBS else {"ok": False, "error": f"unknown request {verb!r}"}
            caller.send_bytes(json.dumps(answer).encode())
        except (AuthenticationError, OSError, EOFError, ValueError) as error:
            _log.info("a caller was turned away: %s", type(error).__name__)
        finally:
            caller.close()
            self._clients.release()


def _limit_waiting(line: Any, seconds: float) -> None:
    """Have reads and writes of a connection fail after that long. On Windows they go on waiting."""
    if sys.platform == "win32":
        return
    # Both ends of the handshake read without a limit, and there are only so many places for callers: a few programs
    # that were stopped in the middle of a question would close the channel for everybody.
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(line.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def forget_stale_address(paths: Paths) -> None:
    """Remove what a supervisor that was killed left behind. The caller holds the single instance's lock."""
    found = read_address(paths)
    if found is not None and sys.platform != "win32":
        old = Path(found.address)
        if old.parent.name.startswith(_SHORT_FOLDER):
            with contextlib.suppress(OSError):
                old.unlink(missing_ok=True)
                old.parent.rmdir()
    with contextlib.suppress(OSError):
        paths.agent_file.unlink(missing_ok=True)


def call(paths: Paths, verb: str, timeout: float = CLIENT_PATIENCE_S) -> dict[str, Any]:
    """Ask the running agent and return its answer; blocks for ``timeout`` seconds at most.

    Raises ``AgentNotRunning`` where there is none, ``AgentFault`` where it does not answer in time.
    """
    found = read_address(paths)
    if found is None or not is_alive(found.identity):
        raise AgentNotRunning()
    outcome: dict[str, Any] = {}

    def converse() -> None:
        try:
            family = "AF_PIPE" if sys.platform == "win32" else "AF_UNIX"
            with Client(found.address, family) as line:
                answer_challenge(line, found.key)
                deliver_challenge(line, found.key)
                line.send_bytes(json.dumps({"verb": verb}).encode())
                outcome["answer"] = json.loads(line.recv_bytes(MAX_MESSAGE))
        except (AuthenticationError, OSError, EOFError, ValueError) as error:
            outcome["error"] = error

    # A stopped process accepts connections and never answers, and no read of this module takes a timeout.
    asking = threading.Thread(target=converse, name="asking", daemon=True)
    asking.start()
    asking.join(timeout)
    if "answer" in outcome:
        answer: dict[str, Any] = outcome["answer"]
        return answer
    if not is_alive(found.identity):
        raise AgentNotRunning("it ended just now")
    if "error" in outcome:
        raise AgentFault("the agent could not be asked", str(outcome["error"]), "try again; see `sapwood logs`")
    raise AgentFault("the agent does not answer", f"process {found.identity.pid}", "see `sapwood logs`")


def wait_until_gone(identity: ProcessIdentity, timeout: float) -> bool:
    """Return whether that process ended within so many seconds; blocks meanwhile."""
    end = time.monotonic() + timeout
    while is_alive(identity):
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True
