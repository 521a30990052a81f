"""A supervisor in a process of its own: ``python -m tests.supervisor.runner HOME JSON``. Prints how it ended."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent.logs import start_logging
from agent.paths import paths_under
from agent.supervisor import CompanionSpec, SupervisorArgs, supervise
from agent.system.session_end import FakeSessionEnd
from agent.system.streams import ensure_streams


class SessionThatEnds(FakeSessionEnd):
    """A session of Windows, by its fake, that ends when a file is there; what it answers is left beside it."""

    def __init__(self, sign: Path) -> None:
        super().__init__()
        self._sign = sign

    def start(self, on_end: Callable[[], None]) -> None:
        super().start(on_end)
        threading.Thread(target=self._wait).start()

    def _wait(self) -> None:
        while not self._sign.exists():
            time.sleep(0.01)
        answers = self.end()
        self._sign.with_suffix(".answers").write_text(json.dumps([answers, self.was_put_away]))


def main() -> int:
    ensure_streams()
    paths = paths_under(Path(sys.argv[1])).make()
    options = json.loads(sys.argv[2])
    start_logging(paths, "supervisor")
    sign = options.pop("session_ends_by", None)
    if sign is not None:
        from agent.supervisor import supervisor

        supervisor.session_end = lambda: SessionThatEnds(Path(sign))
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
