"""Worker processes that behave in one odd way each."""

from __future__ import annotations

from typing import Any

from agent.queue.worker_args import EXIT_CORRUPT, WorkerArgs
from agent.worker.process import worker_main


def alarmed_once(args: WorkerArgs, life_line: Any) -> int:
    """The first one says that the database is damaged; the others work."""
    alarm = args.paths.data_dir / "alarm"
    if not alarm.exists():
        alarm.touch()
        return EXIT_CORRUPT
    return worker_main(args, life_line)


def dies_at_once(args: WorkerArgs, life_line: Any) -> int:
    """Never comes up."""
    return 3
