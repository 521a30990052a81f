"""What is printed: safe for a terminal, at home in a pipe, one document for programs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.cli.output import Output, clean, fitted, one_line, plain
from agent.states import Lifecycle


@dataclass(frozen=True)
class Sample:
    name: str
    last_sync_ms: int | None
    where: Path
    states: dict[Lifecycle, int]


class Utf8(io.StringIO):
    encoding = "utf-8"


def test_json_times_are_iso_with_offset() -> None:
    found = plain(Sample("a", 1_700_000_000_000, Path("/x"), {Lifecycle.SEALED: 2}))
    assert found["last_sync"].startswith("2023-11-1")
    assert found["last_sync"][-6] in "+-"
    assert found == {"name": "a", "last_sync": found["last_sync"], "where": "/x", "states": {"sealed": 2}}
    assert plain(Sample("a", None, Path("/x"), {}))["last_sync"] is None


def test_no_control_sequence_of_the_memory_reaches_the_terminal() -> None:
    stream = Utf8()
    output = Output(stdout=stream)
    nasty = "be\x1b[31mware\x07 \u202eevil\x9b2J"
    output.line(nasty)
    output.verbatim(nasty)
    output.table(("a",), [(nasty,)])
    output.facts([("a", nasty)])
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(stream.getvalue())
    assert "beware" not in clean("be\x1b[31mware")  # the sequence's harmless letters stay


def test_lines_wrap_at_80_columns_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    stream = Utf8()
    output = Output(stdout=stream)
    long = "word " * 60
    output.line(long)
    output.line(long, indent=6)
    output.table(("id", "text"), [(1, long)], numbers=("id",))
    output.facts([("name", long)])
    output.verbatim(long)
    output.line("漢" * 70)
    lines = stream.getvalue().splitlines()
    wide = {line: sum(2 if letter == "漢" else 1 for letter in line) for line in lines}
    assert max(wide.values()) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_an_impossible_width_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for odd in ("", "0", "wide", "-3"):
        monkeypatch.setenv("COLUMNS", odd)
        assert Output(stdout=Utf8()).width == 80


def test_json_survives_names_that_are_no_text() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    Output(stdout=stream, stderr=io.StringIO()).document({"name": os.fsdecode(b"caf\xe9"), "other": "漢"})
    raw = stream.buffer.getvalue()  # type: ignore[attr-defined]
    assert json.loads(raw) == {"name": "caf\udce9", "other": "漢"}
    assert "漢".encode() in raw


def test_json_is_ascii_where_the_pipe_is_not_utf8() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", write_through=True)
    Output(stdout=stream, stderr=io.StringIO()).document({"name": "漢🙂"})
    assert json.loads(stream.buffer.getvalue()) == {"name": "漢🙂"}  # type: ignore[attr-defined]


def test_one_line_is_cut_with_an_ellipsis() -> None:
    assert one_line("a\n\tb  c") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert fitted("漢字漢字漢", 6) == "漢字…"
    assert fitted("漢字漢", 6) == "漢字漢"


def test_reader_that_leaves_early_is_no_error() -> None:
    # Far more than a pipe holds, so that the writer meets the closed end.
    code = (
        "import sys\n"
        "from agent.cli import queue, program\n"
        "from agent.cli.output import Output\n"
        "def many(**_):\n"
        "    for _ in range(20000): Output().line('a line of a long list of jobs')\n"
        "queue.jobs.callback = many\n"
        "sys.exit(program.main(['jobs']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line of a long list of jobs\n"
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(30) == 0
    assert err == ""
