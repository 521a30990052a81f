"""Order: of items among those of their source, of chunks within their item.

Chunks carry integer keys with gaps, so that what comes between two others leaves both where they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.states import SourceKind

GAP = 1 << 20
_TIME_OFFSET = 1 << 62


def item_sort_key(source_kind: SourceKind | str, item_key: str, time_ms: int | None) -> bytes:
    """Return the order of an item in its source, compared as bytes (``tree.md``).

    Documents: by path, a folder's files before its neighbours'. Streams: by time, undated first, then by key.
    """
    key = item_key.encode("utf-8", "surrogatepass")
    if source_kind == SourceKind.DOCUMENT:
        return key.replace(b"/", b"\0")
    moment = 0 if time_ms is None else time_ms + _TIME_OFFSET
    return moment.to_bytes(8, "big") + key


@dataclass(frozen=True, slots=True)
class Ordering:
    """Keys for the chunks of an item's new version, in its order, and which kept chunks got another one."""

    keys: tuple[int, ...]
    moved: frozenset[str]


def assign_order_keys(order: Sequence[str], held: Mapping[str, int]) -> Ordering:
    """Return keys for chunks in this order, given the keys of those that were there before.

    The longest run of kept chunks still in their old order keeps its keys; the others are moved, and what is new or
    moved stands in the gap between its neighbours. Where a gap is exhausted the whole item is numbered anew.
    """
    stay = _longest_rising([held.get(chunk) for chunk in order])
    keys: list[int] = [0] * len(order)
    for place in stay:
        keys[place] = held[order[place]]
    previous_key, at = 0, 0
    anchors = [*stay, len(order)]
    for anchor in anchors:
        missing = anchor - at
        if missing:
            if anchor < len(order):
                room = keys[anchor] - previous_key
                if room <= missing:
                    return _renumbered(order, held)
                step = min(GAP, room // (missing + 1))
                # Close to what comes before, evenly: the gap behind the last one stays the largest.
                step = max(1, step)
            else:
                step = GAP
            for number in range(missing):
                keys[at + number] = previous_key + step * (number + 1)
        if anchor < len(order):
            previous_key, at = keys[anchor], anchor + 1
    moved = frozenset(chunk for chunk, key in zip(order, keys, strict=True) if chunk in held and held[chunk] != key)
    return Ordering(tuple(keys), moved)


def _renumbered(order: Sequence[str], held: Mapping[str, int]) -> Ordering:
    keys = tuple((place + 1) * GAP for place in range(len(order)))
    moved = (chunk for chunk, key in zip(order, keys, strict=True) if chunk in held and held[chunk] != key)
    return Ordering(keys, frozenset(moved))


def _longest_rising(values: Sequence[int | None]) -> list[int]:
    """Return the places of a longest strictly rising subsequence; ``None`` never takes part."""
    tails: list[int] = []
    tail_places: list[int] = []
    before: dict[int, int] = {}
    for place, value in enumerate(values):
        if value is None:
            continue
        at = bisect_left(tails, value)
        if at:
            before[place] = tail_places[at - 1]
        if at == len(tails):
            tails.append(value)
            tail_places.append(place)
        else:
            tails[at] = value
            tail_places[at] = place
    found: list[int] = []
    place_or_none = tail_places[-1] if tail_places else None
    while place_or_none is not None:
        found.append(place_or_none)
        place_or_none = before.get(place_or_none)
    return found[::-1]
