"""Every page as people see it: without violations of accessibility, without scrolling sideways, in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import MODES, Read, Reading

PAGES = {
    "search": "/",
    "found": "/?q=spare+key+of+the+greenhouse&source=notes",
    "nothing": "/?q=zyxwvut",
    "tree": "/tree",
    "source-tree": "/tree/notes",
    "sources": "/sources",
    "source": "/sources/notes",
    "add": "/sources/add",
    "remove": "/sources/notes/remove",
    "forget": "/forget?mentions=key",
    "work": "/work",
    "models": "/models",
    "consent": "/models/sky/consent",
    "model-add": "/models/add",
    "model-remove": "/models/box/remove",
    "settings": "/settings",
    "switch": "/settings/desktop.tray",
    "list": "/settings/models.local_hosts",
    "help": "/help",
    "doctor": "/help/doctor",
    "bug-report": "/help/bug-report",
    "logs": "/help/logs",
    "welcome": "/welcome",
    "refused": "/tree/nowhere",
}


def violations(reading: Reading) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[desktop-test]'")
    found: dict[str, Any] = axe.Axe().run(reading.page).response
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def pages_of(reading: Reading) -> dict[str, str]:
    """Return all pages, with a summary's and a passage's as they are found from the tree."""
    reading.open("/tree/notes")
    summary = str(reading.page.locator(".entry-title a").first.get_attribute("href"))
    reading.open("/?q=greenhouse&kind=leaf")
    leaf = str(reading.page.locator(".hit h2 a").first.get_attribute("href"))
    return {**PAGES, "summary": summary, "passage": leaf}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_no_page_violates_accessibility_or_scrolls_sideways(read: Read, mode: str, shots: Path | None) -> None:
    reading = read(mode)
    found: list[str] = []
    for name, path in pages_of(reading).items():
        reading.open(path)
        found += [f"{name}: {each}" for each in violations(reading)]
        found += [f"{name} is too wide: {each}" for each in reading.overflows()]
        found += [f"{name}: {each}" for each in reading.noticed()]
        if shots is not None:
            reading.page.screenshot(path=shots / f"{name}-{mode}.png", full_page=True)
    assert not found


@pytest.mark.parametrize("name", ["found", "work"])
def test_the_pages_used_most_are_without_violations(read: Read, name: str) -> None:
    reading = read("dark")
    reading.open(PAGES[name])
    assert not violations(reading)
    assert not reading.noticed()


def test_no_page_with_much_in_it_scrolls_sideways_on_a_phone(read: Read) -> None:
    reading = read("phone")
    for name in ("found", "source-tree", "source", "work", "models", "consent", "settings", "welcome"):
        reading.open(PAGES[name])
        assert not reading.overflows(), name


@pytest.mark.slow
def test_everything_opened_is_still_not_too_wide_on_a_phone(read: Read) -> None:
    reading = read("phone")
    for path in ("/settings", "/", "/sources/add", "/models/add"):
        reading.open(path)
        reading.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert not reading.overflows(), path


def test_dark_is_dark_and_light_is_light(read: Read) -> None:
    brightness = "parseInt(getComputedStyle(document.body).backgroundColor.slice(4))"
    assert read("dark").page.evaluate(brightness) < 60
    assert read("light").page.evaluate(brightness) > 200


def test_nothing_moves_for_who_wants_it_so(read: Read) -> None:
    reading = read(reduced_motion="reduce")
    reading.open("/")
    moving = """document.getElementById("state").dataset.state = "growing",
        getComputedStyle(document.querySelector(".dot")).animationName"""
    assert reading.page.evaluate(moving) == "none"


@pytest.mark.slow
def test_text_may_be_half_as_large_again(read: Read) -> None:
    reading = read("phone")
    for path in ("/?q=greenhouse", "/work", "/models"):
        reading.open(path)
        reading.page.evaluate("document.documentElement.style.fontSize = '150%'")
        assert not reading.overflows(), path
