"""The man page, made from the commands themselves: ``python -m agent.cli.manual > packaging/sapwood.1``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import click

from agent.cli.command import SETTINGS, SapwoodCommand
from agent.cli.program import COMMANDS, Program, build

_ENVIRONMENT = (
    ("SAPWOOD_HOME", "One folder for settings, memory, logs and runtime files, in the place of the four below."),
    ("SAPWOOD_<SECTION>__<KEY>", "Beats a setting of the file, as in SAPWOOD_POOL__MAX_WORKERS=2."),
    ("VISUAL, EDITOR", "What `sapwood config edit` opens."),
)
_FILES = (
    ("~/.config/sapwood", "config.toml (your settings), the inbox, and the ledger of what was forgotten."),
    ("~/.local/share/sapwood", "chunks.db, the memory."),
    ("~/.local/state/sapwood/log", "Logs, without any content."),
    ("$XDG_RUNTIME_DIR/sapwood", "Addresses and locks of the running agent."),
)
_STATUS = (
    ("0", "Done."),
    ("1", "Failed; the message says what to do next."),
    ("2", "Wrong usage."),
    ("3", "The agent is needed and does not run."),
    ("130", "Interrupted."),
)


def manual() -> str:
    """Return the man page as roff, the same for the same commands."""
    return "\n".join(_lines(build())) + "\n"


def _lines(program: Program) -> Iterator[str]:
    # No date and no version: the page changes when the commands do.
    yield '.TH SAPWOOD 1 "" Sapwood "User Commands"'
    yield ".SH NAME"
    yield r"sapwood \- grow a private, searchable memory tree out of folders, mail and chats"
    yield ".SH SYNOPSIS"
    yield r".B sapwood"
    yield r".RI [ option \|.\|.\|.]"
    yield r".I command"
    yield r".RI [ argument \|.\|.\|.]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(program.help or "")
    yield ".PP"
    yield from _paragraphs(
        "All work is done in the background by the agent (`sapwood run`). Every other command works whether or not it "
        "runs, unless it says otherwise."
    )
    yield ".SH OPTIONS"
    yield "Understood before the name of a command and after it."
    for parameter in program.get_params(click.Context(program, info_name="sapwood", **SETTINGS)):
        if isinstance(parameter, click.Option):
            yield from _option(parameter)
    yield ".SH COMMANDS"
    for topic, commands in COMMANDS:
        if commands:
            yield f".SS {_text(topic)}"
            for command in commands:
                yield from _command(command)
    yield from _table("EXIT STATUS", _STATUS)
    yield from _table("ENVIRONMENT", _ENVIRONMENT)
    yield from _table("FILES", _FILES)


def _command(command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=click.Context(click.Group(), info_name="sapwood"))
    yield ".TP"
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    yield rf"\fBsapwood {_text(command.name or '')}\fR {_text(usage)}".rstrip()
    yield from _paragraphs(command.help or "", between=".IP")
    own = [
        each
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and each.name not in ("json", "debug")
    ]
    if own:
        yield ".RS"
        for option in own:
            yield from _option(option)
        yield ".RE"
    if isinstance(command, SapwoodCommand) and command.examples.strip():
        yield ".IP"
        yield "Examples:"
        yield ".RS"
        yield ".PP"
        yield ".nf"
        yield from (_text(line.strip()) for line in command.examples.strip().splitlines())
        yield ".fi"
        yield ".RE"


def _option(option: click.Option) -> Iterator[str]:
    yield ".TP"
    takes = "" if option.is_flag else f" \\fI{_text(option.metavar or (option.name or '').upper())}\\fR"
    yield ", ".join(rf"\fB{_text(word)}\fR{takes}" for word in option.opts)
    yield from _paragraphs(option.help or "")


def _table(title: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for name, meaning in rows:
        yield ".TP"
        yield rf"\fB{_text(name)}\fR"
        yield from _paragraphs(meaning)


def _paragraphs(text: str, between: str = ".PP") -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield between
        words = _text(" ".join(paragraph.split()))
        # A command within a sentence stands out, as code does elsewhere.
        yield re.sub(r"`([^`]+)`", r"\\fB\1\\fR", words)


def _text(text: str) -> str:
    """Return a text that roff prints as it is."""
    plain = (
        text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("~", r"\(ti").replace("^", r"\(ha")
    )
    plain = plain.replace("…", r"\|.\|.\|.").replace('"', r"\(dq")
    return rf"\&{plain}" if plain.startswith(".") else plain


if __name__ == "__main__":
    sys.stdout.write(manual())
