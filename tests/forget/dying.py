"""``python -m tests.forget.dying STEP``: forget the planted word, or remove a source, and be killed at a step."""

from __future__ import annotations

import os
import signal
import sys

from agent.actions.forgetting import forget, preview, remove, wanted_of
from agent.actions.home import open_home
from tests.forget.planted import MARKER


def main(deadly: str, source: str | None) -> None:
    """Do it, and die by SIGKILL as soon as the step is reached."""

    def step(name: str) -> None:
        if name == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_home() as home:
        if source is not None:
            remove(home, source, step=step)
            return
        wanted = wanted_of(home, mentions=MARKER)
        _, chosen = preview(home, wanted)
        forget(home, wanted, chosen, step=step)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
