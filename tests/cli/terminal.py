"""A command on a terminal of 80 columns: what it asks is read, what a person types is typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The other end of the terminal of one command."""

    def __init__(self, side: int, process: subprocess.Popen[bytes]) -> None:
        self._side = side
        self.process = process
        self._data = b""
        self._from = 0

    @property
    def text(self) -> str:
        """All that stood on it, without colours."""
        return _SEQUENCES.sub("", self._data.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\r", "")

    def wait_for(self, words: str, deadline_s: float = 20.0) -> None:
        """Wait until these words stand there, behind those that were waited for before."""
        end = time.monotonic() + deadline_s
        while (at := self.text.find(words, self._from)) < 0:
            assert time.monotonic() < end, f"no {words!r} in:\n{self.text}"
            assert self._read(end - time.monotonic()), f"it ended without {words!r}:\n{self.text}"
        self._from = at + len(words)

    def interrupt(self, words: str, deadline_s: float = 20.0) -> None:
        """Press Ctrl-C until these words stand there: Python loses one that comes just before it begins to read."""
        end = time.monotonic() + deadline_s
        while self.text.find(words, self._from) < 0:
            assert time.monotonic() < end, f"no {words!r} in:\n{self.text}"
            self.type("\x03")
            patience = time.monotonic() + 2.0
            while self.text.find(words, self._from) < 0 and (left := patience - time.monotonic()) > 0:
                assert self._read(left), f"it ended without {words!r}:\n{self.text}"

    def type(self, keys: str) -> None:
        """Type keys; a line ends with ``\\n``."""
        os.write(self._side, keys.encode())

    def end(self, deadline_s: float = 20.0) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + deadline_s
        while self._read(max(0.0, end - time.monotonic())):
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
        return self.process.wait(10)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._side], [], [], max(0.0, timeout_s))[0]:
            return True
        try:
            more = os.read(self._side, 1 << 16)
        except OSError:
            return False  # nobody holds the other end any more
        self._data += more
        return bool(more)


@contextmanager
def on_a_terminal(*arguments: str, environ: Mapping[str, str] = {}) -> Iterator[Terminal]:
    """Run a command on a terminal of its own; it is ended whatever happens."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, "TERM": "xterm", **environ},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(ours)
