"""What the agent costs while it has nothing to do: after growing 20,000 chunks, every process of it.

Multiprocessing's own process counts too. Figures of the targets' table: ``cpu_pct`` (of one processor),
``wakeups_per_s`` (voluntary context switches of all threads), ``pss_mb`` (each page shared fairly), ``bytes_written``
(what reached the block layer, from ``/proc/PID/io``). Linux only.

They are measured without a tray, then the agent is started once more with one, on a session bus of its own with a
panel that takes its icon: ``tray_cpu_pct``, ``tray_wakeups_per_s`` and ``tray_bytes_written`` are those of the tray's
process, ``tray_pss_mb`` is what all processes have less when the tray is switched off.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psutil

from agent.db import Database
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.supervisor.control import call
from tests.bench.harness import Result, Setting

CHUNKS = 20_000
FILES = 1_000
SECTIONS = 21
WORDS = 300
GROW_PATIENCE_S = 1_800.0
REST_S = 75.0
"""Longer than a worker idles before it is replaced by a fresh one, and than two ticks are apart."""
MEASURE_S, MEASURE_QUICK_S = 90.0, 30.0

_SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu", "sha", "tre"]


@dataclass(frozen=True)
class Cost:
    """What all processes together used up to a moment."""

    cpu_ns: int = 0
    wakeups: int = 0
    bytes_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(Cost)))


def run(setting: Setting) -> Result:
    """Grow, let it come to rest, measure. Raises ``RuntimeError`` where it never rests or its processes change."""
    result = Result()
    seconds = MEASURE_QUICK_S if setting.quick else MEASURE_S
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder) / "home").make()
        _write_notes(Path(folder) / "notes")
        environ = _environ(paths)
        _sapwood(environ, "add", str(Path(folder) / "notes"))
        with _agent(environ, paths, "--headless") as agent:
            began = time.monotonic()
            chunks = _grow(paths)
            grown = time.monotonic() - began
            _rest(paths, agent)
            before, cost_before = _family(agent), _cost(_family(agent))
            time.sleep(seconds)
            after, cost = _family(agent), _cost(_family(agent))
            if before != after:
                raise RuntimeError(f"processes came or went while it was idle: {before} became {after}")
            pss = sum(_pss_kib(pid) for pid in after)
        tray = _measure_tray(environ, paths, seconds, result.notes)
    result.figures = {
        "cpu_pct": round((cost.cpu_ns - cost_before.cpu_ns) / 1e9 / seconds * 100, 4),
        "wakeups_per_s": round((cost.wakeups - cost_before.wakeups) / seconds, 3),
        "pss_mb": round(pss * 1024 / 1e6, 1),
        "bytes_written": cost.bytes_written - cost_before.bytes_written,
        "processes": len(after),
        "chunks": chunks,
        "grown_in_s": round(grown, 1),
        "seconds": seconds,
        **tray,
    }
    result.hold("cpu_pct", "<=", 0.2)
    result.hold("wakeups_per_s", "<=", 4)
    result.hold("pss_mb", "<=", 110)
    result.hold("bytes_written", "==", 0)
    result.hold("tray_pss_mb", "<=", 35)
    return result


def _measure_tray(environ: dict[str, str], paths: Paths, seconds: float, notes: list[str]) -> dict[str, Any]:
    """Return the figures of a tray, none of them where this machine has nothing to show one on (``notes`` says so)."""
    try:
        from tests.desktop.panel import Panel, private_bus
    except ImportError as error:
        notes.append(f"without the figures of a tray: {error.name} is not installed")
        return {}
    if shutil.which("dbus-daemon") is None:
        notes.append("without the figures of a tray: apt-get install dbus")
        return {}
    with tempfile.TemporaryDirectory(prefix="sapwood-bus-") as folder, private_bus(Path(folder)) as bus:
        panel = Panel(bus.address).start()
        try:
            desktop = {name: value for name, value in environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
            desktop["DBUS_SESSION_BUS_ADDRESS"] = bus.address
            with _agent(desktop, paths) as agent:
                _poll(lambda: _tray(paths).get("state") == "up", 60.0, "the tray's start")
                _rest(paths, agent)
                pid = int(_tray(paths)["pid"])
                before = _cost([pid])
                time.sleep(seconds)
                after = _cost([pid])
                if _tray(paths).get("pid") != pid:
                    raise RuntimeError("the tray was started again while it was idle")
                family = _family(agent)
                with_it = sum(_pss_kib(each) for each in family)
                _sapwood(desktop, "config", "set", "desktop.tray", "false")
                _poll(lambda: not psutil.pid_exists(pid), 10.0, "the tray's end")
                without = sum(_pss_kib(each) for each in family if each != pid)
        finally:
            panel.stop()
    return {
        "tray_pss_mb": round((with_it - without) * 1024 / 1e6, 1),
        "tray_cpu_pct": round((after.cpu_ns - before.cpu_ns) / 1e9 / seconds * 100, 4),
        "tray_wakeups_per_s": round((after.wakeups - before.wakeups) / seconds, 3),
        "tray_bytes_written": after.bytes_written - before.bytes_written,
    }


def _tray(paths: Paths) -> dict[str, Any]:
    with suppress(SapwoodError):
        found: dict[str, Any] = call(paths, "status")["tray"]
        return found
    return {}


def _write_notes(folder: Path) -> None:
    """Write Markdown notes of which each section makes one chunk."""
    chance = random.Random(20_000)
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(4_000)]
    for number in range(FILES):
        parts = [f"# Note {number}\n"]
        for section in range(SECTIONS):
            parts.append(f"\n## Part {section} on {chance.choice(words)}\n")
            for _ in range(3):
                sentences = []
                for _ in range(WORDS // 3 // 12):
                    sentences.append(" ".join(chance.choices(words, k=12)).capitalize() + ".")
                parts.append("\n" + " ".join(sentences) + "\n")
        path = folder / f"{number // 50:03}" / f"{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(parts), "utf-8")


def _environ(paths: Paths) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SAPWOOD_")}
    return {**kept, "SAPWOOD_HOME": str(paths.config_dir.parent)}


def _sapwood(environ: dict[str, str], *words: str) -> None:
    argv = [sys.executable, "-m", "agent.cli.main", *words]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"sapwood {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def _agent(environ: dict[str, str], paths: Paths, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "agent.cli.main", "run", *options]
    process = subprocess.Popen(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with suppress(SapwoodError):
            call(paths, "stop")
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _grow(paths: Paths) -> int:
    """Wait until everything is grown and return the number of chunks."""
    _poll(
        lambda: _state(paths) == "idle" and _count(paths)[1] == 0 and _count(paths)[0] > 0, GROW_PATIENCE_S, "growing"
    )
    chunks = _count(paths)[0]
    if chunks < CHUNKS:
        raise RuntimeError(f"only {chunks} chunks were grown, {CHUNKS} are to be")
    return chunks


def _count(paths: Paths) -> tuple[int, int]:
    database = Database(paths.database)
    try:
        return (
            database.connection.value("SELECT count(*) FROM mem_tree_chunks"),
            database.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')"),
        )
    finally:
        database.close()


def _state(paths: Paths) -> Any:
    with suppress(SapwoodError):
        return call(paths, "status")["state"]
    return None


def _rest(paths: Paths, agent: subprocess.Popen[bytes]) -> None:
    """Wait until the same processes have been there, and written nothing, for a while."""
    seen: tuple[list[int], int] = ([], -1)
    since = time.monotonic()

    def is_at_rest() -> bool:
        nonlocal seen, since
        family = _family(agent)
        found = (family, _cost(family).bytes_written)
        if found != seen:
            seen, since = found, time.monotonic()
        return time.monotonic() - since >= REST_S

    _poll(is_at_rest, 10 * REST_S, "rest", every_s=2.0)
    if _state(paths) != "idle":
        raise RuntimeError("the agent is not idle")


def _family(agent: subprocess.Popen[bytes]) -> list[int]:
    process = psutil.Process(agent.pid)
    return sorted([agent.pid, *(child.pid for child in process.children(recursive=True))])


def _cost(pids: list[int]) -> Cost:
    total = Cost()
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            ran_ns = int((thread / "schedstat").read_text().split()[0])
            total += Cost(cpu_ns=ran_ns, wakeups=_number(thread / "status", "voluntary_ctxt_switches:"))
        total += Cost(bytes_written=_number(Path(f"/proc/{pid}/io"), "write_bytes:"))
    return total


def _pss_kib(pid: int) -> int:
    return _number(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def _number(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise RuntimeError(f"{file} does not tell {name}")


def _poll(condition: Callable[[], bool], patience_s: float, what: str, every_s: float = 0.5) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not end in {patience_s:.0f} s")
        time.sleep(every_s)
