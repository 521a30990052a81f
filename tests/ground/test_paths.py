from __future__ import annotations

import warnings

import pytest

from agent.paths import find_paths


def test_asking_for_the_folders_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker or a command without a runtime directory would print it to whoever started it."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_paths({}).runtime_dir.name
