"""Reading what a server sent: streams of events, and values that have the shape that they should have."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

MAX_LINE_CHARS = 4_000_000


class BrokenOff(Exception):
    """An answer ended before its end."""


class WrongShape(ValueError):
    """What came is no answer of this protocol."""


async def events(response: Any) -> AsyncIterator[tuple[str, Any]]:
    """Yield the events of a stream as (name, JSON); the name is empty where the server gives none.

    Stops at ``[DONE]``, which it yields as ``("done", None)``. Raises ``WrongShape`` for data that is no JSON.
    """
    name, data = "", ""
    async for line in response.aiter_lines():
        if len(line) + len(data) > MAX_LINE_CHARS:
            raise WrongShape("a line without end")
        if not line:
            if data:
                yield name, decoded(data)
            name, data = "", ""
        elif line.startswith("data:"):
            text = line[5:].strip()
            if text == "[DONE]":
                if data:
                    yield name, decoded(data)
                yield "done", None
                return
            # Some servers forget the empty line between events, each of which is one line of JSON.
            if data and _is_whole(data):
                yield name, decoded(data)
                data = ""
            data = f"{data}\n{text}" if data else text
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif line[0] in "{<":
            raise WrongShape("no stream of events")
    if data:
        yield name, decoded(data)


def decoded(text: str | bytes) -> Any:
    """Return JSON as Python values; raises ``WrongShape``."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WrongShape("no JSON") from None


def body_of(text: str) -> object:
    """Return the JSON of an error's body, or its text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; raises ``WrongShape``."""
    if not isinstance(value, Mapping):
        raise WrongShape("no object")
    return value


def items(value: object) -> Sequence[Any]:
    """Return a JSON array; raises ``WrongShape``."""
    if not isinstance(value, list):
        raise WrongShape("no array")
    return value


def text_of(value: object) -> str:
    """Return the text of a message's content: a string, or parts that have one; ``None`` is empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(mapping(part).get("text")) for part in value)
    raise WrongShape("no text")


def count(value: object) -> int | None:
    """Return a number of tokens or bytes, or ``None`` where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return int(value)


def first_count(source: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of several values that is a number above zero."""
    for name in names:
        number = count(source.get(name))
        if number:
            return number
    return None


def vectors(value: object, expected: int) -> list[list[float]]:
    """Return that many vectors of one length; raises ``WrongShape``."""
    rows = [[_number(each) for each in items(row)] for row in items(value)]
    if len(rows) != expected:
        raise WrongShape(f"{len(rows)} vectors for {expected} texts")
    if len({len(row) for row in rows}) > 1 or any(not row for row in rows):
        raise WrongShape("vectors of several lengths")
    return rows


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WrongShape("no number in a vector")
    return float(value)


def _is_whole(data: str) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
