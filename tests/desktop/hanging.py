"""A tray whose loop hangs: only its life line is read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.desktop.tray.process import Mailbox
from agent.system.companion import CompanionArgs, CompanionLine, Say

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def hanging_main(args: CompanionArgs, connection: Connection) -> int:
    line = CompanionLine(connection)
    Mailbox(line)
    line.send(Say.UP)
    time.sleep(60)
    return 1
