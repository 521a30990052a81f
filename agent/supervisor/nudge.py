"""What ends the main loop's sleep: signals, and other threads that have something for it.

Signal handlers only set flags; the byte that the interpreter writes on a signal is what ends the wait.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from multiprocessing import Pipe
from types import FrameType
from typing import Any

_STOPPING_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


class Nudge:
    """Something to wait on that any thread can make ready. Draining it takes all nudges so far."""

    def __init__(self) -> None:
        self._reading, self._writing = Pipe(duplex=False)
        if sys.platform != "win32":
            os.set_blocking(self._reading.fileno(), False)
            os.set_blocking(self._writing.fileno(), False)

    @property
    def waitable(self) -> Any:
        """What to give to ``multiprocessing.connection.wait``."""
        return self._reading

    def nudge(self) -> None:
        """End the wait, from any thread. Never raises, never blocks: a full pipe is ready anyway."""
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                self._writing.send_bytes(b"!")
            else:
                os.write(self._writing.fileno(), b"!")

    def drain(self) -> None:
        """Take what made it ready."""
        with contextlib.suppress(OSError, EOFError):
            if sys.platform == "win32":
                while self._reading.poll(0):
                    self._reading.recv_bytes()
            else:
                while os.read(self._reading.fileno(), 4096):
                    pass

    def wake_up_descriptor(self) -> int:
        """Return the descriptor for ``signal.set_wakeup_fd``, or −1 where a signal ends the wait by itself."""
        return -1 if sys.platform == "win32" else self._writing.fileno()

    def close(self) -> None:
        """Let both ends go."""
        self._reading.close()
        self._writing.close()


class StopSignals:
    """While entered, the signals that end a program are remembered instead of obeyed. Main thread only."""

    def __init__(self, nudge: Nudge) -> None:
        self._nudge = nudge
        self._before: list[tuple[int, Any]] = []
        self._descriptor_before = -1
        self.received: int | None = None
        """The first signal that came, or ``None``."""
        self.received_at = 0.0
        """When it came (monotonic seconds): the four seconds of a stop count from here."""

    def __enter__(self) -> StopSignals:
        for name in _STOPPING_SIGNALS:
            number = getattr(signal, name, None)
            if number is not None:
                self._before.append((number, signal.signal(number, self._remember)))
        descriptor = self._nudge.wake_up_descriptor()
        if descriptor >= 0:
            self._descriptor_before = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._nudge.wake_up_descriptor() >= 0:
            signal.set_wakeup_fd(self._descriptor_before)
        for number, handler in self._before:
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self.received_at = number, time.monotonic()
