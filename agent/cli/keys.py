"""Commands about keys of model accounts: key."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.keys import KeyPlace, KeyStatus
    from agent.cli.output import Output
    from agent.paths import Paths

ACTIONS = ("set", "remove", "status")
MOST_READ = 20_000


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from agent.actions.keys import known_names
    from agent.cli.completion import intent_here
    from agent.paths import find_paths

    return [name for name in known_names(find_paths(), intent_here()) if name.startswith(incomplete)]


@click.command(
    cls=SapwoodCommand,
    short_help="Keys of model accounts: set, remove, look.",
    examples="""
    sapwood key status
    sapwood key set openai
    sapwood key set openrouter.ai < key.txt
    sapwood key remove openai
    """,
)
@click.argument("action", metavar="set|remove|status", type=click.Choice(ACTIONS))
@click.argument("name", metavar="[PROVIDER]", required=False, shell_complete=_names)
@click.argument("rest", metavar="", nargs=-1)
@click.option("--in-file", is_flag=True, help="With `set`: keep it as plain text in a file that only you can read.")
@click.pass_context
def key(context: click.Context, action: str, name: str | None, rest: tuple[str, ...], in_file: bool) -> None:
    """Store, remove or look for the keys of model accounts. PROVIDER is the name that a profile wants: openai,
    anthropic, or the host of its address.

    `set` asks for the key without showing it, or reads one line from a pipe; it is never an argument. It goes into the
    keyring of your login. No command shows a key again. Variables such as OPENAI_API_KEY are not read.
    """
    from agent.paths import find_paths

    _refuse_odd(action, name, rest, in_file)
    output = output_of(context)
    paths = find_paths().make()
    if action == "set":
        _set(output, paths, name or "", in_file)
    elif action == "remove":
        _remove(output, paths, name or "")
    else:
        _status(output, paths, name)


def _refuse_odd(action: str, name: str | None, rest: tuple[str, ...], in_file: bool) -> None:
    from agent.actions.keys import not_an_argument

    if rest and action == "set":
        raise not_an_argument()
    if rest:
        raise click.UsageError(f"`{action}` takes one PROVIDER")
    if name is None and action != "status":
        raise click.UsageError(f"say whose key: {action} PROVIDER")
    if in_file and action != "set":
        raise click.UsageError("--in-file goes with `set`")


def _set(output: Output, paths: Paths, name: str, in_file: bool) -> None:
    from agent.actions.keys import FILE, checked_name, set_key

    name = checked_name(name)
    if in_file:
        output.note(
            f"The key will stand in {paths.config_dir / 'keys.json'} as plain text. Only your own account can read the "
            "file, but whatever runs as you can too, and backups and copies of the folder carry the key along. "
            "`sapwood key remove` takes it out again.",
            "",
        )
    found = set_key(paths, name, _read(name), in_file=in_file)
    if output.as_json:
        output.document(found)
        return
    where = "in keys.json, in plain text" if found.place == FILE else "in the keyring"
    users = f", for {', '.join(found.profiles)}" if found.profiles else ""
    output.line(f"the key {name} is {where}{users}")
    if found.requeued:
        jobs = "1 job that lacked it is" if found.requeued == 1 else f"{found.requeued} jobs that lacked it are"
        output.line(f"{jobs} tried again")
    if found.notice:
        output.note(found.notice, "")


def _read(name: str) -> str:
    """Return what was typed unseen on a terminal, or the first line of a pipe. Raises ``UsageFault``."""
    import getpass

    from agent.errors import UsageFault

    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline(MOST_READ).decode("utf-8", "replace")
    with warnings.catch_warnings():
        # It would go on and show what is typed.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"Key for {name} (it is not shown): ")
        except getpass.GetPassWarning:
            fault = UsageFault(
                "this terminal would show the key", "nothing was read", f"pipe it in: `sapwood key set {name} < FILE`"
            )
        except EOFError:
            return ""
    raise fault


def _remove(output: Output, paths: Paths, name: str) -> None:
    from agent.actions.keys import FILE, remove_key

    found = remove_key(paths, name)
    if output.as_json:
        output.document(found)
        return
    places = " and ".join("keys.json" if place == FILE else "the keyring" for place in found.places)
    output.line(f"the key {name} is out of {places}" if places else f"there is no key {name}")
    if found.notice:
        output.note(found.notice, "")


def _status(output: Output, paths: Paths, name: str | None) -> None:
    from agent.actions.keys import key_status

    found = key_status(paths, name)
    if output.as_json:
        output.document(found)
        return
    if found.keys:
        output.table(
            ("key", "where", "for"), [(each.name, _words(each), ", ".join(each.profiles)) for each in found.keys]
        )
    else:
        output.line("No key is stored, and no profile wants one.")
    _tell(output, found)


def _words(key: KeyPlace) -> str:
    from agent.actions.keys import FILE

    if key.place is not None:
        return "keys.json, in plain text" if key.place == FILE else "the keyring"
    return key.state.replace("_", " ") if key.state == "missing" else f"not known: {key.state.replace('_', ' ')}"


def _tell(output: Output, found: KeyStatus) -> None:
    from agent.models.keys import HINTS

    if found.file_problem:
        output.note(f"{found.file_problem}: it is not used", "bold red")
        output.note(found.file_hint, "")
    if found.ring.reason:
        output.note(found.ring.reason, "")
        output.note(HINTS.get(found.ring.state, ""), "")
    missing = [each.name for each in found.keys if each.is_missing]
    if missing:
        output.note(" ".join(f"`sapwood key set {name}`" for name in missing) + " asks for what is missing", "")
