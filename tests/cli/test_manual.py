"""The man page is made from the commands, knows all of them, and is a page that man can show."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from agent.cli.manual import _text, manual
from agent.cli.program import build

PAGE = Path(__file__).resolve().parents[2] / "packaging" / "sapwood.1"


def test_the_page_in_the_repository_is_what_the_commands_say() -> None:
    assert PAGE.read_text("utf-8") == manual(), "run: python -m agent.cli.manual > packaging/sapwood.1"


@pytest.mark.parametrize("name", sorted(build().commands))
def test_the_page_knows_the_command_with_its_options_and_examples(name: str) -> None:
    head = f"\n\\fBsapwood {_text(name)}\\fR"
    assert head in manual()
    entry = manual().partition(head)[2].partition("\n\\fBsapwood ")[0]
    command = build().commands[name]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.name not in ("json", "debug"):
            assert all(f"\\fB{_text(word)}\\fR" in entry for word in option.opts)
    assert f"\n{_text(f'sapwood {name}')}" in entry.partition("Examples:")[2]


def test_nothing_of_the_page_is_a_macro_by_chance() -> None:
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".IP", ".RS", ".RE", ".nf", ".fi", ".B", ".I", ".RI"}
    assert {line.split()[0] for line in manual().splitlines() if line.startswith((".", "'"))} <= known


@pytest.mark.parametrize(
    "checker",
    [
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        ["mandoc", "-T", "lint", "-W", "warning"],
        ["man", "--warnings", "-l", "-E", "UTF-8"],
    ],
    ids=lambda argv: argv[0],
)
def test_man_shows_the_page_without_a_warning(checker: list[str]) -> None:
    if shutil.which(checker[0]) is None:
        package = {"man": "man-db"}.get(checker[0], checker[0])
        pytest.skip(f"{checker[0]} is not on this machine: apt-get install {package}")
    ran = subprocess.run([*checker, str(PAGE)], capture_output=True, text=True, check=False, timeout=30)
    # mandoc says on stdout what it would like, a date among it: the page has none, so that it changes only when the
    # commands do.
    lint = ran.stdout if checker[0] == "mandoc" else ""
    said = [line for line in (lint + ran.stderr).splitlines() if "missing date" not in line]
    assert said == []
    assert ran.returncode == 0 or "missing date" in lint
