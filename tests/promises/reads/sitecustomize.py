"""Put on ``PYTHONPATH`` of an agent's processes: writes down what they open and list below a folder.

``WATCHED_FOLDER`` names the folder, ``WATCHED_READS`` the file to write to, one path a line.
"""

from __future__ import annotations

import os
import sys

_OUT, _BELOW = os.environ.get("WATCHED_READS"), os.environ.get("WATCHED_FOLDER", "")
_READS = ("open", "os.listdir", "os.scandir")


def _watch(out: str) -> None:
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def seen(event: str, arguments: tuple[object, ...]) -> None:
        if event in _READS and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if path.startswith(_BELOW):
                os.write(descriptor, f"{path}\n".encode())

    sys.addaudithook(seen)


if _OUT and _BELOW:
    _watch(_OUT)
