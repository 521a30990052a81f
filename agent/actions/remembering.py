"""``sapwood remember``: a note goes to the inbox first, and from there into the memory like anything that is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import AgentFault, UsageFault

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.ingest.push import DocumentContent

REMEMBERED = "remembered"
"""The source that notes are kept in; it is named in the intent with the first one."""

TITLE_LENGTH = 60


@dataclass(frozen=True)
class Remembered:
    """A note that is on the disk."""

    source_id: str
    item_key: str


def remember(home: Home, text: str, *, title: str | None = None) -> Remembered:
    """Keep a note: written and fsynced before this returns, whether or not the agent runs. The same note is one item.

    Raises ``UsageFault`` for an empty text, ``AgentFault`` for words that were forgotten (they would be left out again,
    but lie in the inbox), ``OSError`` where the disk does not take it: then nothing was kept.
    """
    from agent.actions.assistants_push import take_in
    from agent.ingest.push import DocumentContent

    if not text.strip():
        raise UsageFault("there is nothing to remember", "", 'say some words: `sapwood remember "The spare key …"`')
    heading = title.strip() if title is not None and title.strip() else None
    content = DocumentContent(text, heading or _first_words(text), time_ms=home.clock.now_ms(), key=_key(heading, text))
    _refuse_forgotten(home, content)
    pushed = take_in(home, REMEMBERED, content, name=REMEMBERED)
    return Remembered(REMEMBERED, pushed.item_keys[0])


def _refuse_forgotten(home: Home, content: DocumentContent) -> None:
    from agent.ingest.forgotten import text_left
    from agent.ledger import read_ledger
    from agent.states import SourceKind

    ledger, key = read_ledger(home.paths), str(content.key)
    left = text_left(ledger, REMEMBERED, key, content.text, SourceKind.DOCUMENT)
    if ledger.forgets_item(REMEMBERED, key) or left is None:
        raise AgentFault(
            "you had these very words forgotten",
            "what was forgotten is not read again, so nothing was kept",
            "say it in other words",
        )


def _key(title: str | None, text: str) -> str:
    """Return a key made of the words alone: the same note twice is one item, whenever it is said."""
    from agent.ids import content_id

    return content_id("note", title or "", text)


def _first_words(text: str) -> str:
    """Return what a note without a title is called: the beginning of its first line."""
    line = next(line for line in text.splitlines() if line.strip())
    words = " ".join(line.split())
    return words if len(words) <= TITLE_LENGTH else words[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"
