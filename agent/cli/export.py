"""The command that hands the memory out: export."""

from __future__ import annotations

import click

from agent.cli.command import SapwoodCommand, output_of


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
    from agent.cli.waiting import WaitingLine

    output = output_of(context)
    with open_home() as home, WaitingLine() as line:
        found = write(home, folder, line.counted_of("notes"))
    if output.as_json:
        output.document(found)
        return
    output.line(f"{found.files} notes with {found.passages} passages are in {found.path}")
    changed = f"{found.written} written, {found.files - found.written} as they were, {found.removed} removed"
    output.line(changed, "dim")
