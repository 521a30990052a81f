"""Commands about what is read: add, sources, sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.sources import Unreadable
    from agent.cli.output import Output

KINDS = (
    *("auto", "folder", "mbox", "maildir", "eml", "irc", "whatsapp", "signal", "slack", "telegram", "discord"),
    *("chatgpt", "claude", "claude-code", "codex", "git"),
)
BUILT = ("folder", "mbox", "eml", "irc")
REASONS_SHOWN = 10


@click.command(
    cls=SapwoodCommand,
    short_help="Name something to read.",
    examples="""
    sapwood add ~/Notes
    sapwood add ~/mail/archive.mbox --name archive
    sapwood add ~/chats --kind irc --private
    sapwood add ~/Documents --exclude 'drafts/*' --exclude '*.bak'
    """,
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    default="auto",
    help=f"What it is; found out by itself otherwise. This version reads {', '.join(BUILT)}.",
)
@click.option("--name", help="What to call it; its folder's or file's name otherwise.")
@click.option("--private", is_flag=True, help="Never to be sent to a model outside this machine.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches; may be repeated.")
@click.pass_context
def add(
    context: click.Context, paths: tuple[str, ...], kind: str, name: str | None, private: bool, exclude: tuple[str, ...]
) -> None:
    """Name a folder, mailbox or chat to read. Says what it found and queues the first look; several paths are one
    source. Nothing in it is ever changed.
    """
    from agent.actions.home import open_home
    from agent.actions.sources import add as name_source

    output = output_of(context)
    with open_home() as home:
        found = name_source(home, paths, kind=kind, name=name, private=private, exclude=exclude)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    what = f"{found.items} {'item' if found.items == 1 else 'items'}"
    output.line(f"added {found.source_id} ({found.kind}): {what}")
    _print_unreadable(output, found.source_id, found.unreadable)
    if found.overlaps:
        output.note(f"it overlaps with {', '.join(found.overlaps)}: what both read is found twice")
    if notice:
        output.note(notice)


@click.command(
    cls=SapwoodCommand,
    short_help="List what is read.",
    examples="""
    sapwood sources
    sapwood sources --json
    """,
)
@click.pass_context
def sources(context: click.Context) -> None:
    """List the sources with their counts, the last look at each, and what could not be read and why."""
    from agent.actions.home import open_home
    from agent.actions.sources import sources as look
    from agent.clock import iso

    output = output_of(context)
    with open_home() as home:
        found = look(home)
    if output.as_json:
        output.document(found)
        return
    if not found.sources:
        output.line("no sources yet; name one with `sapwood add PATH`")
        return
    output.table(
        ("source", "kind", "items", "chunks", "unreadable", "last look"),
        [
            (row.id, row.kind, row.items, row.chunks, len(row.unreadable), iso(row.last_sync_ms) or "not yet")
            for row in found.sources
        ],
        numbers=("items", "chunks", "unreadable"),
    )
    for row in found.sources:
        if row.error:
            output.line()
            output.line(f"{row.id}: {row.error}")
        _print_unreadable(output, row.id, row.unreadable)


def _print_unreadable(output: Output, source_id: str, unreadable: Sequence[Unreadable]) -> None:
    if not unreadable:
        return
    output.line()
    output.heading(f"{source_id}: could not be read")
    for each in unreadable[:REASONS_SHOWN]:
        output.line(f"{each.item}: {each.reason}", indent=2)
    if len(unreadable) > REASONS_SHOWN:
        output.line(f"… and {len(unreadable) - REASONS_SHOWN} more; --json lists all", indent=2)


@click.command(
    cls=SapwoodCommand,
    short_help="Look at the sources again, now.",
    examples="""
    sapwood sync
    sapwood sync notes
    """,
)
@click.argument("source", required=False)
@click.pass_context
def sync(context: click.Context, source: str | None) -> None:
    """Look at one source, or at all of them, for what changed. What did not change costs next to nothing."""
    from agent.actions.home import open_home
    from agent.actions.sources import sync as look

    output = output_of(context)
    with open_home() as home:
        found = look(home, source)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    if not found.queued:
        output.line("no sources yet; name one with `sapwood add PATH`")
        return
    output.line(f"looking again at {', '.join(found.queued)}")
    if notice:
        output.note(notice)
