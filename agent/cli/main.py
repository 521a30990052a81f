"""The entry of the ``sapwood`` command.

A spawned child imports this module again before it does anything, so it imports nothing that a worker would have to
carry: the program itself is loaded inside the entry.
"""

from __future__ import annotations

import multiprocessing
import sys


def entry() -> None:
    """Run the command line and exit with its code (0 done, 1 failed, 2 usage, 3 agent needed, 130 interrupted)."""
    # First of all: in a frozen build a child process starts here, and without this it would start the program again.
    multiprocessing.freeze_support()
    # Before anything prints or opens a file: what starts us may have closed our streams.
    from agent.system.streams import ensure_streams

    ensure_streams()
    if sys.argv[1:] == ["_key"]:
        # A child of ours that asks the keyring (agent/system/keyring.py); it is waited for, so it loads nothing else.
        from agent.system.keyring_child import serve

        sys.exit(serve())
    if sys.argv[1:] == ["_notify"]:
        # A child of ours that shows a notification (agent/system/notifications.py); nobody waits for it for long.
        from agent.system.notifications_child import serve as show

        sys.exit(show())
    from agent import crash
    from agent.cli.program import main
    from agent.paths import find_paths

    crash.arm(find_paths(), "command")
    try:
        code = main(sys.argv[1:])
    finally:
        crash.disarm()
    sys.exit(code)


if __name__ == "__main__":
    entry()
