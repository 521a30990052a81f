"""What all benchmarks share: the result's shape, the machine's description, percentiles."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Setting:
    """How a benchmark is to run: ``quick`` repeats less and is never smaller."""

    quick: bool
    data: Path


@dataclass
class Result:
    """Figures by the names of the targets' table, and the bars they are held to."""

    figures: dict[str, Any] = field(default_factory=dict)
    bars: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def hold(self, name: str, compare: Literal[">=", "<=", "<", "=="], bar: float) -> None:
        """Hold a figure to a bar. A figure that is absent (its peer does not install) has no bar."""
        if name not in self.figures:
            return
        value = self.figures[name]
        checks: dict[str, Callable[[float, float], bool]] = {
            ">=": lambda v, b: v >= b,
            "<=": lambda v, b: v <= b,
            "<": lambda v, b: v < b,
            "==": lambda v, b: v == b,
        }
        self.bars.append({"name": name, "value": value, "bar": f"{compare} {bar:g}", "ok": checks[compare](value, bar)})


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    import apsw

    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "system": f"{platform.system()} {platform.release()}",
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }
