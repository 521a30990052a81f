"""The icons that are checked in are what the script draws from the SVG, and each is to be told from the others."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from agent.actions.glance import Glance
from agent.desktop.tray.pictures import SIZES, Look, Picture, picture_of, pixels
from agent.states import AgentState
from tests.conftest import REPOSITORY

ICONS = REPOSITORY / "agent" / "desktop" / "icons"


def glance_of(state: AgentState, share: float | None = None, *, is_offline: bool = False) -> Glance:
    return Glance(state, "why", "why", share, "builtin", (), None, is_offline=is_offline)


def test_the_script_draws_what_is_checked_in(tmp_path: Path) -> None:
    drawing = [
        subprocess.Popen([sys.executable, "icons/make.py", str(tmp_path / folder)], cwd=REPOSITORY)
        for folder in ("first", "second")
    ]
    assert [each.wait(120) for each in drawing] == [0, 0]
    names = sorted(path.name for path in ICONS.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "first").iterdir())
    for name in names:
        first, second = (tmp_path / "first" / name).read_bytes(), (tmp_path / "second" / name).read_bytes()
        assert first == second, f"{name} is another each time"
        drawn, held = (Image.open(io.BytesIO(data)) for data in (first, (ICONS / name).read_bytes()))
        assert drawn.size == held.size
        # Another zlib packs the same pixels otherwise.
        assert drawn.tobytes() == held.tobytes(), f"{name} is not what the SVG says: run icons/make.py"


@pytest.mark.parametrize("look", Look)
def test_each_state_has_its_own_icon_in_each_size(look: Look) -> None:
    drawn = {picture: pixels(look, picture) for picture in Picture}
    for found in drawn.values():
        assert tuple(each.size for each in found) == SIZES
        assert all(len(each.rgba) == each.size**2 * 4 and any(each.rgba[3::4]) for each in found)
    for one, other in itertools.combinations(Picture, 2):
        for mine, others in zip(drawn[one], drawn[other], strict=True):
            assert mine.rgba != others.rgba, (one, other, mine.size)


def test_pixels_are_those_of_the_picture() -> None:
    sheet = Image.open(ICONS / "tray-light.png")
    row = list(Picture).index(Picture.PAUSED) * SIZES[0]
    for at, each in enumerate(pixels(Look.LIGHT, Picture.PAUSED)):
        left = sum(SIZES[:at])
        assert sheet.crop((left, row, left + each.size, row + each.size)).tobytes() == each.rgba


def test_panels_take_alpha_first() -> None:
    found = pixels(Look.DARK, Picture.ERROR)[-1]
    for at in range(0, len(found.rgba), 4):
        red, green, blue, alpha = found.rgba[at : at + 4]
        assert found.argb[at : at + 4] == bytes((alpha, red, green, blue))


def test_a_template_is_black_alone() -> None:
    for picture in Picture:
        for each in pixels(Look.TEMPLATE, picture):
            assert not any(each.rgba[at] for at in range(len(each.rgba)) if at % 4 != 3)


@pytest.mark.parametrize(
    ("found", "picture"),
    [
        (glance_of(AgentState.IDLE), Picture.IDLE),
        (glance_of(AgentState.GROWING), Picture.GROWING_0),
        (glance_of(AgentState.GROWING, 0.5), Picture.GROWING_4),
        (glance_of(AgentState.GROWING, 0.999), Picture.GROWING_7),
        (glance_of(AgentState.GROWING, 1.0), Picture.GROWING_7),
        (glance_of(AgentState.GROWING, 0.5, is_offline=True), Picture.OFFLINE),
        (glance_of(AgentState.IDLE, is_offline=True), Picture.OFFLINE),
        (glance_of(AgentState.PAUSED, is_offline=True), Picture.PAUSED),
        (glance_of(AgentState.ATTENTION), Picture.ATTENTION),
        (glance_of(AgentState.ERROR), Picture.ERROR),
        (glance_of(AgentState.STOPPED), Picture.OFFLINE),
        (glance_of(AgentState.STARTING), Picture.OFFLINE),
    ],
)
def test_the_icon_says_the_state(found: Glance, picture: Picture) -> None:
    assert picture_of(found) is picture
