"""A model server of the test's own, and homes that grow through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.paths import Paths
from tests.models.pipeline.growing import Growing, growing
from tests.scripted import Serving, serving


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@pytest.fixture
def grow_with(server: Serving, paths: Paths, tmp_path: Path) -> Iterator[Callable[..., Growing]]:
    """Return a function that opens the home with a provider's profile, fields of which may be given."""
    with ExitStack() as stack:

        def open_home(provider: str, **profile: Any) -> Growing:
            return stack.enter_context(growing(provider, server, paths, tmp_path / "owner", **profile))

        yield open_home
