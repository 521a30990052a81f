"""A supervisor in a process of its own: ``python -m tests.supervisor.runner HOME JSON``. Prints how it ended."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from agent.logs import start_logging
from agent.paths import paths_under
from agent.supervisor import CompanionSpec, SupervisorArgs, supervise
from agent.system.streams import ensure_streams


def main() -> int:
    ensure_streams()
    paths = paths_under(Path(sys.argv[1])).make()
    options = json.loads(sys.argv[2])
    start_logging(paths, "supervisor")
    result = supervise(
        SupervisorArgs(
            paths=paths,
            worker=options.pop("worker", "agent.worker.process:worker_main"),
            kind_names=tuple(options.pop("kind_names")),
            companions=tuple(CompanionSpec(**each) for each in options.pop("companions", ())),
            **options,
        )
    )
    said = {"ended": result.ended, "reason": result.reason, "failed": result.failed_jobs, "signal": result.signal}
    said["notice"] = result.notice
    os.write(1, json.dumps(said).encode() + b"\n")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
