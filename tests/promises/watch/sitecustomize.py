"""Put on ``PYTHONPATH`` of an agent's processes: writes down who opens the memory, and how.

``WATCHED_OPENS`` names the file to write to. Lines: ``connect PID`` for each connection; ``file PID PATH`` where the
database or a side file is opened as a file in a process that holds a connection, which would drop its locks.
"""

from __future__ import annotations

import os
import sys

_OUT = os.environ.get("WATCHED_OPENS")
_MINE = ("chunks.db", "chunks.db-wal", "chunks.db-shm")


def _say(*words: object) -> None:
    line = " ".join(str(word) for word in words) + "\n"
    descriptor = os.open(str(_OUT), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _watch() -> None:
    import apsw

    held = []

    def connected(connection: object) -> None:
        held.append(1)
        _say("connect", os.getpid())

    def opened(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not held or not isinstance(arguments[0], str | bytes):
            return
        name = os.path.basename(os.fsdecode(arguments[0]))
        # Creating the file only where there is none gives no descriptor of one that is there.
        exclusive = isinstance(arguments[2], int) and arguments[2] & os.O_EXCL and arguments[2] & os.O_CREAT
        if name in _MINE and not exclusive:
            _say("file", os.getpid(), arguments[0])

    apsw.connection_hooks.append(connected)
    sys.addaudithook(opened)


if _OUT:
    _watch()
