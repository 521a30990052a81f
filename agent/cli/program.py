"""The command line put together, and what becomes of its errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from agent.cli import (
    assistants,
    autostart,
    completion,
    export,
    forgetting,
    intent,
    keeping,
    keys,
    memory,
    models,
    queue,
    records,
    running,
    self_test,
    setup,
    sources,
)
from agent.cli.command import SETTINGS, global_options, output_of

INTERRUPTED = 130

# By topic, in the order of the help. A topic without commands is not shown.
COMMANDS: tuple[tuple[str, tuple[click.Command, ...]], ...] = (
    ("The agent", (running.run, running.stop, running.status, running.open_page, setup.setup, running.demo)),
    ("What it reads", (sources.add, sources.sources, sources.sync)),
    ("What it remembers", (memory.search, memory.show, memory.tree, assistants.mcp)),
    ("Forgetting", (forgetting.remember, forgetting.forget, forgetting.remove)),
    ("Its work", (queue.jobs, queue.retry, queue.cancel, queue.pause, queue.resume)),
    ("Keeping it", (keeping.backup, keeping.restore, keeping.rebuild, export.export)),
    ("Where something is wrong", (running.doctor, records.logs, records.bug_report, self_test.self_test)),
    (
        "Settings",
        (intent.config, models.model, keys.key, autostart.autostart, intent.usage, completion.completion),
    ),
)


class Program(click.Group):
    """The group of all commands, listed by topic."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.commands)
        for topic, commands in COMMANDS:
            if not commands:
                continue
            with formatter.section(topic):
                formatter.write_dl(
                    [(f"{command.name:{width}}", command.get_short_help_str(60)) for command in commands]
                )


def build() -> Program:
    """Return the program with all its commands."""
    from agent import __version__

    program = Program(
        name="sapwood",
        context_settings=SETTINGS,
        help="A quiet agent that grows a private, searchable memory tree out of the folders, mail and chats you name. "
        "Everything stays on this machine, unless you switch to a cloud's model.",
        epilog="Start with `sapwood demo`, or `sapwood add ~/Notes` and `sapwood run`.",
        params=[*global_options()],
    )
    click.version_option(__version__, "-V", "--version", message="sapwood %(version)s")(program)
    for _, commands in COMMANDS:
        for command in commands:
            program.add_command(command)
    return program


def main(arguments: Sequence[str]) -> int:
    """Carry out one command and return its exit code. No stack trace reaches a person unless ``--debug`` asks."""
    program = build()
    asked = completion.answer(program)
    if asked is not None:
        return asked
    context: click.Context | None = None
    try:
        try:
            # The name alone asks what there is.
            context = program.make_context("sapwood", list(arguments) or ["--help"])
            with context:
                code = program.invoke(context)
            sys.stdout.flush()
        except OSError as error:
            # Windows says EINVAL for a pipe that nobody reads any more.
            if not (error.errno == errno.EPIPE or (sys.platform == "win32" and error.errno == errno.EINVAL)):
                raise
            # Whoever read our output (`| head`) has seen enough.
            _discard_stdout()
            return 0
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        return _report(error, context, arguments)


def _report(error: Exception, context: click.Context | None, arguments: Sequence[str]) -> int:
    from agent.cli.output import Output

    # Where the arguments themselves are wrong there is no context to ask.
    output = (
        output_of(context)
        if context is not None
        else Output(as_json="--json" in arguments, debug="--debug" in arguments)
    )
    try:
        return output.error(error)
    except OSError:
        _discard_stdout()
        return 1


def _discard_stdout() -> None:
    # The interpreter flushes once more at its end and would complain.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
