"""What is recorded, and where: one rotating file per process role, fit for a bug report.

Each line carries UTC time with offset, level, pid, process, job id and kind. The same message is written five times a
minute at most and then counted; all logs together stay under a size limit. Content of the memory never reaches a log:
that is the callers' rule, and ``last_error`` goes through redaction before it is stored or logged.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from agent.paths import Paths

FILE_BYTES = 1_000_000
FILES_KEPT = 3
TOTAL_BYTES = 20_000_000
SAME_PER_MINUTE = 5
FOREIGN_CHARS = 300
_MAX_CAUSES = 8
_MAX_FRAMES = 20

_job: ContextVar[tuple[int, str] | None] = ContextVar("job", default=None)


@contextlib.contextmanager
def job_scope(job_id: int, kind: str) -> Iterator[None]:
    """Mark every line logged inside with this job."""
    token = _job.set((job_id, str(kind)))
    try:
        yield
    finally:
        _job.reset(token)


class LineFormatter(logging.Formatter):
    """One line per record; the places that an error went through are indented below it, without its words."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        job = _job.get()
        about = f"job={job[0]} kind={job[1]} " if job else ""
        line = (
            f"{moment} {record.levelname} pid={record.process} {self._process} {about}"
            f"{record.name}: {_one_line(record.getMessage())}"
        )
        if record.exc_info and record.exc_info[1] is not None:
            line = "\n    ".join([line, *trace_of(record.exc_info[1])])
        return line


def trace_of(error: BaseException) -> list[str]:
    """Return the lines of an error and its causes: names and places only, the innermost first.

    What a foreign exception says may quote what the owner wrote.
    """
    lines: list[str] = []
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if seen is None:
            break
        lines.append(f"{'caused by ' if lines else ''}{type(seen).__name__}")
        for frame in reversed(traceback.extract_tb(seen.__traceback__)[-_MAX_FRAMES:]):
            lines.append(f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return lines


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


class Collapse(logging.Filter):
    """Lets the same message through five times a minute, then counts; the next minute's first one says how many."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, per_minute: int = SAME_PER_MINUTE) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._per_minute = per_minute
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._monotonic()
        # The template, not the filled-in text: "job 17 failed" and "job 18 failed" are the same message.
        key = (record.name, record.levelno, str(getattr(record, "template", record.msg)))
        began, count = self._seen.get(key, (now, 0))
        if now - began >= 60:
            hidden = count - self._per_minute
            began, count = now, 0
            if hidden > 0:
                record.msg = f"{record.msg} [{hidden} like this were not written in the minute before]"
        if len(self._seen) > 1000:
            self._seen = {k: v for k, v in self._seen.items() if now - v[0] < 60}
        self._seen[key] = (began, count + 1)
        return count < self._per_minute


class QuietRotatingHandler(logging.handlers.RotatingFileHandler):
    """A rotating file that never troubles the program: a full or vanished disk loses lines, nothing else."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        del record


class ForeignHandler(logging.Handler):
    """What libraries log by themselves goes into this process's file too: warnings and above, the first line, masked.

    A library's message is made of whatever it was given: addresses with their queries, the repr of a task with its
    exception's words. So only what stands before the first colon of one from asyncio is taken, and the rest is redacted
    and cut.
    """

    def __init__(self, target: logging.Handler) -> None:
        super().__init__(logging.WARNING)
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        try:
            shown = logging.makeLogRecord(record.__dict__)
            shown.template, shown.msg, shown.args = record.msg, foreign_words(record), ()
            # `handle` asks the target's own filters, so that a library's flood collapses like ours.
            self._target.handle(shown)
        except Exception:
            # A library hands a message over that cannot be made: it loses that message, and nobody's work stops.
            return


def foreign_words(record: logging.LogRecord) -> str:
    """Return what is kept of a library's message."""
    from agent.redact import redact

    first = record.getMessage().partition("\n")[0]
    if record.name == "asyncio":
        # What follows is the repr of a task or a callback, with its exception and its arguments.
        first = first.partition("<")[0].partition("(")[0].partition(":")[0]
    return redact(first[:FOREIGN_CHARS])


def start_logging(paths: Paths, process: str, level: str = "INFO", *, to_stderr: bool = False) -> Path | None:
    """Send this process's log to ``<process>.log`` in the log folder and return its path.

    ``process`` names the role (``supervisor``, ``worker-1``, ``cli``): one file per live process, because two that
    rotate one file lose lines on Windows (basic-memory 653). Returns ``None`` where the folder cannot be written.
    """
    root = logging.getLogger("sapwood")
    stop_logging()
    root.setLevel(level)
    root.propagate = False
    found: Path | None = None
    try:
        paths.log_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        trim_logs(paths.log_dir)
        found = paths.log_dir / f"{process}.log"
        handler: logging.Handler = QuietRotatingHandler(
            found, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True
        )
    except OSError:
        handler, found = logging.NullHandler(), None
    handler.addFilter(Collapse())
    handler.setFormatter(LineFormatter(process))
    root.addHandler(handler)
    logging.getLogger().addHandler(ForeignHandler(handler))
    if to_stderr and sys.stderr is not None:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(LineFormatter(process))
        shown.addFilter(Collapse())
        root.addHandler(shown)
    return found


def stop_logging() -> None:
    """Close this process's log."""
    top = logging.getLogger()
    for foreign in [each for each in top.handlers if isinstance(each, ForeignHandler)]:
        top.removeHandler(foreign)
    root = logging.getLogger("sapwood")
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()


def trim_logs(folder: Path, limit: int = TOTAL_BYTES) -> int:
    """Delete the oldest log files until all together are within the limit; return how many went."""
    files = []
    for path in folder.glob("*.log*"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            if not stat.st_size:
                continue  # takes no room, and may be the crash file of a live process
            files.append((stat.st_mtime_ns, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    removed = 0
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
            total -= size
    return removed
