"""From the first start to the first result, with the real agent: what an owner does on the first evening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.actions.opening import page_link
from agent.config import load_intent
from agent.paths import Paths
from tests.browser.conftest import MODES
from tests.cli.agents import running_agent

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.slow
def test_first_start_to_first_result(
    chromium: Browser, paths: Paths, tmp_path: Path, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = tmp_path / "person"
    notes = person / "Notes"
    notes.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(person / ".config"))
    for number in range(12):
        (notes / f"{number}.md").write_text(f"# Lamp {number}\n\nThe lamp number {number} stands in room {number}.\n")
    (notes / "key.md").write_text("# Keys\n\nThe spare key of the shed is under the third stone.\n")
    with running_agent(paths, wait_until, "--headless"):
        context = chromium.new_context(**MODES["light"])
        try:
            page = context.new_page()
            page.goto(page_link(paths))
            page.wait_for_url("**/welcome")
            assert page.locator(".step h2").count() == 3
            assert not load_intent(paths).intent.sources, "nothing is read before it is named"
            # One of the suggestions: the folder of notes that is there.
            page.locator(".suggestions li", has_text=str(notes)).get_by_role("button").click()
            page.wait_for_url("**/welcome?told=*")
            assert "13 items found" in page.locator("main").inner_text()
            page.locator(".step a", has_text="Notes").click()
            # What the source's page says comes by itself.
            page.locator("#live", has_text="13 items, 13 passages").wait_for(timeout=60_000)
            page.locator(".menu a", has_text="Search").click()
            page.locator("#q").fill("where is the spare key of the shed")
            hit = page.locator(".hit", has_text="third stone")
            hit.first.locator("h2 a").click()
            assert "third stone" in page.locator(".text").first.inner_text()
            page.goto(page.url.partition("/node")[0] + "/work")
            page.locator("#state-name", has_text="Idle").wait_for(timeout=60_000)
            assert "everything is grown" in page.locator("#state-words").inner_text()
        finally:
            context.close()
