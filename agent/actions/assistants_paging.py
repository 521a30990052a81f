"""Bounded answers and the cursors that lead on: opaque, nothing is remembered for them, and none fits another question.

A cursor holds where to go on and a check over what was asked. One that was cut short, made up, or handed to another
question is refused in words; one whose ground has changed meanwhile too, so that nothing is left out unsaid.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from agent.errors import UsageFault
from agent.ids import content_id

ANSWER_CHARS = 24_000
"""The longest answer, in characters of its JSON."""
ROOM_CHARS = 22_000
"""What of it the items of a list, or a text, may take: the rest is for what stands around them."""
CHECK_LETTERS = 12
MAX_OFFSET = 1 << 40

Item = TypeVar("Item")


def cursor_at(offset: int, *question: str | int | None) -> str:
    """Return the cursor of a question that goes on at ``offset``."""
    token = f"{offset:x}.{_check(offset, question)}"
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def offset_of(cursor: str | None, *question: str | int | None) -> int:
    """Return where a cursor of this very question goes on; 0 without one. Raises ``UsageFault``."""
    if cursor is None or not cursor.strip():
        return 0
    word = cursor.strip()
    try:
        token = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode("ascii")
        at, _, check = token.partition(".")
        offset = int(at, 16)
    except (ValueError, binascii.Error):
        offset, check = -1, ""
    if not 0 < offset < MAX_OFFSET or check != _check(offset, question):
        raise UsageFault(
            "this cursor does not go on here",
            "it is of another question, was cut short, or what it goes through has changed since",
            "ask the same again without a cursor",
        )
    return offset


def _check(offset: int, question: Iterable[str | int | None]) -> str:
    parts = [f"{type(part).__name__}:{part}" for part in question]
    return content_id("cursor", offset, *parts)[:CHECK_LETTERS]


def size_of(value: Any) -> int:
    """Return how many characters a value takes as JSON."""
    import msgspec

    return len(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(", ", ": ")))


def fill(items: Iterable[Callable[[int], Item]], room: int = ROOM_CHARS) -> tuple[Item, ...]:
    """Return as many items as there is room for, at least one where there is one.

    An item is made by a function of the characters that its text may take; the first one that does not fit is made
    smaller until it does.
    """
    found: list[Item] = []
    left = room
    for make in items:
        item = make(left)
        size = size_of(item)
        if size > left:
            if found:
                break
            text = left
            while size > left and text > 1:
                text //= 2
                item = make(text)
                size = size_of(item)
        found.append(item)
        left -= size + 2
        if left <= 0:
            break
    return tuple(found)


def fitting(text: str, room: int = ROOM_CHARS) -> int:
    """Return how many characters of a text fit into so many characters of JSON; at least one of a text."""
    if len(json.dumps(text[:room], ensure_ascii=False)) <= room + 2:
        return min(len(text), room)
    low, high = 1, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[:middle], ensure_ascii=False)) <= room + 2:
            low = middle
        else:
            high = middle - 1
    return low


def cut(text: str | None, width: int) -> str | None:
    """Return a text of at most so many characters, its end marked where it was cut."""
    if text is None or len(text) <= width:
        return text
    return text[: width - 1] + "…"
