"""Completing words in a shell: ``sapwood completion``, and what a shell asks back through ``_SAPWOOD_COMPLETE``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

    from agent.config import Intent

VARIABLE = "_SAPWOOD_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def intent_here() -> Intent:
    """Return the intent, an empty one where it cannot be read: a shell that completes words wants no errors.

    Does not open the memory.
    """
    from agent.config import Intent, load_intent
    from agent.errors import SapwoodError
    from agent.paths import find_paths

    try:
        return load_intent(find_paths()).intent
    except (SapwoodError, OSError):
        return Intent()


def answer(program: click.Command) -> int | None:
    """Answer a shell that asks for words; ``None`` where none does."""
    instruction = os.environ.get(VARIABLE)
    if not instruction:
        return None
    from click.shell_completion import shell_complete

    return shell_complete(program, {}, "sapwood", VARIABLE, instruction)


def script(shell: str, program: click.Command) -> str:
    """Return what a shell reads once to complete the words of ``sapwood`` from then on."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    asked: ShellComplete = kind(program, {}, "sapwood", VARIABLE)
    # The class for bash would first start a bash to ask how old it is; this text is for whichever reads it.
    return ShellComplete.source(asked)


@click.command(
    cls=SapwoodCommand,
    short_help="Let your shell complete commands, options, names.",
    examples="""
    sapwood completion bash > ~/.local/share/bash-completion/completions/sapwood
    sapwood completion zsh > ~/.zfunc/_sapwood
    sapwood completion fish > ~/.config/fish/completions/sapwood.fish
    """,
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which bash (4.4 or newer), zsh or fish completes commands, options, the names of your sources
    and the keys of your settings. Put it where the shell looks for such scripts, and open a new shell.
    """
    output = output_of(context)
    text = script(shell, context.find_root().command)
    if output.as_json:
        output.document({"shell": shell, "script": text})
        return
    for line in text.strip("\n").split("\n"):
        click.echo(line)
