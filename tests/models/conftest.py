"""What the tests of the built-in models share."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.models.builtin.embedding import BuiltinEmbedder
from agent.models.builtin.entities import BuiltinExtractor
from agent.models.builtin.summary import BuiltinSummariser


@pytest.fixture(scope="session")
def embedder() -> BuiltinEmbedder:
    return BuiltinEmbedder()


@pytest.fixture(scope="session")
def summariser() -> BuiltinSummariser:
    return BuiltinSummariser()


@pytest.fixture(scope="session")
def extractor() -> BuiltinExtractor:
    return BuiltinExtractor()


@pytest.fixture(scope="session")
def scifact(test_data: Callable[[str], Path]) -> dict[str, Any]:
    with gzip.open(test_data("scifact/scifact.json.gz"), "rt", encoding="utf-8") as stored:
        found: dict[str, Any] = json.load(stored)
    return found


@pytest.fixture
def fresh_process() -> Callable[[str, str], str]:
    """Return a function that runs Python code in a new process with a hash seed and gives back what it printed."""

    def run(code: str, hash_seed: str = "0") -> str:
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environ, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return done.stdout.decode("utf-8")

    return run
