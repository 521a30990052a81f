"""Companion processes that behave in one way each: what they hear and when they start is left in files."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from agent.system.companion import EXIT_IMPOSSIBLE, CompanionArgs, CompanionLine, Say
from tests.supervisor.kinds import leave


def _born(args: CompanionArgs) -> None:
    leave(str(args.paths.data_dir / f"{args.role}.born"), f"{os.getpid()} {time.monotonic_ns()}")


def good(args: CompanionArgs, connection: Any) -> int:
    """Serves until it is told to stop, or the supervisor is gone."""
    _born(args)
    line = CompanionLine(connection)
    line.send(Say.UP, detail="a test")
    while (message := line.receive()) is not None:
        if message["say"] == Say.STOP:
            return 0
        words = f"{message['serial']} {message['state']} {time.monotonic_ns()}"
        leave(str(args.paths.data_dir / f"{args.role}.heard"), words)
    return 1


def leaves(args: CompanionArgs, connection: Any) -> int:
    """Serves for a moment, then says that it ends."""
    _born(args)
    line = CompanionLine(connection)
    line.send(Say.UP)
    line.receive()
    line.send(Say.BYE, reason="nobody looks")
    return 0


def impossible(args: CompanionArgs, connection: Any) -> int:
    """Finds no place on this desktop."""
    _born(args)
    CompanionLine(connection).send(Say.IMPOSSIBLE, reason="no panel here")
    return EXIT_IMPOSSIBLE


def dies(args: CompanionArgs, connection: Any) -> int:
    """Never comes up."""
    _born(args)
    return 3


def stubborn(args: CompanionArgs, connection: Any) -> int:
    """Serves, reads nothing, and ends for nobody who asks."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _born(args)
    CompanionLine(connection).send(Say.UP)
    while True:
        time.sleep(0.05)
