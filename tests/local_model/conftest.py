"""A home whose active profile is a real small model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config_edit import edit_intent
from agent.paths import Paths
from tests.local_model.server import CONTEXT_TOKENS, MISSING, MODEL, WHY_NOT, LocalServer, local_server


@pytest.fixture
def model() -> Iterator[LocalServer]:
    if MISSING:
        pytest.skip(WHY_NOT)
    with local_server() as server:
        yield server


@pytest.fixture
def choose(paths: Paths) -> Callable[..., None]:
    """Return a function that makes a real model the active profile of this home."""

    def choose(server: LocalServer, **more: Any) -> None:
        profile = {
            "name": "small",
            "provider": "openai",
            "chat_model": MODEL,
            "base_url": f"{server.address}/v1",
            "max_output_tokens": 150,
            "context_tokens": CONTEXT_TOKENS,
            **more,
        }

        def write(document: Any) -> None:
            document["models"] = {"active": "small"}
            document["profiles"] = [profile]

        edit_intent(paths, write)

    return choose


WORDS = (
    "The greenhouse needs a new pump before the frost. Ada Quillfeather said on Tuesday that the old one leaks.",
    "We agreed to buy the larger pump for 240 euros; Bram Oddsson brings it on 3 May and Ada installs it.",
    "The tomatoes in the second row have blight. Nobody waters them from above any more, and the leaves go.",
    "In the meeting of the garden club the fee was raised to 35 euros a year, from January on.",
)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return a folder of notes long enough for summaries that a model has to make."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(1):
        parts = [f"# Log {number}"]
        for part in range(6):
            said = [f"{words} This is entry {number}.{part}.{at}." for at, words in enumerate(WORDS * 2)]
            parts += [f"## Week {part}", *said]
        (folder / f"log{number}.md").write_text("\n\n".join(parts), "utf-8")
    return folder
