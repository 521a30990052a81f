"""Standard streams that are always there.

A program started without a console may have no stdin, stdout or stderr: the first print crashes it (pyinstaller
7688), and the next file it opens gets descriptor 0, 1 or 2, where a stray message then lands in the middle of it.
"""

from __future__ import annotations

import os
import sys


def ensure_streams() -> list[int]:
    """Open the null device for each standard descriptor that is closed, and return which ones were.

    Call it before anything else opens a file.
    """
    opened = []
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is taken, and those below are open by now.
            found = os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
            os.set_inheritable(found, True)
            opened.append(found)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It lives as long as the process, like the stream it stands for.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    return opened
