"""The command that hands the memory out: export."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import click

from agent.cli.command import SapwoodCommand, output_of

FIRST_AFTER_S = 1.0
TERMINAL_EVERY_S = 0.25
PIPE_EVERY_S = 5.0


@click.command(
    cls=SapwoodCommand,
    short_help="The memory as linked Markdown, for Obsidian.",
    examples="""
    sapwood export ~/Garden
    sapwood export ~/Garden --json
    """,
)
@click.argument("folder", metavar="DIR", type=click.Path())
@click.pass_context
def export(context: click.Context, folder: str) -> None:
    """Write the memory into DIR as Markdown with [[links]]: a note for every document, mail and day of chat, one for
    every summary, one for each source with its tree. Open DIR in Obsidian, or in any editor.

    DIR is new, empty, or an earlier export, which is brought up to date: what is gone from the memory is removed from
    it, files of your own in it are left alone. The notes are readable by you alone, and word for word: they stand in
    fences, so nothing in them can act.
    """
    from agent.actions.exporting import export as write
    from agent.actions.home import open_home

    output = output_of(context)
    with open_home() as home, Counter("notes") as counter:
        found = write(home, folder, counter)
    if output.as_json:
        output.document(found)
        return
    output.line(f"{found.files} notes with {found.passages} passages are in {found.path}")
    changed = f"{found.written} written, {found.files - found.written} as they were, {found.removed} removed"
    output.line(changed, "dim")


class Counter:
    """Says how far something is once it takes over a second: in place on a terminal, now and then in a pipe."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._next = time.monotonic() + FIRST_AFTER_S
        self._drawn = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        words = f"{done} of {total} {self._what}"
        if self._terminal:
            self._stream.write(f"\r{words}\x1b[K")
            self._drawn = True
        else:
            self._stream.write(f"{words}\n")
        self._stream.flush()
        self._next = now + (TERMINAL_EVERY_S if self._terminal else PIPE_EVERY_S)
