"""A session bus of a test's own, with gnome-keyring on it, in a home that is thrown away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import REPOSITORY

PASSWORD = b"a password of a test"
NEEDED = {
    "dbus-run-session": "dbus",
    "gnome-keyring-daemon": "gnome-keyring",
    "secret-tool": "libsecret-tools",
    "Xvfb": "xvfb",
}


def skip_where_it_is_missing() -> None:
    """Skip with the line that installs what is missing."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no secret service to be had here: apt-get install {' '.join(missing)}")


class Session:
    """A login without a desktop. ``environ`` is what its programs are started with."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ

    def unlock(self) -> None:
        """Start the keyring, unlocked, in the place of one that runs."""
        subprocess.run(
            ["gnome-keyring-daemon", "--replace", "--unlock", "--components=secrets"],
            input=PASSWORD,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=20,
        )
        deadline = time.monotonic() + 10
        while self._python("import sys; sys.exit(c.is_locked())") != 0:
            assert time.monotonic() < deadline, "the keyring did not open"
            time.sleep(0.05)

    def lock(self) -> None:
        """Lock it, as a login does that locks its screen."""
        assert self._python("c.lock(); assert c.is_locked()") == 0

    def _python(self, code: str) -> int:
        begin = (
            "import secretstorage\n"
            "c = secretstorage.Collection(secretstorage.dbus_init(), '/org/freedesktop/secrets/collection/login')\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", begin + code], env=self.environ, check=False, timeout=20, stderr=subprocess.DEVNULL
        )
        return ran.returncode

    def sapwood(self, *words: str, text: str | None = None, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "agent.cli.main", *words],
            env=self.environ,
            cwd=REPOSITORY,
            input="" if text is None else text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def secret_tool(self) -> str:
        """Return what the system's own program finds under our name."""
        ran = subprocess.run(
            ["secret-tool", "lookup", "service", "sapwood", "username", "keys"],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        return ran.stdout


@contextmanager
def session(folder: Path, *, with_screen: bool = False) -> Iterator[Session]:
    """Open a session in this folder and end all that was started in it."""
    skip_where_it_is_missing()
    mark = f"SESSION_OF_A_TEST={folder}"
    dropped = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND", "XAUTHORITY")
    environ = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("XDG_")}
    environ |= {
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "SAPWOOD_HOME": str(folder / "sapwood"),
        "SESSION_OF_A_TEST": str(folder),
        "NO_AT_BRIDGE": "1",
    }
    for name in ("home", "run"):
        (folder / name).mkdir(mode=0o700, parents=True)
    with ExitStack() as stack:
        stack.callback(_end_all, mark)
        log = stack.enter_context((folder / "session.log").open("wb"))
        if with_screen:
            # Before the bus: what the bus starts inherits the display.
            environ["DISPLAY"] = stack.enter_context(_screen(environ, log))
        bus = stack.enter_context(
            subprocess.Popen(
                ["dbus-run-session", "--", "sh", "-c", 'echo "$DBUS_SESSION_BUS_ADDRESS"; read line'],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        )
        assert bus.stdout is not None
        assert bus.stdin is not None
        environ["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()
        yield Session(environ)
        bus.stdin.close()


@contextmanager
def _screen(environ: dict[str, str], log: object) -> Iterator[str]:
    reading, writing = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
        env=environ,
        pass_fds=(writing,),
        stdout=subprocess.DEVNULL,
        stderr=log,  # type: ignore[arg-type]
    ) as server:
        os.close(writing)
        try:
            with os.fdopen(reading) as stream:
                yield f":{stream.readline().strip()}"
        finally:
            server.terminate()


def _end_all(mark: str) -> None:
    """End what carries this session's mark in its environment: the keyring, its prompter, whatever the bus started."""
    for process in psutil.process_iter():
        try:
            name, _, value = mark.partition("=")
            if process.pid != os.getpid() and process.environ().get(name) == value:
                process.kill()
        except (psutil.Error, OSError):
            continue
