"""An agent on a disk that gets full: ``python -m tests.promises.small_disk FOLDER data|home``.

Runs in a mount namespace of its own, mounts a small disk there for the data folder or for the whole home, grows a vault
until the disk refuses, leaves it so for a while, makes it larger and waits for the end. Prints what it saw as JSON.
Pauses are short here: 300 s otherwise.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.actions import running
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.db import connect, faults
from agent.logs import start_logging
from agent.paths import Paths, paths_under
from agent.queue.worker_args import WorkerArgs
from agent.supervisor import SupervisorArgs, supervise
from agent.supervisor.control import call
from agent.tree.check import problems
from agent.worker.kinds import KIND_NAMES
from agent.worker.process import worker_main
from tests.generated.vault import write_vault

PAUSE_S = 0.2
FULL_FOR_S = 2.0
PATIENCE_S = 60.0
NOTES = 250
SMALL, LARGE = "6m", "512m"


def impatient_worker(args: WorkerArgs, life_line: Any) -> int:
    """A worker that waits shortly for the disk."""
    _be_impatient()
    return worker_main(args, life_line)


def supervisor(paths: Paths) -> None:
    """The supervisor's process: runs until it is told to stop."""
    _be_impatient()
    start_logging(paths, "supervisor")
    supervise(
        SupervisorArgs(
            paths=paths,
            worker="tests.promises.small_disk:impatient_worker",
            kind_names=tuple(KIND_NAMES),
            workers=1,
            idle_hook=running.IDLE_HOOK,
            finished_hook=running.FINISHED_HOOK,
            gate_hook=running.GATE_HOOK,
            permits_hook=running.PERMITS_HOOK,
        )
    )


def _be_impatient() -> None:
    faults.PAUSE_S.update(dict.fromkeys(faults.PAUSE_S, PAUSE_S))  # type: ignore[attr-defined,unused-ignore]


def main(folder: Path, which: str) -> dict[str, Any]:
    """Return what was seen."""
    paths = paths_under(folder / "home").make()
    disk = paths.data_dir if which == "data" else folder / "home"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)], check=True)
    paths.make()
    write_vault(folder / "vault", NOTES)
    with open_home(paths) as home:
        add(home, [str(folder / "vault")], name="vault")
    agent = multiprocessing.get_context("spawn").Process(target=supervisor, args=(paths,))
    agent.start()
    try:
        _wait(lambda: _free(disk) == 0, "the disk did not get full")
        time.sleep(FULL_FOR_S)
        seen: dict[str, Any] = {"free": _free(disk), "alive": agent.is_alive(), "workers": _workers(paths)}
        seen["while_full"] = dict(_told(paths))
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(disk)], check=True)
        _wait(lambda: _is_grown(paths), "it did not go on by itself")
        seen["workers_after"] = _workers(paths)
    finally:
        if agent.is_alive():
            call(paths, "stop")
        agent.join(10)
        if agent.is_alive():
            agent.kill()
    seen["told"] = dict(_told(paths))
    connection = connect(paths.database, paths.write_turn)
    seen["integrity"] = connection.value("PRAGMA integrity_check")
    seen["items"] = connection.value("SELECT count(*) FROM mem_tree_items WHERE state = 'current'")
    seen["jobs"] = dict(connection.all("SELECT status, count(*) FROM mem_tree_jobs GROUP BY status"))
    seen["crashes"] = connection.value("SELECT max(crashes) FROM mem_tree_jobs")
    seen["attempts"] = connection.value("SELECT max(attempts) FROM mem_tree_jobs")
    seen["problems"] = [str(one) for one in problems(connection)]
    connection.close()
    return seen


def _free(disk: Path) -> int:
    """Return how many bytes are free, less than a page of the database counting as none."""
    found = os.statvfs(disk)
    free = found.f_bavail * found.f_frsize
    return free if free > 4096 else 0


def _told(paths: Paths) -> Counter[str]:
    """What the logs of all processes say of the disk."""
    found: Counter[str] = Counter(refuses=0, answers=0, loud=0)
    for log in paths.log_dir.glob("*.log"):
        for line in log.read_text("utf-8", "replace").splitlines():
            found["refuses"] += "the database refuses" in line
            found["answers"] += "the database answers again" in line
            found["loud"] += " ERROR " in line or " WARNING " in line
    return found


def _workers(paths: Paths) -> list[int]:
    return sorted(worker["pid"] for worker in call(paths, "status", 5.0)["workers"] if worker["pid"])


def _is_grown(paths: Paths) -> bool:
    connection = connect(paths.database, paths.write_turn)
    try:
        left = connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')")
        return left == 0 and connection.value("SELECT count(*) FROM mem_tree_items WHERE state = 'current'") == NOTES
    finally:
        connection.close()


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
