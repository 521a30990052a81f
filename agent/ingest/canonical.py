"""The canonical form: what every reader's items become before they are cut.

Three shapes: a document keeps its own lines (a chunk's text is the source's text of that place), a mail is its cleaned
body under its addresses, a chat is one line a turn. Secrets are masked here, so nothing behind this sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.ids import stable_number
from agent.states import SourceKind

DAY_MS = 86_400_000
HEADING_SEPARATOR = " › "


class BlockKind(StrEnum):
    """What a block of text is; decides how it may be split and whether it counts as its author's own words."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    CODE = "code"
    ADDRESSES = "addresses"  # From, To and Cc of a mail
    QUOTE = "quote"  # what somebody else wrote before, in a mail
    SIGNATURE = "signature"
    ATTACHMENT = "attachment"
    TURN = "turn"
    EVENT = "event"  # a join, a change of name: part of a chat, but nobody's words


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of whole lines. ``line`` and ``end_line`` are 1-based, in ``lines`` of its section."""

    kind: BlockKind
    line: int
    end_line: int
    level: int = 0  # of a heading: 1 is the highest
    heading_path: str | None = None
    section: str = ""  # the headings of level 1 and 2 it stands under
    time_ms: int | None = None
    author: str | None = None
    reference: str | None = None
    place: int = 0  # of a chat: which of the section's places the line stands in
    place_line: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together (a document, one mail, a chat's day) and what they have in common.

    ``places`` are the locators' beginnings, one for each file; blocks point into them. A cut always stands between two
    sections. ``spans``: where the lines were converted, the first and the last line of the file that each comes from.
    """

    lines: Sequence[str]
    blocks: Sequence[Block]
    places: Sequence[dict[str, Any]]
    title: str | None = None
    time_ms: int | None = None
    author: str | None = None
    reference: str | None = None
    spans: Sequence[tuple[int, int]] | None = None
    scope: str = ""  # what the break key of a stream is made of: the thread or the conversation


@dataclass(frozen=True, slots=True)
class CanonicalItem:
    """One item as the memory keeps it. ``content_hash`` is that of what was read (compare with ``seen_hash``).

    ``masked`` is how many secrets were masked in it.
    """

    source_kind: SourceKind
    item_key: str
    title: str | None
    time_ms: int | None
    content_hash: str
    sections: tuple[Section, ...] = field(default=())
    masked: int = 0


def break_key(source_kind: SourceKind, section: Section, block: Block, time_ms: int | None) -> int:
    """Return the number that changes where a natural break is: section of level ≤ 2, thread and day, or day.

    Days are UTC here: the zone of the intent may change, the shape of a tree may not.
    """
    if source_kind is SourceKind.DOCUMENT:
        return stable_number("section", block.section)
    day = "undated" if time_ms is None else time_ms // DAY_MS
    return stable_number(str(source_kind), section.scope, day)
