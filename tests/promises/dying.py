"""A worker that dies once at each step of each kind of job, as by ``kill -9``; the next one goes on from there."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent.queue.types import Job
from agent.queue.worker_args import WorkerArgs
from agent.worker import loop as looping
from agent.worker.process import worker_main

STEPS = ("claimed", "handled", "written", "settled", "committed")
"""After the claim, after the handler, after its writes, after the row's new status, after the commit."""


def marks(data_dir: Path) -> Path:
    """Return the folder with a file for each death, named kind and step."""
    return data_dir / "deaths"


def mortal_worker(args: WorkerArgs, life_line: Any) -> int:
    """Work, and die at each step of each kind the first time that it is reached."""
    folder = marks(args.paths.data_dir)
    folder.mkdir(exist_ok=True)

    def die(kind: str, step: str) -> None:
        try:
            os.close(os.open(folder / f"{kind}.{step}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    _patch(die)
    return worker_main(args, life_line)


def _patch(die: Callable[[str, str], None]) -> None:
    settling = importlib.import_module("agent.queue.settle")  # the package has a function of that name
    claim, settle_and_claim, apply = looping.claim_jobs, looping.settle_and_claim, settling._apply_tx

    def claimed(*args: Any, **kwargs: Any) -> list[Job]:
        jobs = claim(*args, **kwargs)
        if jobs:
            die(str(jobs[0].kind), "claimed")
        return jobs

    def settled(connection: Any, results: Sequence[tuple[Job, Any]], *rest: Any) -> Any:
        kind = str(results[0][0].kind)
        die(kind, "handled")
        found = settle_and_claim(connection, results, *rest)
        die(kind, "committed")
        return found

    def applied(connection: Any, job: Job, *rest: Any) -> Any:
        die(str(job.kind), "written")
        found = apply(connection, job, *rest)
        die(str(job.kind), "settled")
        return found

    looping.claim_jobs = claimed
    looping.settle_and_claim = settled
    settling._apply_tx = applied
