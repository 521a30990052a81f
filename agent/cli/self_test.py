"""The command by which a build tries itself."""

from __future__ import annotations

import click

from agent.cli.command import SapwoodCommand, output_of


@click.command(
    name="self-test",
    cls=SapwoodCommand,
    short_help="Try every part of this installation.",
    examples="""
    sapwood self-test
    sapwood self-test --json
    """,
)
@click.pass_context
def self_test(context: click.Context) -> int:
    """Try every part of this installation with its real processes: workers, search, page, assistants, icon.

    It works in a home that is thrown away, reads nothing of yours, ends what it started, and takes less than a minute.
    Exits 1 where something is broken, and says what.
    """
    from agent.actions.self_test import self_test as run
    from agent.cli.steps import Steps

    output = output_of(context)
    with Steps() as steps:
        found = run(say=steps.say)
    if output.as_json:
        output.document(found)
        return 0 if found.ok else 1
    output.table(
        ("", "check", "found"), [("ok" if check.ok else "!!", check.name, check.detail) for check in found.checks]
    )
    broken = [check for check in found.checks if not check.ok]
    for check in broken:
        output.line()
        output.line(f"{check.name}: {check.remedy}", "bold")
    output.line()
    output.line(f"{len(broken)} of {len(found.checks)} parts are broken" if broken else "all of it works")
    return 1 if broken else 0
