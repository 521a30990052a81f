"""The first start's three questions: setup."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.actions.setting_up import Questions, Suggestion
    from agent.cli.output import Output
    from agent.paths import Paths


@click.command(
    cls=SapwoodCommand,
    short_help="Three questions for a first start.",
    examples="""
    sapwood setup
    sapwood setup --json        what it would ask about; asks nothing
    """,
)
@click.pass_context
def setup(context: click.Context) -> None:
    """Ask what to remember, which model to use, and whether to start at login. Enter skips a question; Ctrl-C ends,
    and what was answered by then holds.

    Nothing is read before you name it. The answers do what `add`, `model use` and `autostart` do, and can be changed
    with these at any time.
    """
    from agent.actions.home import open_home
    from agent.actions.setting_up import questions
    from agent.errors import UsageFault
    from agent.paths import find_paths

    output = output_of(context)
    paths = find_paths().make()
    if not output.as_json and not sys.stdin.isatty():
        raise UsageFault(
            "setup asks questions, and there is no terminal to ask them on",
            "nothing was changed",
            "`sapwood add PATH`, `sapwood model use NAME` and `sapwood autostart on` do the same without asking",
        )
    with open_home(paths) as home:
        asked = questions(home)
    if output.as_json:
        output.document(asked)
        return
    done: list[str] = []
    try:
        _ask(output, paths, asked, done)
    except (click.Abort, KeyboardInterrupt):
        output.line()
        output.line(f"Ended here. {_held(done)} `sapwood setup` asks again.")
        raise click.Abort from None
    output.line()
    _tell_what_is_next(output, paths)


def _ask(output: Output, paths: Paths, asked: Questions, done: list[str]) -> None:
    output.line("Three questions. Enter skips one, Ctrl-C ends here; what you answered holds.")
    steps: tuple[tuple[str, Callable[[Output, Paths, Questions, list[str]], None]], ...] = (
        ("What to remember", _ask_sources),
        ("Which model makes the summaries", _ask_model),
        ("Start at login", _ask_autostart),
    )
    for number, (title, step) in enumerate(steps, 1):
        output.line()
        output.heading(f"{number} of {len(steps)}  {title}")
        step(output, paths, asked, done)


def _held(done: Sequence[str]) -> str:
    return f"Done so far, and it holds: {', '.join(done)}." if done else "Nothing was changed."


# -- what to remember -------------------------------------------------------------------------------------------------


def _ask_sources(output: Output, paths: Paths, asked: Questions, done: list[str]) -> None:
    open_places = [each for each in asked.suggestions if not each.is_named]
    if not asked.is_first:
        output.line("Some is remembered already: `sapwood sources` lists it. You can name more.")
    how = "Nothing is read until you name it. Name folders, mailboxes or files by their paths"
    output.line(f"{how}, or by these numbers:" if open_places else f"{how}.")
    if open_places:
        rows = [(at, _short(each.path), each.title) for at, each in enumerate(open_places, 1)]
        output.table(("", "place", "what"), rows)
    while True:
        words = _words(output, "Remember" if not done else "More")
        if not words:
            return
        for word in words:
            _add_one(output, paths, word, open_places, done)


def _words(output: Output, question: str) -> list[str]:
    """Return what is answered, taken apart as a shell does; a quote that is not closed is asked about again."""
    while True:
        said: str = click.prompt(f"{question} (Enter goes on)", default="", show_default=False)
        try:
            # On Windows a backslash stands between folders.
            parts = shlex.split(said, posix=sys.platform != "win32")
        except ValueError:
            output.note("a quote is not closed; put a path with spaces into quotes", "")
            continue
        return [part.strip("\"'") for part in parts] if sys.platform == "win32" else parts


def _add_one(output: Output, paths: Paths, word: str, places: Sequence[Suggestion], done: list[str]) -> None:
    from agent.actions.home import open_home
    from agent.actions.sources import AUTO, add
    from agent.cli.sources import tell_added
    from agent.cli.waiting import WaitingLine
    from agent.errors import SapwoodError

    chosen = places[int(word) - 1] if word.isdecimal() and 0 < int(word) <= len(places) else None
    try:
        # The intent has changed with the one before.
        with open_home(paths) as home, WaitingLine() as line:
            found = add(
                home,
                [chosen.path if chosen is not None else word],
                kind=chosen.kind if chosen is not None and chosen.kind != "folder" else AUTO,
                counted=line.counted("looking"),
            )
    except (SapwoodError, OSError) as error:
        output.error(error)
        return
    tell_added(output, found)
    done.append(f"added {found.source_id}")


def _short(path: str) -> str:
    from pathlib import Path

    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


# -- which model ------------------------------------------------------------------------------------------------------


def _ask_model(output: Output, paths: Paths, asked: Questions, done: list[str]) -> None:
    rows = _choices(asked)
    output.table(
        ("", "model", "where", ""),
        [
            (at, title, where, "used now" if is_active else "")
            for at, (_, title, where, is_active) in enumerate(rows, 1)
        ],
    )
    if not asked.local_server.answers:
        output.line("No Ollama answers on this machine; with it, `sapwood setup` lists its models here.", "dim")
    output.line("A cloud's model, or another server: `sapwood model add`.", "dim")
    now = next((at for at, row in enumerate(rows, 1) if row[3]), 0)
    if len(rows) == 1 and now:
        return  # there is nothing to choose
    at = _number(output, f"Use which one (Enter keeps {now})" if now else "Use which one (Enter leaves it)", len(rows))
    if at not in (0, now):
        key, title, _, _ = rows[at - 1]
        _use(output, paths, key, title, done)


def _number(output: Output, question: str, most: int) -> int:
    """Return the number that is answered, 0 for none."""
    while True:
        said: str = click.prompt(question, default="", show_default=False).strip()
        if not said:
            return 0
        if said.isdecimal() and 0 < int(said) <= most:
            return int(said)
        output.note(f"a number from 1 to {most}", "")


def _choices(asked: Questions) -> list[tuple[tuple[str, str], str, str, bool]]:
    """Return what can be chosen: (``profile`` or ``ollama``, its name), title, where it is, whether it is used now."""
    rows = [
        (
            ("profile", each.name),
            f"{each.name}: {each.model}" if each.model else "built in",
            "nothing leaves this machine" if each.where == "here" else _where(each.where, each.address),
            each.active,
        )
        for each in asked.models.profiles
    ]
    named = {each.model for each in asked.models.profiles if each.provider == "ollama" and each.where == "local"}
    rows += [
        (("ollama", model), model, "Ollama on this machine", False)
        for model in asked.local_server.models
        if model not in named
    ]
    return rows


def _where(where: str, address: str) -> str:
    host = address.partition("://")[2].partition("/")[0]
    return f"{where}, {host}"


def _use(output: Output, paths: Paths, key: tuple[str, str], title: str, done: list[str]) -> None:
    from agent.actions.home import open_home
    from agent.actions.setting_up import use_local_model
    from agent.cli.models import use_profile
    from agent.errors import SapwoodError

    try:
        with open_home(paths) as home:
            if key[0] == "profile":
                use_profile(output, home, key[1])
            else:
                used = use_local_model(home, key[1])
                output.line(f"{title} is used from the next job on, as the profile {used.active}")
    except SapwoodError as error:
        output.error(error)
        return
    from agent.config import load_intent

    active = load_intent(paths).intent.models.active
    if key[0] == "ollama" or active == key[1]:
        done.append(f"the model is {title}")


# -- start at login ---------------------------------------------------------------------------------------------------


def _ask_autostart(output: Output, paths: Paths, asked: Questions, done: list[str]) -> None:
    from agent.actions.autostart import set_autostart
    from agent.errors import AgentFault

    is_on = asked.autostart.enabled
    if asked.autostart.problem:
        output.line(asked.autostart.problem)
    answer = click.confirm("Start Sapwood when you log in?", default=is_on)
    if answer == is_on:
        return
    try:
        found = set_autostart(answer, paths)
    except AgentFault as error:
        output.error(error)
        return
    output.line(f"start at login is {'on' if found.enabled else 'off'}: {found.path}")
    if found.problem:
        output.note(found.problem, "bold red")
    done.append(f"start at login is {'on' if found.enabled else 'off'}")


def _tell_what_is_next(output: Output, paths: Paths) -> None:
    from agent.actions.running import is_running
    from agent.config import load_intent

    if not load_intent(paths).intent.sources:
        output.line("Nothing is named to remember yet: `sapwood add PATH`, or `sapwood setup` once more.")
    elif is_running(paths):
        output.line("The agent runs and reads what you named. `sapwood status` says how far it is.")
    else:
        output.line("`sapwood run` starts the agent: it reads what you named, and grows your memory.")
