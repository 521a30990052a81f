"""Start at login: autostart."""

from __future__ import annotations

import click

from agent.cli.command import SapwoodCommand, output_of


@click.command(
    cls=SapwoodCommand,
    short_help="Start at login: on, off, look.",
    examples="""
    sapwood autostart status
    sapwood autostart on
    sapwood autostart off
    """,
)
@click.argument("action", metavar="[on|off|status]", type=click.Choice(("on", "off", "status")), default="status")
@click.pass_context
def autostart(context: click.Context, action: str) -> int:
    """Start the agent when you log in, or no longer. It is off until you switch it on.

    What is said is read back from the system: you may as well switch it off in your desktop's own list of startup
    programs. Nothing is started or ended now. Where SAPWOOD_HOME is set, the login starts the agent of that folder.
    """
    from agent.actions.autostart import autostart_status, set_autostart

    output = output_of(context)
    found = autostart_status() if action == "status" else set_autostart(action == "on")
    if output.as_json:
        output.document(found)
    else:
        output.line(f"start at login is {'on' if found.enabled else 'off'}")
        output.facts([("how", found.mechanism), ("where", found.path)])
        if found.problem:
            output.note(found.problem, "bold red")
    return 1 if action == "on" and not found.enabled else 0
