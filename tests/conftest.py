"""What every room's tests share: homes that are thrown away, a database, time that moves when told to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.clock import FakeClock
from agent.db import Connection, Database
from agent.paths import Paths, paths_under

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test can touch the memory of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("SAPWOOD_") and name != "SAPWOOD_TEST_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    # Nor does it wait because the machine runs on battery, or is busy with other tests.
    monkeypatch.setenv("SAPWOOD_POWER__ENABLED", "false")
    # Nor shows an icon on the desktop of whoever runs the tests.
    monkeypatch.setenv("SAPWOOD_DESKTOP__TRAY", "false")
    # Nor speaks to them, nor starts anything at their login.
    monkeypatch.setenv("SAPWOOD_DESKTOP__NOTIFICATIONS", "false")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    # Nor asks their keyring.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_under(tmp_path / "home").make()


@pytest.fixture
def database(paths: Paths) -> Iterator[Database]:
    database = Database(paths.database, paths.write_turn)
    yield database
    database.close()


@pytest.fixture
def connection(database: Database) -> Connection:
    return database.connection


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def test_data() -> Callable[[str], Path]:
    """Return a function from a name to the path of real test data; it skips, saying so, where that is absent."""
    root = Path(os.environ.get("SAPWOOD_TEST_DATA", REPOSITORY.parent / "shared" / "data"))

    def find(name: str) -> Path:
        path = root / name
        if not path.exists():
            pytest.skip(f"no test data at {path}: set SAPWOOD_TEST_DATA to the folder that has it")
        return path

    return find


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return a function that polls a condition until it holds, and fails at a deadline."""

    def wait(condition: Callable[[], object], deadline_s: float = 10.0, what: str = "the condition") -> None:
        end = time.monotonic() + deadline_s
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"{what} did not come true in {deadline_s} s")
            time.sleep(0.005)

    return wait
