"""Nobody has to guess: every command explains itself, and the README knows every command and no other."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from agent.cli.command import SapwoodCommand
from agent.cli.program import COMMANDS, build
from tests.cli.conftest import Sapwood

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
TABLE = dict(re.findall(r"^\| `sapwood ([a-z-]+)([^`]*)` \|", README, re.MULTILINE))
NAMES = sorted(build().commands)


def command(name: str) -> SapwoodCommand:
    found = build().commands[name]
    assert isinstance(found, SapwoodCommand)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_command_has_help_with_examples(name: str, sapwood: Sapwood) -> None:
    ran = sapwood(name, "--help")
    assert ran.code == 0
    assert command(name).help
    assert command(name).short_help
    examples = ran.out.partition("Examples:\n")[2].splitlines()
    assert examples
    assert all(line.startswith(f"  sapwood {name}") for line in examples)
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_help(name: str) -> None:
    options = [each for each in command(name).params if isinstance(each, click.Option)]
    assert not [option.name for option in options if not option.help]


@pytest.mark.parametrize("name", NAMES)
def test_readme_documents_command_with_its_options(name: str) -> None:
    assert name in TABLE, f"the README's table of commands lacks `sapwood {name}`"
    for each in command(name).params:
        if isinstance(each, click.Option) and not each.hidden and each.name not in ("json", "debug"):
            assert any(word in TABLE[name] for word in each.opts), f"the README's `sapwood {name}` lacks {each.opts}"


def test_readme_promises_no_command_that_is_not_built() -> None:
    assert set(TABLE) <= set(NAMES)
    assert set(re.findall(r"`sapwood ([a-z-]+)", README)) - {"run", "demo"} <= set(NAMES)


def test_help_lists_every_command_under_a_topic(sapwood: Sapwood) -> None:
    ran = sapwood("--help")
    listed = [each.name for _, commands in COMMANDS for each in commands]
    assert sorted(listed) == NAMES
    for name in NAMES:
        assert re.search(rf"^  {name} ", ran.out, re.MULTILINE)
    assert max(map(len, ran.out.splitlines())) <= 80


def test_the_name_alone_shows_the_help(sapwood: Sapwood) -> None:
    assert sapwood() == sapwood("--help")


def test_help_fits_a_screen(sapwood: Sapwood) -> None:
    lines = sapwood("--help").out.splitlines()
    # Each command takes one line, each topic two, and the rest is short.
    topics = sum(bool(commands) for _, commands in COMMANDS)
    assert len(lines) <= len(NAMES) + 2 * topics + 14
    assert len(lines) <= 66


def test_entry_module_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, agent.cli.main\n"
        "heavy = {'click', 'rich', 'numpy', 'apsw', 'tomlkit', 'msgspec', 'agent.cli.program'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr


def test_help_needs_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from agent.cli.program import main\n"
        "main(['--help'])\n"
        "heavy = {'rich', 'numpy', 'apsw', 'tomlkit', 'msgspec', 'psutil'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
