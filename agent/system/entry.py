"""The first code of our own in a child process, and the only one that knows how a child is tied to its parent.

It imports nothing heavy and nothing of the rooms above: what the child is to do comes as a dotted name.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent import crash
from agent.system.companion import EXIT_IMPOSSIBLE, CompanionArgs, CompanionLine, Say
from agent.system.parent import die_with_parent
from agent.system.streams import ensure_streams

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# Ctrl-C and a closing terminal reach the whole group of processes; only the supervisor decides what they mean.
_SIGNALS_FOR_THE_SUPERVISOR = ("SIGINT", "SIGHUP", "SIGBREAK")

EXIT_UNCAUGHT = 70


def find(dotted: str) -> Callable[..., Any]:
    """Return what ``package.module:attribute`` names. Raises ``ImportError`` or ``AttributeError``."""
    module, _, attribute = dotted.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def enter(target: str, parent_pid: int, args: object, life_line: Connection) -> None:
    """Run ``target(args, life_line)`` as the whole of this process; its result is the exit code (``None``: 0)."""
    ensure_streams()
    for name in _SIGNALS_FOR_THE_SUPERVISOR:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    die_with_parent(parent_pid)
    if isinstance(args, CompanionArgs):
        crash.arm(args.paths, args.role)
    try:
        code = _run(target, args, life_line)
    except Exception as error:
        # Into the log of this process; a traceback on the owner's terminal helps nobody.
        crash.write_down(error, "this process ends by an error nobody caught")
        code = EXIT_UNCAUGHT
    crash.disarm()
    sys.stdout.flush()
    sys.stderr.flush()
    # No interpreter shutdown: it would join threads that a library left behind, and a stop has four seconds in all.
    os._exit(code if isinstance(code, int) else 0)


def _run(target: str, args: object, life_line: Connection) -> object:
    try:
        return find(target)(args, life_line)
    except ImportError as error:
        if not isinstance(args, CompanionArgs):
            raise
        logging.getLogger("sapwood.process").exception("this process lacks a part that it needs")
        # What is missing comes with another installation, not by being started again and again.
        name = error.name or target.partition(":")[0]
        CompanionLine(life_line).send(Say.IMPOSSIBLE, reason=f"this installation lacks a part that it needs ({name})")
        return EXIT_IMPOSSIBLE
