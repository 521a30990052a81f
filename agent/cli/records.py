"""Commands about what was recorded: logs, and the report for a maintainer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.bug_report import Report
    from agent.actions.log_reading import Line
    from agent.cli.output import Output

LEVELS = ("debug", "info", "warning", "error", "critical")
_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red", "DEBUG": "dim"}


@click.command(
    cls=SapwoodCommand,
    short_help="What the agent recorded.",
    examples="""
    sapwood logs
    sapwood logs -n 200 --level warning
    sapwood logs --follow
    sapwood logs -n 1000 --json
    """,
)
@click.option("-n", "count", type=click.IntRange(1), metavar="N", default=50, show_default=True, help="The last N.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--level",
    type=click.Choice(LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"This level and above: {', '.join(LEVELS)}.",
)
@click.pass_context
def logs(context: click.Context, count: int, follow: bool, level: str | None) -> None:
    """Print the logs of all processes as one, by time (UTC). They hold no content of yours. Lines are not cut to the
    width of the terminal. Works without a memory and with broken settings.
    """
    from agent.actions.log_reading import follow as follow_lines
    from agent.actions.log_reading import last_lines
    from agent.paths import find_paths

    output = output_of(context)
    paths = find_paths()
    if follow:
        if output.as_json:
            raise click.UsageError("--follow never ends, so it is no one JSON document; leave out one of the two")
        if not last_lines(paths, 1).files:
            output.note(f"no logs yet; waiting for them in {paths.log_dir}")
        for line in follow_lines(paths, count, level):
            _print(output, line)
        return
    found = last_lines(paths, count, level)
    if output.as_json:
        output.document(found)
        return
    for line in found.lines:
        _print(output, line)
    if not found.files:
        output.line(f"no logs yet; `sapwood run` writes them to {found.folder}")
    elif not found.lines:
        output.line(f"nothing of that level in {found.folder}" if level else f"the logs in {found.folder} are empty")


def _print(output: Output, line: Line) -> None:
    for row in line.raw.split("\n"):
        output.verbatim_whole(row, _STYLES.get(line.level or "", ""))
    output.flush()


@click.command(
    "bug-report",
    cls=SapwoodCommand,
    short_help="Put together what a maintainer needs.",
    examples="""
    sapwood bug-report
    sapwood bug-report -o ~/Desktop/report.zip
    sapwood bug-report --yes --json
    """,
)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(),
    metavar="FILE",
    help="Save it there; without it in your downloads, or your home folder.",
)
@click.option("--yes", is_flag=True, help="Do not ask before it is saved.")
@click.pass_context
def bug_report(context: click.Context, file: str | None, yes: bool) -> None:
    """Save one zip with a summary, the logs and the crash dumps. Its contents are listed first, and on a terminal you
    are asked. Your texts, names, paths, addresses and keys are taken out, and counted; nothing is sent anywhere. Works
    without a memory, with a damaged one and with broken settings.
    """
    from pathlib import Path

    from agent.actions.bug_report import collect, save
    from agent.cli.waiting import WaitingLine
    from agent.paths import find_paths

    output = output_of(context)
    with WaitingLine() as line:
        line.say("looking at everything")
        report = collect(find_paths())
    if not output.as_json:
        _list(output, report)
    if sys.stdin.isatty() and not yes and not output.as_json and not click.confirm("Save it?", err=True):
        output.note("nothing was saved")
        raise click.Abort
    path = save(report, None if file is None else Path(file))
    if output.as_json:
        output.document({"path": path, "bytes": path.stat().st_size, "files": report.files, "masked": report.masked})
        return
    output.verbatim_whole(f"saved: {path}")
    output.line("Look into it before you give it to anybody. Nothing was sent.")


def _list(output: Output, report: Report) -> None:
    from agent.actions.doctor import size_words

    output.table(
        ("file", "size", "masked", "what it is"),
        [(file.name, size_words(file.bytes), file.masked or "", file.about) for file in report.files],
        numbers=("size", "masked"),
    )
    taken = ", ".join(f"{kind} ({count:,})" for kind, count in report.masked.items())
    output.line(f"taken out: {taken}" if taken else "nothing had to be taken out")
