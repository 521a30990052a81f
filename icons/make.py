"""Draw every icon from ``sapwood.svg``: run it after a change of that, and check in what it writes.

    python icons/make.py [FOLDER]

The shapes and colours are the SVG's own; this reads circles, lines, and paths of M, C, L and Z, which is all there is
in it. What is composed of which shape, in which ink, is below. Each size is drawn for itself, at sixteen times its
pixels. The same Pillow and zlib write the same bytes.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image, ImageChops, ImageDraw

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from agent.desktop.tray.pictures import SIZES, STEPS, Look, Picture  # noqa: E402

TARGET = HERE.parent / "agent" / "desktop" / "icons"
SCALE = 16
VIEW = 64.0
HALO = 2.2  # of the view: keeps an icon visible on a panel that is not what the desktop said
APP_SIZES = (512, 256, 128, 64, 48, 32, 16)
ICO_SIZES = (256, 64, 48, 32, 16)

Ink = tuple[int, int, int, float]
BADGE_INKS = {Picture.ATTENTION: (232, 150, 20, 1.0), Picture.ERROR: (214, 60, 48, 1.0)}
INKS: dict[Look, tuple[Ink, Ink, Ink]] = {
    # the ink, what grows, the halo
    Look.LIGHT: ((52, 46, 40, 1.0), (62, 132, 54, 1.0), (255, 255, 255, 0.45)),
    Look.DARK: ((240, 236, 228, 1.0), (132, 204, 104, 1.0), (0, 0, 0, 0.35)),
    Look.TEMPLATE: ((0, 0, 0, 1.0), (0, 0, 0, 1.0), (0, 0, 0, 0.0)),
}
FAINT = 0.34


@dataclass(frozen=True)
class Shape:
    """One shape of the SVG: ``points`` of a line or a filled path, or a circle."""

    kind: str
    points: tuple[tuple[float, float], ...]
    radius: float
    stroke_width: float
    color: str
    clear: float

    def mask(self, size: int, grow: float = 0.0) -> Image.Image:
        """Return what it covers, so much wider on all sides, at sixteen times this size."""
        side = size * SCALE
        unit = side / VIEW
        found = Image.new("L", (side, side), 0)
        draw = ImageDraw.Draw(found)
        at = [(x * unit, y * unit) for x, y in self.points]
        if self.kind == "circle":
            ((x, y),) = at
            half = self.stroke_width / 2
            outer, inner = (self.radius + half + grow) * unit, (self.radius - half - grow) * unit
            draw.ellipse((x - outer, y - outer, x + outer, y + outer), fill=255)
            if self.stroke_width and inner > 0:
                draw.ellipse((x - inner, y - inner, x + inner, y + inner), fill=0)
            return found
        if self.kind == "path":
            draw.polygon(at, fill=255)
            at.append(at[0])
        width = (self.stroke_width + 2 * grow) * unit
        if width:
            draw.line(at, fill=255, width=round(width), joint="curve")
            for x, y in at:
                draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
        return found


def read_shapes(svg: Path) -> dict[str, Shape]:
    """Return the shapes of the SVG by their ids."""
    found: dict[str, Shape] = {}
    ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
    for group in ElementTree.parse(svg).getroot():
        current = group.get("color", "")
        for element in group:
            kind = element.tag.rpartition("}")[2]
            number = {name: float(element.get(name, "0")) for name in ("cx", "cy", "r", "x1", "y1", "x2", "y2")}
            if kind == "circle":
                points: tuple[tuple[float, float], ...] = ((number["cx"], number["cy"]),)
            elif kind == "line":
                points = ((number["x1"], number["y1"]), (number["x2"], number["y2"]))
            else:
                points = tuple(read_path(element.attrib["d"]))
            color = element.get("stroke") or element.get("fill") or current
            width = float(element.get("stroke-width", "0")) if element.get("stroke") else 0.0
            found[element.attrib["id"]] = Shape(
                kind, points, number["r"], width, current if color == "currentColor" else color,
                float(element.get("data-clear", "0")),
            )  # fmt: skip
    return found


def read_path(text: str) -> list[tuple[float, float]]:
    """Return the corners of a path of M, L, C and Z, its curves as 24 pieces each."""
    points: list[tuple[float, float]] = []
    for letter, rest in re.findall(r"([MLCZ])([^MLCZ]*)", text):
        numbers = [float(word) for word in rest.split()]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        if letter != "C":
            points.extend(pairs)
            continue
        for at in range(0, len(pairs), 3):
            start, (one, two, end) = points[-1], pairs[at : at + 3]
            for step in range(1, 25):
                t = step / 24
                u = 1 - t
                weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
                corners = (start, one, two, end)
                points.append(
                    (
                        sum(weight * corner[0] for weight, corner in zip(weights, corners, strict=True)),
                        sum(weight * corner[1] for weight, corner in zip(weights, corners, strict=True)),
                    )
                )
    return points


class Canvas:
    """An icon that is being put together, bottom to top; each part cuts its surroundings out of what lies below."""

    def __init__(self, size: int, halo: Ink) -> None:
        self._size = size
        self._side = size * SCALE
        self._halo = halo
        self._layers: list[tuple[Image.Image, Ink]] = []
        self._around = Image.new("L", (self._side, self._side), 0)

    def add(self, shape: Shape, ink: Ink, within: Image.Image | None = None) -> None:
        """Lay a shape on top, or as much of it as is within a mask."""
        if shape.clear:
            self.cut(shape.mask(self._size, shape.clear))
        mask = shape.mask(self._size)
        if within is not None:
            mask = ImageChops.multiply(mask, within)
        self._layers.append((mask, ink))
        self._around = ImageChops.lighter(self._around, shape.mask(self._size, HALO))

    def cut(self, mask: Image.Image) -> None:
        """Take what is under a mask out of all that is there."""
        hole = ImageChops.invert(mask)
        self._layers = [(ImageChops.multiply(each, hole), ink) for each, ink in self._layers]

    def finish(self) -> Image.Image:
        """Return the icon in its own size."""
        found = Image.new("RGBA", (self._size, self._size), (*self._halo[:3], 0))
        for mask, ink in ([(self._around, self._halo)] if self._halo[3] else []) + self._layers:
            small = mask.reduce(SCALE).point([round(value * ink[3]) for value in range(256)])
            layer = Image.new("RGBA", found.size, (*ink[:3], 0))
            layer.putalpha(small)
            found = Image.alpha_composite(found, layer)
        return found


def sector(shape: Shape, size: int, share: float) -> Image.Image:
    """Return a mask of the part of the view that lies within a share of a turn, from twelve o'clock on."""
    side = size * SCALE
    unit = side / VIEW
    (x, y), reach = shape.points[0], VIEW
    found = Image.new("L", (side, side), 0)
    box = ((x - reach) * unit, (y - reach) * unit, (x + reach) * unit, (y + reach) * unit)
    ImageDraw.Draw(found).pieslice(box, -90, -90 + 360 * share, fill=255)
    return found


def tray_icon(shapes: dict[str, Shape], look: Look, picture: Picture, size: int) -> Image.Image:
    """Return one icon of the tray."""
    ink, green, halo = INKS[look]
    faint = (*ink[:3], FAINT)
    canvas = Canvas(size, halo)
    names: Sequence[str] = ("bark", "sapwood", "heart")
    if picture is Picture.PAUSED:
        names = ("bark", "bar-left", "bar-right")
    for name in names:
        is_dimmed = picture is Picture.OFFLINE or (name == "sapwood" and picture.startswith("growing"))
        canvas.add(shapes[name], faint if is_dimmed else ink)
    if picture.startswith("growing"):
        # Never nothing: a first sliver says that it has begun.
        share = max(int(picture[-1]), 0.4) / STEPS
        canvas.add(shapes["sapwood"], green, sector(shapes["sapwood"], size, share))
    canvas.add(shapes["leaf"], {Picture.OFFLINE: faint, Picture.PAUSED: ink}.get(picture, green))
    if picture is Picture.OFFLINE:
        canvas.add(shapes["slash"], ink)
    if picture in BADGE_INKS:
        canvas.add(shapes["badge"], ink if look is Look.TEMPLATE else BADGE_INKS[picture])
        for name in ("call", "dot") if picture is Picture.ATTENTION else ("cross-down", "cross-up"):
            if look is Look.TEMPLATE:
                canvas.cut(shapes[name].mask(size))
            else:
                canvas.add(shapes[name], (255, 255, 255, 1.0))
    return canvas.finish()


def app_icon(shapes: dict[str, Shape], size: int) -> Image.Image:
    """Return the program's own icon: the SVG as it stands, on a light tile."""
    side = size * SCALE if size <= 64 else size * 4
    tile = Image.new("L", (side, side), 0)
    ImageDraw.Draw(tile).rounded_rectangle((0, 0, side - 1, side - 1), radius=side * 0.22, fill=255)
    found = Image.new("RGBA", (size, size), (250, 246, 238, 0))
    found.putalpha(tile.resize((size, size), Image.Resampling.BOX))
    inner = round(size * 0.76)
    canvas = Canvas(inner, (0, 0, 0, 0.0))
    for name in ("bark", "sapwood", "heart", "leaf"):
        color = shapes[name].color
        canvas.add(shapes[name], (int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16), 1.0))
    found.alpha_composite(canvas.finish(), ((size - inner) // 2, (size - inner) // 2))
    return found


def sheet(shapes: dict[str, Shape], look: Look) -> Image.Image:
    """Return all icons of a look: a row for each state, all sizes side by side."""
    found = Image.new("RGBA", (sum(SIZES), SIZES[0] * len(Picture)), (0, 0, 0, 0))
    for row, picture in enumerate(Picture):
        left = 0
        for size in SIZES:
            found.paste(tray_icon(shapes, look, picture, size), (left, row * SIZES[0]))
            left += size
    return found


def write_png(image: Image.Image, path: Path) -> None:
    """Write a PNG whose rows are not filtered: ``pictures.py`` reads it without an image library."""
    width, height = image.size
    data = image.tobytes()
    rows = b"".join(b"\0" + data[at : at + width * 4] for at in range(0, len(data), width * 4))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks
        )
    )


def make(folder: Path) -> None:
    """Write all icons into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = read_shapes(HERE / "sapwood.svg")
    for look in Look:
        write_png(sheet(shapes, look), folder / f"tray-{look}.png")
    drawn = {size: app_icon(shapes, size) for size in APP_SIZES}
    for size, image in drawn.items():
        write_png(image, folder / f"sapwood-{size}.png")
    first, *rest = (drawn[size] for size in ICO_SIZES)
    first.save(folder / "sapwood.ico", sizes=[(size, size) for size in ICO_SIZES], append_images=rest)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
