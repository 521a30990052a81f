"""A planted home is grown once and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.paths import Paths, paths_under
from tests.forget.planted import grow, name_sources, plant


@pytest.fixture(scope="session")
def _grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(root / "home"))
        paths = paths_under(root / "home").make()
        plant(root / "things")
        name_sources(paths, root / "things")
        grow(paths)
    return root


@pytest.fixture
def planted(_grown: Path, tmp_path: Path) -> Paths:
    """Return a grown home of its own, with the word in it; its things lie in ``tmp_path / "things"``."""
    shutil.copytree(_grown, tmp_path, dirs_exist_ok=True)
    paths = paths_under(tmp_path / "home")
    for file in (paths.config_file, paths.last_good_config):
        if file.exists():
            file.write_text(file.read_text().replace(str(_grown), str(tmp_path)))
    return paths
