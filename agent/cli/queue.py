"""Commands about the work: jobs, retry, cancel, pause, resume."""

from __future__ import annotations

import click

from agent.cli.command import SapwoodCommand, output_of
from agent.states import JobKind, JobStatus

TABLE_ROWS = 40
STATUSES = [str(each) for each in JobStatus]
KINDS = [str(each) for each in JobKind]


@click.command(
    cls=SapwoodCommand,
    short_help="List the work, newest first.",
    examples="""
    sapwood jobs
    sapwood jobs --status failed
    sapwood jobs --kind seal --json
    """,
)
@click.option("--status", type=click.Choice(STATUSES), metavar="STATUS", help=f"One of: {', '.join(STATUSES)}.")
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help=f"One of: {', '.join(KINDS)}.")
@click.option("-n", "--limit", type=click.IntRange(1), metavar="N", help="So many (40 in a table, all as JSON).")
@click.pass_context
def jobs(context: click.Context, status: str | None, kind: str | None, limit: int | None) -> None:
    """List the jobs of the queue, newest first: what waits, runs, is done, or failed and why."""
    from agent.actions.home import open_home
    from agent.actions.jobs import jobs as look
    from agent.cli.output import one_line

    output = output_of(context)
    with open_home() as home:
        found = look(home, status=status, kind=kind, limit=limit or (None if output.as_json else TABLE_ROWS))
    if output.as_json:
        output.document(found)
        return
    if not found.jobs:
        output.line("no jobs" if status is None and kind is None else "no such jobs")
        return
    output.table(
        ("id", "kind", "status", "tries", "about"),
        [
            (
                row["id"],
                row["kind"],
                row["status"],
                f"{row['attempts']}/{row['max_attempts']}",
                one_line(row["last_error"] or row["dedupe_key"] or "", 100),
            )
            for row in found.jobs
        ],
        numbers=("id", "tries"),
    )
    if status == "failed":
        for each in found.remedies:
            output.line()
            whose = f" of {each.scope}" if each.scope else ""
            output.line(
                f"{each.count} × {each.code}{whose}: {each.words}" if each.code else f"{each.count} × {each.words}"
            )
    if found.total > len(found.jobs):
        output.note(f"{found.total - len(found.jobs)} more; see them with --limit or --status")


@click.command(
    cls=SapwoodCommand,
    short_help="Try failed work again.",
    examples="""
    sapwood retry 4711
    sapwood retry --all
    """,
)
@click.argument("job_id", metavar="[ID]", type=int, required=False)
@click.option("--all", "every", is_flag=True, help="All failed jobs.")
@click.pass_context
def retry(context: click.Context, job_id: int | None, every: bool) -> None:
    """Try a failed or cancelled job again, or all failed ones. Mend the cause first: `sapwood doctor` names it."""
    from agent.actions.home import open_home
    from agent.actions.jobs import retry as again

    if (job_id is None) == (not every):
        raise click.UsageError("name one job, or say --all")
    output = output_of(context)
    with open_home() as home:
        found = again(home, job_id)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    output.line(f"{found.requeued} {'job' if found.requeued == 1 else 'jobs'} will be tried again")
    if notice:
        output.note(notice)


@click.command(
    cls=SapwoodCommand,
    short_help="Take one job out of the work.",
    examples="""
    sapwood cancel 4711
    """,
)
@click.argument("job_id", metavar="ID", type=int)
@click.pass_context
def cancel(context: click.Context, job_id: int) -> None:
    """Cancel a job. One that is running is left to its worker, whose result is thrown away."""
    from agent.actions.home import open_home
    from agent.actions.jobs import cancel as take_out

    output = output_of(context)
    with open_home() as home:
        found = take_out(home, job_id)
    if output.as_json:
        output.document(found)
    else:
        output.line(f"job {found.id} is cancelled; `sapwood retry {found.id}` takes that back")


@click.command(
    cls=SapwoodCommand,
    short_help="Pause the work.",
    examples="""
    sapwood pause               until `sapwood resume`
    sapwood pause 1h
    sapwood pause tomorrow      until six tomorrow morning
    """,
)
@click.argument("until", metavar="[1h|30m|tomorrow]", required=False)
@click.pass_context
def pause(context: click.Context, until: str | None) -> None:
    """Pause all work for a while, until tomorrow, or until `sapwood resume`. Searching goes on working."""
    from agent.actions.home import open_home
    from agent.actions.pausing import pause as hold
    from agent.clock import iso

    output = output_of(context)
    with open_home() as home:
        found = hold(home, until)
    if output.as_json:
        output.document(found)
    elif found.indefinite:
        output.line("paused until `sapwood resume`")
    else:
        output.line(f"paused until {iso(found.paused_until_ms)}")


@click.command(
    cls=SapwoodCommand,
    short_help="Let the work go on.",
    examples="""
    sapwood resume
    """,
)
@click.pass_context
def resume(context: click.Context) -> None:
    """End the pause at once. Where the machine's state holds the work back (battery, memory, other programs), it goes
    on in spite of that until the cause is gone.
    """
    from agent.actions.home import open_home
    from agent.actions.pausing import resume as go_on

    output = output_of(context)
    with open_home() as home:
        found = go_on(home)
        notice = home.notice
    if output.as_json:
        output.document(found)
        return
    output.line("the work goes on" + (f", in spite of this: {found.in_spite_of}" if found.in_spite_of else ""))
    if notice:
        output.note(notice)
