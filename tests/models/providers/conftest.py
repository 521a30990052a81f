"""Each test meets servers that nobody has spoken to yet, from an environment that names none."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agent.models.providers.dialect import forget_dialects


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "ANTHROPIC_", "OLLAMA_")):
            monkeypatch.delenv(name)
    forget_dialects()
    yield
    forget_dialects()
