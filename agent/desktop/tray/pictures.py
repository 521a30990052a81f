"""Which icon says what, and its pixels out of the sheets beside ``agent/desktop/icons``.

A sheet holds all states of one look, a row each, in four sizes side by side. ``icons/make.py`` draws it, as a PNG whose
rows are not filtered, so that the pixels are read here by ``zlib`` alone: the tray has no room for an image library.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from agent.states import AgentState

if TYPE_CHECKING:
    from agent.actions.glance import Glance

SIZES = (64, 32, 22, 16)
"""In pixels, from left to right in a sheet."""
STEPS = 8
"""Of progress while growing."""


class Look(StrEnum):
    """What an icon is drawn for."""

    LIGHT = "light"  # a light panel: dark ink
    DARK = "dark"  # a dark panel: light ink
    TEMPLATE = "template"  # macOS: black, and the system inks it


class Picture(StrEnum):
    """The rows of a sheet, from the top; those of growing say how many eighths are grown."""

    IDLE = "idle"
    GROWING_0 = "growing-0"
    GROWING_1 = "growing-1"
    GROWING_2 = "growing-2"
    GROWING_3 = "growing-3"
    GROWING_4 = "growing-4"
    GROWING_5 = "growing-5"
    GROWING_6 = "growing-6"
    GROWING_7 = "growing-7"
    PAUSED = "paused"
    ATTENTION = "attention"
    ERROR = "error"
    OFFLINE = "offline"


@dataclass(frozen=True)
class Pixels:
    """A square picture: ``rgba`` is row by row, four bytes a pixel."""

    size: int
    rgba: bytes

    @property
    def argb(self) -> bytes:
        """The same in the order that a StatusNotifierItem takes."""
        turned = bytearray(len(self.rgba))
        for to, source in enumerate((3, 0, 1, 2)):
            turned[to::4] = self.rgba[source::4]
        return bytes(turned)


def picture_of(found: Glance) -> Picture:
    """Return the icon for a state. Pure."""
    if found.state is AgentState.GROWING and not found.is_offline:
        eighths = min(STEPS - 1, int((found.share or 0.0) * STEPS))
        return Picture(f"growing-{eighths}")
    if found.state is AgentState.ERROR:
        return Picture.ERROR
    if found.state is AgentState.ATTENTION:
        return Picture.ATTENTION
    if found.state is AgentState.PAUSED:
        return Picture.PAUSED
    if found.is_offline or found.state in (AgentState.STOPPED, AgentState.STARTING):
        return Picture.OFFLINE
    return Picture.IDLE


@lru_cache(maxsize=4)
def pixels(look: Look, picture: Picture) -> tuple[Pixels, ...]:
    """Return an icon in all sizes, the largest first; reads a sheet of some kilobytes. Raises ``OSError``."""
    width, packed = _read_png((files("agent.desktop") / "icons" / f"tray-{look}.png").read_bytes())
    stride = width * 4 + 1
    top = list(Picture).index(picture) * SIZES[0]
    rows = [packed[(top + row) * stride + 1 : (top + row + 1) * stride] for row in range(SIZES[0])]
    found = []
    left = 0
    for size in SIZES:
        found.append(Pixels(size, b"".join(row[left * 4 : (left + size) * 4] for row in rows[:size])))
        left += size
    return tuple(found)


def _read_png(data: bytes) -> tuple[int, bytes]:
    """Return the width and the rows of one of our own sheets, each with the byte of its filter, which is 0."""
    at, packed, width = 8, b"", 0
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width = int.from_bytes(body[:4])
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    return width, zlib.decompress(packed)
