"""What ``sapwood self-test`` tries things on: a throw-away home, and our own program started in it."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from agent.actions.demo import QUESTIONS
from agent.errors import SapwoodError
from agent.paths import Paths
from agent.system.keyring import child_argv, child_environment

QUESTION = QUESTIONS[0]
ANSWER = "blue watering can"
"""Stands in two of the samples, and answers the question."""

END_S = 10.0
LONGEST_QUOTE = 300

REINSTALL = "this build lacks something: install Sapwood anew, and report it if that does not help"
REPORT = "please report this, with the words of this check"


def program() -> list[str]:
    """Return the words by which our program is started: the frozen one itself, or this interpreter with it."""
    return child_argv("")[:-1]


def beside() -> Path:
    """Return where our package lies: with -m a folder that the owner happens to be in would come first."""
    return Path(__file__).resolve().parents[2]


@dataclass
class Tried:
    """The throw-away agent: where it lives, how it is started, what was started and is still there."""

    paths: Paths
    samples: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return child_environment() | {
            "SAPWOOD_HOME": str(self.paths.config_dir.parent),
            # It works now, whatever the machine runs on, and speaks to nobody.
            "SAPWOOD_POWER__ENABLED": "false",
            "SAPWOOD_DESKTOP__NOTIFICATIONS": "false",
            "SAPWOOD_POOL__MAX_WORKERS": "2",
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start our own program with these words; what it complains of is kept."""
        with self.complaints.open("wb") as complaints:
            process = subprocess.Popen(
                [*program(), *words],
                cwd=beside(),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
            )
        self.running.append(process)
        return process

    @property
    def complaints(self) -> Path:
        return self.samples.parent / "complaints.txt"

    def last_words(self) -> str:
        """What the program that was started last said of its end, or else the last line of its log."""
        logs = sorted(self.paths.log_dir.glob("supervisor*.log"), key=lambda each: each.stat().st_mtime, reverse=True)
        for path in (self.complaints, *logs[:1]):
            with contextlib.suppress(OSError):
                words = " ".join(path.read_text("utf-8", "replace").split())
                if words:
                    return words[-LONGEST_QUOTE:]
        return "it said nothing"

    def close(self) -> None:
        """End whatever was started."""
        from agent.supervisor.control import call

        if any(process.poll() is None for process in self.running):
            with contextlib.suppress(SapwoodError, OSError):
                call(self.paths, "stop", 5.0)
        for process in self.running:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
