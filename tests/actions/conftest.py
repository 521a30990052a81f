"""A home with time that moves when told to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actions.home import Home, open_home
from agent.clock import FakeClock
from agent.paths import Paths, paths_under
from tests.actions.deep_home import grow, home_in


@pytest.fixture
def home(paths: Paths, clock: FakeClock) -> Iterator[Home]:
    with open_home(paths, clock=clock) as home:
        yield home


@pytest.fixture(scope="session")
def sound_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with everything in it, grown to its end; shared: tests work on copies."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        with home_in(folder, notes=6, mails=36) as paths:
            grow(paths)
    return folder / "home"


@pytest.fixture
def copy(sound_home: Path, tmp_path: Path) -> Paths:
    """The sound home once more, for one test to break."""
    shutil.copytree(sound_home, tmp_path / "home", dirs_exist_ok=True)
    return paths_under(tmp_path / "home")
