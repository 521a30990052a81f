"""A garden for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.clock import FakeClock
from agent.db import Connection, Database
from agent.paths import Paths, paths_under
from tests.tree.garden import Garden


@pytest.fixture
def garden(connection: Connection, clock: FakeClock, paths: Paths) -> Garden:
    return Garden(connection, clock, paths)


@pytest.fixture
def new_garden(tmp_path: Path) -> Callable[[str], Garden]:
    """Return a function that makes one more, in a home of its own."""

    def make(name: str) -> Garden:
        paths = paths_under(tmp_path / name).make()
        return Garden(Database(paths.database, None).connection, FakeClock(), paths)

    return make
