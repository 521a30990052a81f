"""Commands about the owner's intent and what it costs: config, usage."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.command import SapwoodCommand, output_of
from agent.clock import iso

if TYPE_CHECKING:
    from agent.actions.settings import Settings
    from agent.actions.usage import Usage
    from agent.cli.output import Output
    from agent.paths import Paths

ACTIONS = ("get", "set", "path", "edit")
EDITORS = ("notepad",) if sys.platform == "win32" else ("nano", "vim", "vi")


def _keys(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from agent.actions.settings import keys
    from agent.cli.completion import intent_here

    return [key for key in keys(intent_here()) if key.startswith(incomplete)]


@click.command(
    cls=SapwoodCommand,
    short_help="Your settings: look, change, edit.",
    examples="""
    sapwood config
    sapwood config get pool.max_workers
    sapwood config set pool.max_workers 2
    sapwood config set sources.notes.exclude 'drafts/*' '*.bak'
    sapwood config set sources.notes.exclude --default
    sapwood config edit
    """,
)
@click.argument("action", metavar="[get|set|path|edit]", type=click.Choice(ACTIONS), required=False)
@click.argument("key", required=False, shell_complete=_keys)
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("--default", "default", is_flag=True, help="With `set`: take the value out, so that the default holds.")
@click.pass_context
def config(context: click.Context, action: str | None, key: str | None, values: tuple[str, ...], default: bool) -> None:
    """Show or change the settings in config.toml. Alone it prints all of them and where each comes from: the default,
    the file, or the environment, which beats the file.

    A KEY is section.key, or sources.ID.key. A list takes one word for each entry. `edit` opens $VISUAL or $EDITOR on a
    copy, and only a text that can be read takes the file's place. Your comments stay.
    """
    from agent.actions.settings import settings
    from agent.paths import find_paths

    _refuse_odd(action, key, values, default)
    output = output_of(context)
    paths = find_paths()
    if action == "path":
        if output.as_json:
            output.document(str(paths.config_file))
        else:
            output.verbatim_whole(str(paths.config_file))
    elif action == "edit":
        _edit(output, paths)
    elif action == "set":
        _set(output, paths, key or "", values, default)
    else:
        found = settings(paths)
        if output.as_json:
            output.document(found if key is None else found.value(key))
        elif key is None:
            _print_all(output, found)
        else:
            _print_value(output, found.value(key))
        _tell_problem(output, found)


def _refuse_odd(action: str | None, key: str | None, values: tuple[str, ...], default: bool) -> None:
    if action == "set":
        if key is None:
            raise click.UsageError("say which setting, and what it is to be: set KEY VALUE")
        if default == bool(values):
            raise click.UsageError("give a value, or say --default" + (", not both" if default else ""))
    elif default:
        raise click.UsageError("--default goes with `set KEY`")
    elif key is not None and action != "get":
        raise click.UsageError(f"`{action}` takes no more words")
    elif values:
        raise click.UsageError(f"`get` takes one KEY; to change it: set {key} VALUE")


def _print_all(output: Output, found: Settings) -> None:
    from agent.cli.output import one_line

    output.table(
        ("setting", "value", "from"),
        [(each.key, one_line(shown(each.value), 400), each.origin) for each in found.values],
    )
    output.line()
    output.line(f"in {found.path}", "dim")


def _tell_problem(output: Output, found: Settings) -> None:
    if found.problem is not None:
        output.note(f"config.toml cannot be read, this is its last good copy: {found.problem}", "")
        output.note("mend it with `sapwood config edit`", "")
    for key in found.unknown:
        from agent.actions.settings import nearest

        near = nearest(key, found.intent)
        meant = f"; did you mean {near[0]}?" if near else ""
        output.note(f"{key} is in the file but is no setting, so it changes nothing{meant}", "")


def _print_value(output: Output, value: Any) -> None:
    if isinstance(value, dict):
        output.facts([(name, shown(item)) for name, item in value.items()])
    elif isinstance(value, list):
        for item in value:
            output.verbatim_whole(item if isinstance(item, str) else shown(item))
    else:
        output.verbatim_whole(value if isinstance(value, str) else shown(value))


def shown(value: Any) -> str:
    """Return a value as it is written in ``config.toml``; nothing for one that is not there."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False)


def _set(output: Output, paths: Paths, key: str, values: tuple[str, ...], default: bool) -> None:
    from agent.actions.settings import change, reset

    found = reset(paths, key) if default else change(paths, key, values)
    if output.as_json:
        output.document(found)
        return
    said = " (the default)" if found.origin == "default" else ""
    output.line(f"{key} is {shown(found.value) or 'not set'}{said}")
    if found.overridden_by:
        output.note(f"the file is changed, but {found.overridden_by} in the environment beats it; unset that", "")


def _edit(output: Output, paths: Paths) -> None:
    from agent.actions.damaged import ask_agent
    from agent.actions.settings import whole_text
    from agent.config_edit import replace_intent

    before = whole_text(paths)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with tempfile.TemporaryDirectory(prefix="sapwood-") as folder:
        copy = Path(folder) / "config.toml"
        copy.write_text(before, "utf-8")
        after = edited(lambda: _run_editor(copy), (lambda problem: _ask(output, problem)) if terminal else None)
    changed = after != before
    if changed:
        replace_intent(paths, after, was=before)
        ask_agent(paths, "look")
    if output.as_json:
        output.document({"path": str(paths.config_file), "changed": changed})
    else:
        output.line("the settings are changed" if changed else "nothing was changed")


def edited(edit: Callable[[], str], go_on: Callable[[str], bool] | None) -> str:
    """Return a text that can be read: ``edit`` again while it cannot and ``go_on`` says so.

    Raises ``ConfigBroken`` with the line otherwise.
    """
    from agent.actions.settings import problem_in
    from agent.errors import ConfigBroken

    while True:
        text = edit()
        problem = problem_in(text)
        if problem is None:
            return text
        if go_on is None or not go_on(problem):
            raise ConfigBroken(
                "what was written cannot be read as settings",
                problem,
                "config.toml is as it was; try again with `sapwood config edit`",
            )


def _ask(output: Output, problem: str) -> bool:
    output.note(f"error: {problem}", "bold red")
    return click.confirm("Go on editing? (n leaves config.toml as it was)", default=True, err=True)


def _run_editor(copy: Path) -> str:
    from agent.errors import AgentFault
    from agent.launch import run_in_terminal

    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(filter(shutil.which, EDITORS), "")
    argv = shlex.split(words, posix=sys.platform != "win32")
    if not argv:
        raise AgentFault(
            "there is no editor to open", "neither $VISUAL nor $EDITOR is set", "set one, as in EDITOR=nano"
        )
    try:
        code = run_in_terminal([*argv, str(copy)])
    except OSError as error:
        raise AgentFault(
            f"the editor cannot be started: {argv[0]}",
            error.strerror or str(error),
            "set $VISUAL or $EDITOR to another",
        ) from error
    if code != 0:
        raise AgentFault(f"the editor ended with {code}", "nothing was changed", "try again with `sapwood config edit`")
    return copy.read_text("utf-8", errors="replace")


@click.command(
    cls=SapwoodCommand,
    short_help="What was sent to models, and its cost.",
    examples="""
    sapwood usage
    sapwood usage --days 7
    """,
)
@click.option(
    "--days", type=click.IntRange(1, 3660), default=30, show_default=True, metavar="N", help="The last so many days."
)
@click.pass_context
def usage(context: click.Context, days: int) -> None:
    """Say how much was sent to models and what it is estimated to have cost, by profile and kind of work, at the prices
    that the profile named when it was sent. The built-in profile is part of the program: it sends nothing and costs
    nothing.
    """
    from agent.actions.usage import usage as look

    output = output_of(context)
    found = look(days)
    if output.as_json:
        output.document(found)
        return
    span = "day" if days == 1 else f"{days} days"
    if found.rows:
        _print_usage(output, found)
    else:
        output.line(f"Nothing was sent to any model and nothing was spent in the last {span}.")
        output.line("The built-in profile works inside this program.", "dim")
    for limit in found.limits:
        resumes = f"; it goes on at {iso(limit.resumes_ms)}" if limit.resumes_ms is not None else ""
        output.line(f"{limit.profile} today: {limit.used:,} of {limit.limit:,} tokens{resumes}")


def _print_usage(output: Output, found: Usage) -> None:
    several = len({(row.profile, row.kind) for row in found.rows}) < len(found.rows)
    columns = ("profile", "kind", "calls", "tokens in", "tokens out", "about US$")
    output.table(
        columns,
        [
            (
                f"{row.profile} ({row.model})" if several else row.profile,
                *(row.kind, f"{row.calls:,}", f"{row.tokens_in:,}", f"{row.tokens_out:,}", f"{row.cost_usd:.2f}"),
            )
            for row in found.rows
        ],
        numbers=columns[2:],
    )
    total = found.total
    output.line()
    output.line(
        f"{total.calls:,} calls, {total.tokens_in:,} tokens in and {total.tokens_out:,} out, about US$"
        f" {total.cost_usd:.2f}"
    )
    if found.per_thousand is not None:
        each = found.per_thousand
        output.line(f"{each.calls:,} calls and {each.tokens:,} tokens for 1,000 chunks")
    if total.invalid:
        words = "1 answer was of no use" if total.invalid == 1 else f"{total.invalid:,} answers were of no use"
        output.line(f"{words}, and paid for all the same", "dim")
    if total.estimated:
        output.line(f"the tokens of {total.estimated:,} calls are estimates: the server did not count them", "dim")
