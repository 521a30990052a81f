"""Reading from a disk that may not answer.

A call that never comes back cannot be ended, only left behind. Whoever reads with ``patience`` has each call to the
disk made in a thread of its own and goes on without it after a while: what hangs is said to be ``Stuck``, an
``OSError`` like any other. Without patience a call is a call, and costs nothing more.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Generic, TypeVar

from agent.ingest.readers.protocol import SourceMissing

if TYPE_CHECKING:
    from typing_extensions import Buffer

STUCK = "reading it does not come to an end"
MOST_STUCK = 50
"""After so many calls that hang it is the disk that does not answer; each of them holds a thread."""

_SHARE = 3  # each wait is at most this part of what is left
_LEAST_S = 0.05
_BLOCK = 256 * 1024

T = TypeVar("T")


class Stuck(TimeoutError):
    """A call to the disk did not come back in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, STUCK)


class Patience:
    """How long one reading waits: ``first_s`` for a call, and less and less once calls hang, ``all_s`` for all."""

    def __init__(self, first_s: float, all_s: float) -> None:
        self.first_s = first_s
        self.left_s = all_s
        self.stuck = 0

    def wait_s(self) -> float:
        """Return how long (s) the next call may take."""
        return max(_LEAST_S, min(self.first_s, self.left_s / _SHARE))

    def lose(self, waited_s: float) -> None:
        """Take in a call that hung. Raises ``SourceMissing`` where too many did."""
        self.stuck += 1
        self.left_s -= waited_s
        if self.stuck >= MOST_STUCK:
            raise SourceMissing("the disk does not answer", STUCK)


_PATIENCE: ContextVar[Patience | None] = ContextVar("patience", default=None)


@contextmanager
def patience(held: Patience) -> Iterator[None]:
    """Let what is read inside wait no longer than this."""
    token = _PATIENCE.set(held)
    try:
        yield
    finally:
        _PATIENCE.reset(token)


def is_patient() -> bool:
    """Return whether calls to the disk are waited for with patience here."""
    return _PATIENCE.get() is not None


def in_time(call: Callable[[], T], undo: Callable[[T], object] = lambda result: None) -> T:
    """Return what a call returns. Raises ``Stuck`` where there is patience and it came to an end.

    ``undo`` is called with the result of a call that came back too late.
    """
    held = _PATIENCE.get()
    if held is None:
        return call()
    attempt = _Attempt(call, undo)
    waited_s = held.wait_s()
    if not attempt.finish(waited_s):
        held.lose(waited_s)
        raise Stuck
    return attempt.result()


class _Attempt(Generic[T]):
    def __init__(self, call: Callable[[], T], undo: Callable[[T], object]) -> None:
        self._call = call
        self._undo = undo
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._left = False
        self._thread = threading.Thread(target=self._run, name="patience", daemon=True)

    def _run(self) -> None:
        try:
            result = self._call()
        except BaseException as error:  # it is raised where the call was asked for
            self._error = error
            return
        with self._lock:
            if not self._left:
                self._results.append(result)
                return
        with suppress(OSError):
            self._undo(result)

    def finish(self, wait_s: float) -> bool:
        """Return whether the call came back within so many seconds; if not, it is left behind."""
        self._thread.start()
        self._thread.join(wait_s)
        with self._lock:
            self._left = not self._results and self._error is None
            return not self._left

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]


class _PatientFile(io.RawIOBase):
    """A file whose reads are waited for with patience."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._hangs = False

    def fileno(self) -> int:
        return self._descriptor

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        size = min(len(view), _BLOCK)  # a slow disk is not one that hangs
        # Into bytes of its own: a call that comes back late must not write where others read by then.
        try:
            data = in_time(lambda: os.read(self._descriptor, size))
        except Stuck:
            self._hangs = True
            raise
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if not self._hangs:  # the number of a file that is still being read must not become another file's
                os.close(self._descriptor)


def stream_of(descriptor: int) -> IO[bytes]:
    """Return a stream of the bytes of an open file, which it closes."""
    if not is_patient():
        return os.fdopen(descriptor, "rb")
    return io.BufferedReader(_PatientFile(descriptor))
