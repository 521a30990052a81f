"""Commands that keep the memory: backup, restore, rebuild."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.rebuilding import Plan


@click.command(
    cls=SapwoodCommand,
    short_help="Copy the memory into one file.",
    examples="""
    sapwood backup ~/backups/sapwood-2025-06.backup
    sapwood backup /media/stick/sapwood.backup --force
    """,
)
@click.argument("file", type=click.Path())
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
@click.pass_context
def backup(context: click.Context, file: str, force: bool) -> int:
    """Copy the memory into one file while the agent works on. It carries your inbox, the ledger of what was forgotten
    and your settings too: what no source can give again. The copy is read back before it is called done. Exits 1 where
    the memory is damaged: what can be copied is.
    """
    from pathlib import Path

    from agent.actions.backing_up import back_up
    from agent.actions.doctor import size_words
    from agent.cli.waiting import WaitingLine
    from agent.paths import find_paths

    output = output_of(context)
    with WaitingLine() as line:
        done = back_up(find_paths(), Path(file), force=force, progress=line.share("copying"))
    if output.as_json:
        output.document(done)
    else:
        output.line(f"{done.path}: {size_words(done.bytes)}, {'read back and sound' if done.ok else 'not sound'}")
    if done.words:
        output.note(done.words, "")
    return 0 if done.ok else 1


@click.command(
    cls=SapwoodCommand,
    short_help="Make a backup the memory again.",
    examples="""
    sapwood restore ~/backups/sapwood-2025-06.backup
    sapwood restore ~/backups/sapwood-2025-06.backup --yes
    """,
)
@click.argument("file", type=click.Path())
@click.option("--yes", is_flag=True, help="Do not ask first.")
@click.pass_context
def restore(context: click.Context, file: str, yes: bool) -> None:
    """Make a backup the memory again, whether or not the agent runs. It is verified first; what is there now is kept
    beside it, and the command says where. What was forgotten since stays forgotten, and items missing in the inbox come
    back. Your settings are only put back where there are none.
    """
    from pathlib import Path

    from agent.actions.doctor import size_words
    from agent.actions.restoring import restore as put_back
    from agent.cli.waiting import WaitingLine
    from agent.paths import find_paths

    output = output_of(context)
    _ask("Put this backup in the place of the memory?", yes)
    with WaitingLine() as line:
        done = put_back(find_paths(), Path(file), progress=line.share("copying"))
    if output.as_json:
        output.document(done)
        return
    output.line(f"restored {done.path}: {size_words(done.bytes)}, {done.chunks} passages")
    if done.kept_as:
        output.line(f"what was there before is kept as {done.kept_as}")
    if done.inbox_files:
        output.line(
            "1 item was put back into the inbox"
            if done.inbox_files == 1
            else f"{done.inbox_files} items were put back into the inbox"
        )
    for note in done.notes:
        output.note(note)


@click.command(
    cls=SapwoodCommand,
    short_help="Grow the memory again from its sources.",
    examples="""
    sapwood rebuild
    sapwood rebuild --summaries
    """,
)
@click.option("--summaries", is_flag=True, help="Make only the summaries again; nothing is read.")
@click.option("--yes", is_flag=True, help="Do not ask first, and lose what no source can give again.")
@click.pass_context
def rebuild(context: click.Context, summaries: bool, yes: bool) -> None:
    """Empty the memory and grow it again from your sources, the inbox and the ledger; the same content gives the same
    tree. What was forgotten stays forgotten, and a pause stays a pause. A damaged memory is moved aside. Refuses
    without --yes where something held is not there any more, a source or what you said to keep: it would be lost.
    """
    from agent.actions.home import NOT_RUNNING
    from agent.actions.rebuilding import look_leniently
    from agent.actions.rebuilding import rebuild as grow_again
    from agent.paths import find_paths

    output = output_of(context)
    paths = find_paths().make()
    plan = look_leniently(paths)
    if not summaries:
        _refuse_loss(plan, yes)
    _ask(_question(plan, summaries=summaries), yes)
    done = grow_again(paths, plan=plan, summaries=summaries)
    if output.as_json:
        output.document(done)
        return
    if done.moved_to:
        output.line(f"the damaged memory is kept as {done.moved_to}; a new one is begun")
    elif not plan.exists:
        output.line("a new memory is begun")
    elif summaries:
        output.line(f"to be made again: {_summaries(done.summaries)}")
    else:
        passages = "1 passage" if done.chunks == 1 else f"{done.chunks} passages"
        output.line(f"to be grown again: {passages}, {_summaries(done.summaries)}")
    if done.queued:
        output.line(f"to be read: {', '.join(done.queued)}")
    if not done.running:
        output.note(NOT_RUNNING)


def _question(plan: Plan, *, summaries: bool) -> str:
    if not plan.exists:
        return "There is no memory. Begin one?"
    if not plan.is_sound:
        return "The memory is damaged. Move it aside and grow a new one from its sources?"
    return "Make all summaries again?" if summaries else "Empty the memory and grow it again from its sources?"


def _refuse_loss(plan: Plan, yes: bool) -> None:
    if yes or not plan.at_risk:
        return
    from agent.errors import AgentFault

    lost = "; ".join(f"{each.source_id} ({each.why}): {each.passages} passages" for each in plan.at_risk)
    raise AgentFault(
        "something held could not be read again",
        lost,
        "bring it back first, answer with `sapwood sync SOURCE`, or lose it with --yes; nothing was changed",
    )


def _summaries(count: int) -> str:
    return "1 summary" if count == 1 else f"{count} summaries"


def _ask(question: str, yes: bool) -> None:
    if yes:
        return
    from agent.errors import UsageFault

    if not _is_terminal():
        raise UsageFault("this needs a yes", question, "say --yes where there is nobody to ask")
    if not click.confirm(question, err=True):
        click.echo("nothing was changed", err=True)
        raise click.Abort


def _is_terminal() -> bool:
    return sys.stdin.isatty()
