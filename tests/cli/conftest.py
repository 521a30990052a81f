"""Commands run in this process: what they print, and the exit code they would end with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pytest

from agent.actions.demo import SAMPLES
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.cli.program import main
from agent.paths import paths_under
from agent.queue import LocalContext, Registry, drain_until_idle
from agent.tree.flush import close_all_tails, unfinished


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Sapwood = Callable[..., Ran]


@pytest.fixture
def sapwood(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sapwood:
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def widths(text: str) -> list[int]:
    """Return how many columns each line takes: CJK letters take two."""
    return [sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def grown_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped samples, grown in this process; shared by the tests that only look."""
    from agent.worker.kinds import KIND_NAMES

    folder = tmp_path_factory.mktemp("grown")
    with as_file(files("agent.actions").joinpath("samples")) as samples:
        shutil.copytree(samples, folder / "samples")
    paths = paths_under(folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        with open_home(paths) as home:
            for name, kind in SAMPLES:
                add(home, [str(folder / "samples" / name)], kind=kind)
        # The sources stand in the intent now, so it is read again.
        with open_home(paths) as home:
            registry = Registry.load(KIND_NAMES)
            context = LocalContext(home.connection, home.clock, home.intent, paths)
            drain_until_idle(context, registry, flush=close_all_tails)
            assert not unfinished(home.connection)
    return folder / "home"


@pytest.fixture
def grown(grown_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAPWOOD_HOME", str(grown_home))
    return grown_home
