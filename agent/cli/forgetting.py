"""Forgetting and remembering: ``remove``, ``forget``, ``remember``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.forgetting import Forgotten, Preview
    from agent.cli.output import Output


@click.command(
    cls=SapwoodCommand,
    short_help="Stop reading a source and forget it.",
    examples="""
    sapwood remove notes
    sapwood remove old-mail --yes
    """,
)
@click.argument("source")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove(context: click.Context, source: str, yes: bool) -> None:
    """Stop reading a source and delete everything that is held of it. Its files stay as they are, and it can be added
    again. Notes and what was handed in lie nowhere else: these are deleted.
    """
    from agent.actions.choosing import Wanted
    from agent.actions.forgetting import is_only_copy, preview, source_id_of
    from agent.actions.forgetting import remove as take_out
    from agent.actions.home import open_home
    from agent.cli.waiting import WaitingLine

    output = output_of(context)
    with open_home() as home:
        source_id = source_id_of(home, source)
        shown, _ = preview(home, Wanted(source_id=source_id))
        only_copy = is_only_copy(home, source_id)
        if not yes:
            about = f"Remove {source_id}: {_count(shown.items, 'item')}, {_count(shown.chunks, 'chunk')}."
            if only_copy:
                about += " What was remembered or handed in to it lies nowhere else: it is deleted for good."
            _ask(output, about, "remove it?")
        with WaitingLine() as line:
            found = take_out(home, source_id, meanwhile=line.lasting("taking it out of the memory"))
    _told(output, found, f"removed {source_id}", ours_only=not only_copy)


@click.command(
    cls=SapwoodCommand,
    short_help="Forget what is named, for good.",
    examples="""
    sapwood forget --mentions "Project Heron"
    sapwood forget mail --until 2019-12-31
    sapwood forget notes diary/2024-05-01.md
    sapwood forget --entity "anna maria" --yes
    """,
)
@click.argument("source", required=False)
@click.argument("item", required=False)
@click.option("--chunk", metavar="ID", help="One chunk, as `search` and `show` name it.")
@click.option("--since", metavar="WHEN", help="What is dated from then on (2025-06-14, or 7d for a week ago).")
@click.option("--until", metavar="WHEN", help="What is dated up to then.")
@click.option("--mentions", metavar="TEXT", help="Whatever has these words in it, in a title or in a file's name.")
@click.option("--entity", metavar="NAME", help="What mentions this person, place or thing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def forget(
    context: click.Context,
    source: str | None,
    item: str | None,
    chunk: str | None,
    since: str | None,
    until: str | None,
    mentions: str | None,
    entity: str | None,
    yes: bool,
) -> None:
    """Forget a source's items, one item, or what the options choose; with several options only what all of them
    choose. It is gone from the memory's file when this returns and is not read again, but your own files stay as they
    are.
    """
    from agent.actions.forgetting import count_elsewhere, preview, unread_words, wanted_of
    from agent.actions.forgetting import forget as let_go
    from agent.actions.home import open_home
    from agent.cli.waiting import WaitingLine
    from agent.errors import AgentFault

    output = output_of(context)
    with open_home() as home:
        wanted = wanted_of(
            home,
            source=source,
            item=item,
            chunk=chunk,
            since=since,
            until=until,
            mentions=mentions,
            entity=entity,
        )
        line = WaitingLine()
        progress = line.share("looking through the memory")
        shown, chosen = preview(home, wanted, progress=progress)
        elsewhere = 0 if yes else count_elsewhere(home, wanted, chosen, progress=progress)
        line.wipe()
        if not chosen:
            raise AgentFault(
                "nothing in the memory matches",
                unread_words(home.connection, wanted.source_id) or "so nothing was forgotten",
                "see what there is: `sapwood search`, `sapwood sources`, `sapwood show NODE`",
            )
        if not yes:
            _ask(output, _about(shown, elsewhere), "forget it for good?")
        found = let_go(home, wanted, chosen, progress=progress, meanwhile=line.lasting("taking it out of the memory"))
        line.wipe()
    _told(output, found, "forgotten", ours_only=True)


@click.command(
    cls=SapwoodCommand,
    short_help="Keep a note.",
    examples="""
    sapwood remember "The spare key is with Ines at number 14"
    sapwood remember - --title "Meeting notes" < notes.txt
    """,
)
@click.argument("text")
@click.option("--title", metavar="T", help="What to call it.")
@click.pass_context
def remember(context: click.Context, text: str, title: str | None) -> None:
    """Keep a note; `-` reads it from stdin. It is on the disk when this returns, and read into the memory by the
    running agent, or when it next runs.
    """
    from agent.actions.home import open_home
    from agent.actions.remembering import remember as keep

    output = output_of(context)
    if text == "-":
        # A note may be in any encoding that its writer's terminal had; what is no letter is shown as such.
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    with open_home() as home:
        found = keep(home, text, title=title)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    output.line(f"remembered as {found.item_key}")
    if notice:
        output.note(notice)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _about(shown: Preview, elsewhere: int) -> str:
    counts = [_count(shown.chunks, "chunk")]
    if shown.items:
        counts.insert(0, _count(shown.items, "whole item"))
    where = f" of {', '.join(shown.sources)}" if shown.sources else ""
    more = f"; and {shown.more_titles} more" if shown.more_titles else ""
    titles = f": {'; '.join(shown.titles)}{more}" if shown.titles else ""
    too = ""
    if elsewhere:
        has, there = ("has", "there") if elsewhere == 1 else ("have", "in each of them")
        too = f" {_count(elsewhere, 'other chunk')} {has} a sentence in common with it, which goes {there} too."
    return f"This forgets {', '.join(counts)}{where}{titles}.{too}"


def _ask(output: Output, about: str, question: str) -> None:
    """Ask a person; without a terminal nobody answers, so nothing is done. Raises ``UsageFault``, ``Abort``."""
    from agent.cli.output import one_line
    from agent.errors import UsageFault

    if output.as_json or not sys.stdin.isatty():
        raise UsageFault("nobody is there to be asked", one_line(about, 400), "say --yes to do it without a question")
    output.note(one_line(about, 600), "")
    if not click.confirm(question, err=True):
        output.note("nothing was changed", "")
        raise click.Abort


def _told(output: Output, found: Forgotten, done: str, *, ours_only: bool) -> None:
    if output.as_json:
        output.document(found)
        return
    output.line(
        f"{done}: {_count(found.chunks_removed, 'chunk')} and {found.summaries_removed} "
        f"{'summary' if found.summaries_removed == 1 else 'summaries'}"
    )
    if found.copies:
        output.line(f"deleted with it: {', '.join(found.copies)}")
    if found.words:
        output.note(found.words)
    from agent.actions.forgetting import BACKUPS

    if ours_only:
        output.note("your own files are as they were")
    output.note(BACKUPS)
