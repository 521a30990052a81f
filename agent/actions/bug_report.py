"""``sapwood bug-report``: what a maintainer needs to know and nobody's content. Works without a healthy memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.paths import Paths


@dataclass(frozen=True)
class ReportFile:
    """One file of the report: its name in the zip, its whole text, what it is, and how much was masked in it."""

    name: str
    text: str
    about: str
    masked: int = 0

    @property
    def bytes(self) -> int:
        """How long it is, in UTF-8."""
        return len(self.text.encode())

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "about": self.about, "masked": self.masked}


@dataclass(frozen=True)
class Report:
    """What would be saved. ``masked`` counts what was taken out, by kind; ``made_ms`` is when it was put together."""

    files: tuple[ReportFile, ...]
    masked: dict[str, int]
    made_ms: int


def collect(paths: Paths) -> Report:
    """Return the report; writes nothing. Blocks for some seconds, half a minute at most where something hangs."""
    raise NotImplementedError


def save(report: Report, target: Path | None = None) -> Path:
    """Write the report as one zip and return where: by default into the owner's downloads or home folder.

    A folder is given the default name. Raises ``AgentFault`` where it cannot be written, ``UsageFault`` where another
    file stands there.
    """
    raise NotImplementedError
