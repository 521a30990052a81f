"""Commands about what is read: add, sources, sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.sources import Added, Question, Unreadable
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
    sapwood add ~/wiki --include '*.md'
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
@click.option("--include", multiple=True, metavar="GLOB", help="Read only what matches; may be repeated.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches; may be repeated.")
@click.option("--hidden", is_flag=True, help="Read names that begin with a dot too.")
@click.pass_context
def add(
    context: click.Context,
    paths: tuple[str, ...],
    kind: str,
    name: str | None,
    private: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    hidden: bool,
) -> None:
    """Name a folder, mailbox or chat to read. Says what it found and queues the first look; several paths are one
    source. Nothing in it is ever changed.
    """
    from agent.actions.home import open_home
    from agent.actions.sources import add as name_source
    from agent.cli.waiting import WaitingLine

    output = output_of(context)
    with open_home() as home, WaitingLine() as line:
        found = name_source(
            home,
            paths,
            kind=kind,
            name=name,
            private=private,
            include=include,
            exclude=exclude,
            hidden=hidden,
            counted=line.counted("looking"),
        )
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    tell_added(output, found)
    if notice:
        output.note(notice)


def tell_added(output: Output, found: Added) -> None:
    """Print what naming a source found."""
    what = f"{found.items} {'item' if found.items == 1 else 'items'}"
    output.line(f"added {found.source_id} ({found.kind}): {what}")
    _print_unreadable(output, found.source_id, found.unreadable)
    if found.overlaps:
        output.note(f"it overlaps with {', '.join(found.overlaps)}: what both read is found twice")


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
    """List the sources with their counts, the last look at each, and what could not be read and why. Asks about a
    source of which much is no longer there; `sapwood sync --accept` or `--refuse` answers.
    """
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
        if row.question is not None:
            _print_question(output, row.id, row.question)
        if row.error:
            output.line()
            output.line(f"{row.id}: {row.error}")
        if row.masked:
            output.line()
            output.line(f"{row.id}: {row.masked} {'secret was' if row.masked == 1 else 'secrets were'} masked")
        _print_unreadable(output, row.id, row.unreadable)


def _print_question(output: Output, source_id: str, question: Question) -> None:
    output.line()
    output.heading(f"{source_id}: {question.gone} of {question.held} items are no longer there")
    for key in question.examples:
        output.line(key, indent=2)
    if question.gone > len(question.examples):
        output.line(f"… and {question.gone - len(question.examples)} more", indent=2)
    output.line("Nothing was removed. Is this meant to be so?")
    output.line(f"sapwood sync {source_id} --accept", indent=2)
    output.line("they are gone: their memory goes too", indent=4)
    output.line(f"sapwood sync {source_id} --refuse", indent=2)
    output.line("keep what is held of them", indent=4)
    output.line("If a disk is missing, plug it in and run `sapwood sync`: the question goes away.")


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
    sapwood sync notes --accept
    """,
)
@click.argument("source", required=False)
@click.option("--accept", is_flag=True, help="What is no longer there is meant to be gone: its memory goes too.")
@click.option("--refuse", is_flag=True, help="Keep what is held of what is no longer there.")
@click.pass_context
def sync(context: click.Context, source: str | None, accept: bool, refuse: bool) -> None:
    """Look at one source, or at all of them, for what changed. What did not change costs next to nothing. A source of
    which more than half is gone at once is held back: `sapwood sources` shows the question, --accept or --refuse
    answers it.
    """
    from agent.actions.home import open_home
    from agent.actions.sources import sync as look
    from agent.states import Answer

    if accept and refuse:
        raise click.UsageError("--accept and --refuse are two answers: give one")
    output = output_of(context)
    with open_home() as home:
        found = look(home, source, answer=Answer.ACCEPT if accept else Answer.REFUSE if refuse else None)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    if not found.queued:
        output.line("no sources yet; name one with `sapwood add PATH`")
        return
    if found.answer is not None:
        what = "are gone and leave the memory" if accept else "are kept, though they are gone"
        output.line(f"answered for {found.queued[0]}: {found.gone:,} of {found.held:,} items {what}")
    output.line(f"looking again at {', '.join(found.queued)}")
    if notice:
        output.note(notice)
