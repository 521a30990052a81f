"""A home with time that moves when told to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.actions.home import Home, open_home
from agent.clock import FakeClock
from agent.paths import Paths


@pytest.fixture
def home(paths: Paths, clock: FakeClock) -> Iterator[Home]:
    with open_home(paths, clock=clock) as home:
        yield home
