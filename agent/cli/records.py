"""Commands about what was recorded: logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
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
