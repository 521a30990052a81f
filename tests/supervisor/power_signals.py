"""Samples for supervisors in processes of their own: what a test writes into a file, or a machine of a few processes.

Both are reached by dotted names; the file's place comes in the environment.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]

from agent.system.power import CpuReading, Signals, SystemPower

PLACE = "TEST_POWER_FILE"
FROM_FILE = f"{__name__}:FromFile"
FEW_PROCESSES = f"{__name__}:FewProcesses"


def say(file: Path, **signals: object) -> None:
    """Write what the next sample is, in one step."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(signals), "utf-8")
    new.replace(file)


class FromFile:
    """The sample that stands in the file."""

    def sample(self) -> Signals:
        return Signals(**json.loads(Path(os.environ[PLACE]).read_text("utf-8")))


class FewProcesses(SystemPower):
    """A machine on which nothing runs but this process, what is below it, and those whose pids stand in the file.

    What they use is read apart from the code under test, and whatever else runs on the real machine counts for nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()
        self._used: dict[int, float] = {}

    def read_cpu(self) -> CpuReading:
        own_s = super().read_cpu().own_s
        pids = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True)), *self._strangers()]
        for pid in pids:
            with suppress(psutil.Error):
                self._used[pid] = sum(psutil.Process(pid).cpu_times()[:2])
        busy_s = sum(self._used.values())
        # A tenth of the time passes idle, however slow the machine is: busy is what was used, and nothing else.
        return CpuReading(busy_s, busy_s + (time.monotonic() - self._began) / 10, own_s)

    def _strangers(self) -> list[int]:
        with suppress(OSError, ValueError):
            return list(json.loads(Path(os.environ[PLACE]).read_text("utf-8")))
        return []
