"""Commands run in this process: what they print, and the exit code they would end with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.cli.program import main


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
