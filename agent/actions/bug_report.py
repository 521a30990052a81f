"""``sapwood bug-report``: what a maintainer needs to know, and nobody's content. Works without a healthy memory.

It is put together first, so that its owner can read every file of it, and saved when they say so. Nothing is sent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.clock import SYSTEM_CLOCK, iso
from agent.errors import AgentFault, ConfigBroken, UsageFault

if TYPE_CHECKING:
    from agent.actions.bug_logs import MaskedFile
    from agent.actions.bug_masking import Known, Masker
    from agent.config import Intent
    from agent.paths import Paths

TEXT_BYTES = 4_800_000
"""All files together, so that the zip stays below 5 MB however badly it packs."""
NAMES_SECONDS = 6.0
MEMORY_SECONDS = 20.0
DOCTOR_SECONDS = 20.0
FIRST = "report.md"
MANIFEST = "manifest.json"
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))

_ABOUT_REPORT = "summary: versions, system, settings without secrets, queue, failures, integrity"
_ABOUT_MANIFEST = "what was masked, by kind, and what each file is"


@dataclass(frozen=True)
class ReportFile:
    """One file of the report: its name in the zip, its whole text, what it is, and how much was masked in it."""

    name: str
    text: str
    about: str
    masked: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How much of which kind: what ``masked`` sums up."""

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

    @property
    def bytes(self) -> int:
        """How long all files are together."""
        return sum(file.bytes for file in self.files)


def collect(paths: Paths) -> Report:
    """Return the report; writes nothing but what any look of the doctor does.

    Blocks for some seconds; where something hangs, a minute at most. Never raises for what it finds.
    """
    from agent.actions.bug_known import known_here
    from agent.actions.bug_masking import Masker

    made_ms = SYSTEM_CLOCK.now_ms()
    intent, config_problem = _intent(paths)
    known = known_here(paths, intent)
    names_problem = _learn_names(paths, known)
    masker = Masker(known)
    made: list[ReportFile] = []

    def keep(name: str, about: str, text: str) -> None:
        shown = masker.looked_through(text)
        kinds = masker.taken()
        made.append(ReportFile(name, shown, about, sum(kinds.values()), kinds))

    logs: list[MaskedFile] = []
    for file in _dumps(paths, masker):
        keep(file.name, "crash dump, its beginning" if file.cut else "crash dump", file.text)
    for file in _logs(paths, masker):
        keep(file.name, "log, its end" if file.cut else "log", file.text)
        logs.append(file)
    text = "\n".join(_report(paths, masker, intent, (config_problem, names_problem), logs, made_ms)) + "\n"
    keep(FIRST, _ABOUT_REPORT, text)
    files = _within_bounds(made)
    total = sum((Counter(file.kinds) for file in files), Counter[str]())
    counts = {kind: total[kind] for kind in sorted(total)}
    manifest = ReportFile(MANIFEST, _manifest(files, counts, made_ms), _ABOUT_MANIFEST)
    return Report((*files, manifest), counts, made_ms)


def _within_bounds(files: list[ReportFile]) -> tuple[ReportFile, ...]:
    """Return the report, the dumps and the logs in this order, without what would make it too long."""
    rank = {FIRST: 0, "crashes": 1, "logs": 2}
    ordered = sorted(files, key=lambda file: (rank[file.name.partition("/")[0]], file.name))
    kept, total = [], 0
    for file in ordered:
        if total + file.bytes <= TEXT_BYTES:
            kept.append(file)
            total += file.bytes
    return tuple(kept)


def _intent(paths: Paths) -> tuple[Intent | None, str]:
    from agent.config import load_intent

    try:
        loaded = load_intent(paths)
    except ConfigBroken as error:
        return None, f"{error.title}: {error.detail}"
    except OSError as error:
        return None, f"{type(error).__name__}: {error.strerror}"
    return loaded.intent, loaded.problem or ""


def _learn_names(paths: Paths, known: Known) -> str:
    """Add what the memory knows of names; return why it could not be asked, where it could not."""
    from agent.actions.bug_facts import within
    from agent.actions.bug_memory import names_in, open_as_it_is

    def learn() -> bool:
        connection = open_as_it_is(paths.database)
        try:
            names_in(connection, known)
        finally:
            connection.close()
        return True

    return within(NAMES_SECONDS, learn)[1]


def _dumps(paths: Paths, masker: Masker) -> Iterator[MaskedFile]:
    from agent.actions.bug_logs import masked_dumps

    return masked_dumps(paths, masker)


def _logs(paths: Paths, masker: Masker) -> Iterator[MaskedFile]:
    from agent.actions.bug_logs import masked_logs

    return masked_logs(paths, masker)


def _report(
    paths: Paths,
    masker: Masker,
    intent: Intent | None,
    problems: tuple[str, str],
    logs: list[MaskedFile],
    made_ms: int,
) -> Iterator[str]:
    from agent.actions import bug_facts
    from agent.actions.bug_logs import last_errors
    from agent.actions.bug_memory import file_lines

    config_problem, memory_problem = problems
    yield "# Sapwood: report of a fault"
    yield ""
    yield f"Made on {iso(made_ms)}. Names, addresses, paths, keys and content are taken out; manifest.json counts them."
    yield "`[…]` stands for words that are not the program's own. Sources and model profiles are called by number."
    yield ""
    yield "What happened, and what did you expect instead? (Write it here, or beside this file.)"
    yield ""
    parts: tuple[tuple[str, Callable[[], Iterable[str]]], ...] = (
        ("The agent", lambda: bug_facts.agent_lines(paths, masker)),
        ("Doctor", lambda: bug_facts.doctor_lines(paths, masker, DOCTOR_SECONDS)),
        ("Last warnings and errors", lambda: [f"    {line}" for line in last_errors(logs)]),
        ("Crash dumps", lambda: _dump_lines(paths, masker)),
        ("Worker exits", lambda: _exit_lines(logs)),
        ("This build", lambda: bug_facts.build_lines(masker)),
        ("This machine", lambda: bug_facts.machine_lines(paths, masker)),
        ("Settings", lambda: _settings(intent, config_problem, masker)),
        ("Files", lambda: [*bug_facts.folder_lines(paths), *file_lines(paths), _logs_line(paths, logs)]),
        ("The memory", lambda: _memory(paths, masker, memory_problem)),
    )
    for title, lines in parts:
        yield f"## {title}"
        yield ""
        yield from _lines(lines, masker) or ["- none"]
        yield ""


def _lines(lines: Callable[[], Iterable[str]], masker: Masker) -> list[str]:
    """Return the lines of a part; what hinders it is told in its place and hinders no other part."""
    found: list[str] = []
    try:
        for line in lines():
            found.append(line)
    except Exception as error:
        found.append(f"- not to be had: {masker.text(f'{type(error).__name__}: {error}')}")
    return found


def _logs_line(paths: Paths, logs: list[MaskedFile]) -> str:
    from agent.actions.bug_logs import logs_there

    left_out = len(logs_there(paths)) - len(logs)
    return f"- logs: {len(logs)} here" + (f", {left_out} older ones left out for their size" if left_out > 0 else "")


def _settings(intent: Intent | None, problem: str, masker: Masker) -> Iterator[str]:
    from agent.actions.bug_facts import settings_lines

    if problem:
        yield f"- config.toml cannot be read: {masker.text(problem)}"
        yield f"- {'nothing of it is known' if intent is None else 'the last good copy is in use'}"
    overridden = sorted(name for name in os.environ if name.startswith("SAPWOOD_") and "__" in name)
    if overridden:
        yield f"- by the environment: {', '.join(masker.text(name) for name in overridden)}"
    if intent is not None:
        yield from settings_lines(intent, masker)


def _dump_lines(paths: Paths, masker: Masker) -> Iterator[str]:
    from agent.crash import dumps

    for dump in dumps(paths.log_dir):
        yield f"- {iso(dump.at_ms)} {masker.text(dump.process)}, {dump.size} bytes"


def _exit_lines(logs: list[MaskedFile]) -> Iterator[str]:
    """Yield how often the supervisor started, ended and gave up processes, by what its log says of them."""
    from agent.actions.log_reading import parsed

    counts: dict[str, int] = {}
    for file in logs:
        if not file.name.startswith("logs/supervisor"):
            continue
        for raw in file.text.split("\n"):
            line = parsed(file.name, raw)
            if line.time is None or not any(word in line.text for word in _OF_PROCESSES):
                continue
            # Which worker, and which process, differs from line to line; what they ended by is what counts.
            told = re.sub(r"(worker |process )[\d.]+", r"\1#", line.text)
            counts[told] = counts.get(told, 0) + 1
    for told, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:40]:
        yield f"- {count} × {told}"


_OF_PROCESSES = (" is process ", " ended", " ends ", " is ended", "could not be started", "again and again")


def _memory(paths: Paths, masker: Masker, problem: str) -> Iterator[str]:
    from agent.actions.bug_facts import within
    from agent.actions.bug_memory import memory_lines, open_as_it_is

    if problem:
        yield f"- its names could not be asked for: {masker.text(problem)}"
    found: list[str] = []

    def look() -> bool:
        connection = open_as_it_is(paths.database)
        try:
            for line in memory_lines(connection, masker):
                found.append(line)
        finally:
            connection.close()
        return True

    _, hindered = within(MEMORY_SECONDS, look)
    yield from list(found)
    if hindered:
        yield f"- not to be had: {masker.text(hindered)}"


def _manifest(files: Iterable[ReportFile], counts: dict[str, int], made_ms: int) -> str:
    from agent import __version__

    held = {
        "sapwood": __version__,
        "made": iso(made_ms),
        "masked": counts,
        "files": [{**file.as_json(), "masked": dict(file.kinds)} for file in files],
    }
    return json.dumps(held, indent=2) + "\n"


# -- saving -----------------------------------------------------------------------------------------------------------


def save(report: Report, target: Path | None = None) -> Path:
    """Write the report as one zip and return where: by default into the owner's downloads or home folder.

    A folder is given the default name. An earlier report is replaced, any other file is not. Raises ``AgentFault``
    where it cannot be written, ``UsageFault`` where another file stands there.
    """
    path = _target(report, target)
    try:
        if path.exists() and not _is_report(path):
            raise UsageFault("there is a file of this name already", str(path), "name another one with -o FILE")
        _write(report, path)
    except OSError as error:
        if error.errno in _FULL:
            raise AgentFault(
                "the report could not be saved: the disk is full",
                str(path),
                "make room on that disk, or name a file on another one with -o FILE",
            ) from error
        raise AgentFault(
            "the report could not be saved",
            f"{path}: {error.strerror or error}",
            "name a file in a folder that is there and yours with -o FILE",
        ) from error
    return path


def _target(report: Report, target: Path | None) -> Path:
    moment = datetime.fromtimestamp(report.made_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"sapwood-bug-report-{moment}.zip"
    if target is None:
        return _usual_folder() / name
    # Where nobody's home can be told, the name is taken as it is.
    with contextlib.suppress(RuntimeError):
        target = target.expanduser()
    return target / name if target.is_dir() else target.absolute()


def _usual_folder() -> Path:
    import platformdirs

    for place in (platformdirs.user_downloads_path, Path.home, Path.cwd):
        with contextlib.suppress(OSError, RuntimeError):
            folder = place()
            if folder.is_dir() and os.access(folder, os.W_OK):
                return folder
    return Path(tempfile.gettempdir())


def _is_report(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as held:
            names = held.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    return names[:1] == [FIRST] and names[-1:] == [MANIFEST]


def _write(report: Report, path: Path) -> None:
    moment = datetime.fromtimestamp(report.made_ms / 1000, UTC)
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as held:
                for file in report.files:
                    info = zipfile.ZipInfo(file.name, moment.timetuple()[:6])
                    info.compress_type = zipfile.ZIP_DEFLATED
                    info.external_attr = 0o600 << 16
                    held.writestr(info, file.text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
