"""All printing: tables for people, one JSON document for programs, errors in three parts.

People get at most the terminal's width, 80 columns in a pipe, colour only on a terminal. What the memory holds came
from mails and chats of others, so nothing of it reaches a terminal as a control sequence.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

from agent.clock import iso

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 80
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
# Up to this length (a time with its offset) a cell of a table is never folded.
SHORT_CELL = 25

# Control characters but newline and tab, and the marks that turn the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return a text without control characters; tabs become spaces."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\t", "    "))


def one_line(text: str, limit: int = 0) -> str:
    """Return a text on one line, cut at ``limit`` characters where that is above 0."""
    line = " ".join(clean(text).split())
    if limit and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line


def fitted(text: str, columns: int) -> str:
    """Return a text on one line, cut to so many columns of a terminal (CJK letters take two)."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(clean(text).split())
    if cell_len(line) <= columns:
        return line
    return set_cell_size(line, max(0, columns - 1)).rstrip() + "…"


def plain(value: Any) -> Any:
    """Return a result as JSON's types, by its own ``as_json`` where it has one.

    Times in ``*_ms`` fields become ISO 8601 under the name without it.
    """
    if hasattr(value, "as_json"):
        return plain(value.as_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.name.endswith("_ms") and (item is None or isinstance(item, int)):
                found[field.name.removesuffix("_ms")] = iso(item)
            else:
                found[field.name] = plain(item)
        return found
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    return value


class Output:
    """Where one run of the command prints."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        debug: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.as_json = as_json
        self.debug = debug
        self._stdout = stdout if stdout is not None else sys.stdout
        self._stderr = stderr if stderr is not None else sys.stderr
        for stream in (self._stdout, self._stderr):
            # A name that the terminal's encoding cannot show must not end the command.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @cached_property
    def console(self) -> Console:
        """Stdout."""
        return _console(self._stdout)

    @cached_property
    def errors(self) -> Console:
        """Stderr: errors, notes and progress."""
        return _console(self._stderr)

    @property
    def width(self) -> int:
        """The columns there are."""
        return self.console.width

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        utf8 = (getattr(self._stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
        self._stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=not utf8) + "\n")

    def line(self, text: str = "", style: str = "", *, indent: int = 0, bold: Iterable[tuple[int, int]] = ()) -> None:
        """Print a paragraph on stdout, wrapped at words; ``indent`` moves all of its lines to the right.

        ``bold`` holds the (start, end) of what stands out in a text of one line.
        """
        self._wrapped(self.console, text, style, indent, bold)

    def verbatim(self, text: str, style: str = "") -> None:
        """Print one line as it is, cut at the width (double-wide letters counted twice)."""
        from rich.text import Text

        line = Text(clean(text), style)
        line.truncate(self.width, overflow="ellipsis")
        line.rstrip()
        self.console.print(line, soft_wrap=True)

    def verbatim_whole(self, text: str, style: str = "") -> None:
        """Print one line whole, however long: for what others go on working with (a path, a line of a log)."""
        from rich.text import Text

        self.console.print(Text(clean(text), style), soft_wrap=True)

    def flush(self) -> None:
        """Let whoever reads a pipe see what was printed so far."""
        self._stdout.flush()

    def note(self, text: str, style: str = "dim") -> None:
        """Print a paragraph on stderr."""
        self._wrapped(self.errors, text, style, 0)

    def _wrapped(
        self, console: Console, text: str, style: str, indent: int, bold: Iterable[tuple[int, int]] = ()
    ) -> None:
        from rich.text import Text

        for line in clean(text).split("\n"):
            styled = Text(line, style)
            for start, end in bold:
                styled.stylize("bold", start, end)
            for wrapped in styled.wrap(console, max(20, console.width - indent)):
                wrapped.rstrip()
                console.print(Text(" " * indent) + wrapped if indent else wrapped, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print a line that begins a part."""
        self.line(text, "bold")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[str] = ()) -> None:
        """Print a table that fits the width: columns named in ``numbers`` stand right, long cells are folded."""
        from rich.table import Table
        from rich.text import Text

        right = set(numbers)
        cells = [[clean("" if cell is None else str(cell)) for cell in row] for row in rows]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for at, name in enumerate(columns):
            longest = max([len(name), *(len(row[at]) for row in cells)])
            table.add_column(
                name,
                justify="right" if name in right else "left",
                no_wrap=name in right or longest <= SHORT_CELL,
                overflow="fold",
            )
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        self.render(table)

    def facts(self, rows: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one pair a line."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(name), Text(clean("" if value is None else str(value))))
        self.render(table)

    def render(self, renderable: Any) -> None:
        """Print something of rich without the blanks that it pads lines with."""
        with self.console.capture() as capture:
            self.console.print(renderable)
        text = capture.get()
        if not self.console.is_terminal:
            text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        self._stdout.write(text)

    def error(self, error: Exception) -> int:
        """Print what went wrong (title, detail, hint) and return the exit code. The trace only with ``--debug``."""
        import click

        from agent.errors import AgentFault, SapwoodError

        if isinstance(error, click.UsageError):
            where = error.ctx.command_path if error.ctx is not None else "sapwood"
            parts = (error.format_message(), "", f"see `{where} --help`")
            code = 2
        elif isinstance(error, click.ClickException):
            parts, code = (error.format_message(), "", ""), error.exit_code
        elif isinstance(error, SapwoodError):
            parts = (error.title, error.detail, error.hint)
            code = error.exit_code if isinstance(error, AgentFault) else 1
        else:
            parts = foreign(error)
            code = 1
        title, detail, hint = parts
        if self.as_json:
            self.document({"error": {"title": title, "detail": detail, "hint": hint}})
            self._stdout.flush()
        self.note(f"error: {title}", "bold red")
        for text in (detail, hint):
            if text:
                self._wrapped(self.errors, text, "", 2)
        if self.debug:
            self._stderr.write("".join(traceback.format_exception(error)))
        return code


def foreign(error: Exception) -> tuple[str, str, str]:
    """Return title, detail and hint of an error that no room has turned into words."""
    from agent.db import faults

    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        if error.errno in FULL:
            return ("the disk is full", f"{where}{error.strerror}", "make room on that disk, then try again")
        return ("the system refused", f"{where}{error.strerror or error}", "check the path and its permissions")
    kind = faults.classify(error)
    if kind is faults.FaultClass.BUSY:
        return ("the memory is busy", str(error), "another program holds it; try again in a moment")
    if kind is faults.FaultClass.DISK_FULL:
        return ("the disk of the memory is full", str(error), "make room on that disk, then try again")
    if kind is not faults.FaultClass.OTHER:
        return ("the memory cannot be read or written", str(error), "run `sapwood doctor`")
    return (
        "something unexpected happened",
        f"{type(error).__name__}: {error}",
        "the same command with --debug shows where; please report it",
    )


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with 1; who stopped reading has seen enough, and the program decides what that means.
            raise BrokenPipeError(errno.EPIPE, "the reader has gone")

    terminal = stream.isatty()
    # Rich takes a pipe for 80 columns wide too, but only where no terminal is left on any of the three streams.
    columns = os.environ.get("COLUMNS", "")
    width = None if terminal else int(columns) if columns.isdecimal() and int(columns) > 0 else PIPE_WIDTH
    return PlainConsole(
        file=stream, width=width, highlight=False, markup=False, emoji=False, force_terminal=terminal, soft_wrap=False
    )
