"""The memory for assistants: mcp."""

from __future__ import annotations

import sys

import click

from agent.cli.command import SapwoodCommand, output_of

CLIENTS = ("claude", "cursor", "vscode", "codex")


@click.command(
    cls=SapwoodCommand,
    short_help="Let your assistant search your memory.",
    examples="""
    sapwood mcp config claude
    sapwood mcp config vscode --json
    sapwood mcp
    """,
)
@click.argument("action", metavar="[config]", type=click.Choice(("config",)), required=False)
@click.argument("client", metavar="[claude|cursor|vscode|codex]", type=click.Choice(CLIENTS), required=False)
@click.pass_context
def mcp(context: click.Context, action: str | None, client: str | None) -> int:
    """Serve your memory to an assistant on stdin and stdout, by the Model Context Protocol (MCP). The assistant's
    program starts this by itself, once it is told to: `config` prints what to put where, and writes nothing.

    It can search, read, walk the tree, say what is there, and keep notes. It works whether or not the agent runs.
    Sources added with --private stay out, unless you say `sapwood config set assistants.private true`. What an
    assistant reads it may send to the company that runs its model.
    """
    from agent.paths import find_paths

    if action is not None:
        return _config(context, client)
    if sys.stdin is None or sys.stdout is None:
        from agent.errors import UsageFault

        raise UsageFault("there is nobody to talk to", "stdin or stdout is closed", "an assistant's program starts it")
    if sys.stdin.isatty():
        output_of(context).note(
            "this waits for an assistant's program, which starts it by itself: `sapwood mcp config claude` says how. "
            "Ctrl-C ends it."
        )
    from agent.gateway.mcp.stdio import serve_stdio

    return serve_stdio(find_paths())


def _config(context: click.Context, client: str | None) -> int:
    from agent.actions.assistants_clients import client_config
    from agent.errors import UsageFault

    if client is None:
        raise UsageFault("whose configuration?", "", f"say one of: {', '.join(CLIENTS)}")
    output = output_of(context)
    found = client_config(client)
    if output.as_json:
        output.document(found)
        return 0
    click.echo(f"into the file {found.path}:", err=True)
    # As it is, in one piece: it is to be copied.
    click.echo(found.snippet)
    for note in found.notes:
        click.echo(note, err=True)
    return 0
