"""Whoever reads without a script reads everything, and every form does what it says."""

from __future__ import annotations

from tests.browser.conftest import Read
from tests.gateway.conftest import Served


def test_one_searches_and_walks_the_tree_to_the_lines_of_the_file(read: Read) -> None:
    reading = read(java_script_enabled=False)
    page = reading.page
    reading.open("/")
    page.locator("#q").fill("spare key of the greenhouse")
    page.keyboard.press("Enter")
    page.locator(".hit h2 a").first.click()
    assert "spare key" in page.locator("main").inner_text()
    page.locator(".crumbs a").last.click()
    assert page.locator(".entry").count()
    page.get_by_role("link", name="Tree", exact=True).first.click()
    page.locator(".card h2 a").first.click()
    while page.locator("h1 ~ section .entry-title a, h2 ~ .entries .entry-title a").count():
        page.locator(".entry-title a").first.click()
    assert ":" in page.locator(".facts").inner_text()


def test_every_place_of_the_menu_is_reached(read: Read) -> None:
    reading = read(java_script_enabled=False)
    for name in ("Search", "Tree", "Sources", "Work", "Models", "Settings", "Help"):
        reading.page.locator(".menu a", has_text=name).click()
        assert reading.page.locator("h1").inner_text() == name
        assert reading.page.locator(".menu a[aria-current]").inner_text() == name


def test_work_is_paused_and_resumed(read: Read, site: Served) -> None:
    from agent.actions.home import open_home
    from agent.actions.pausing import read_paused

    reading = read(java_script_enabled=False)
    reading.open("/work")
    reading.page.get_by_role("button", name="Pause").click()
    assert "The work is paused." in reading.page.locator("main").inner_text()
    with open_home(site.paths) as home:
        assert read_paused(home.connection, home.clock.now_ms()).paused_until_ms is not None
    reading.page.get_by_role("button", name="Resume").click()
    with open_home(site.paths) as home:
        assert read_paused(home.connection, home.clock.now_ms()).paused_until_ms is None
