"""Search as one types: an answer for what stands there last, no flood of questions, and an address to keep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.conftest import Read

if TYPE_CHECKING:
    from playwright.sync_api import Route


def test_hits_come_while_one_types_and_are_said(read: Read) -> None:
    reading = read()
    reading.open("/")
    page = reading.page
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("spare key of the greenhouse", delay=10)
    reading.until("document.getElementById('count').textContent.includes('results for spare key of the')")
    assert page.locator("mark").count() > 3
    assert page.locator("#count").get_attribute("aria-live") == "polite"
    assert page.evaluate("document.activeElement.id") == "q", "typing goes on"
    page.wait_for_url(re.compile(r"/\?q=spare\+key\+of\+the\+greenhouse$"))
    assert not reading.noticed()


def test_typing_asks_once_it_rests_and_an_older_answer_never_wins(read: Read) -> None:
    reading = read()
    reading.open("/")
    page = reading.page
    asked: list[str] = []
    held: list[Route] = []

    def answer(route: Route) -> None:
        query = route.request.url.partition("?")[2]
        asked.append(query)
        if query == "q=greenhouse":
            held.append(route)  # the first one is slow
            return
        route.continue_()

    page.route("**/search/hits?*", answer)
    page.keyboard.type("greenhouse", delay=5)
    while not held:
        page.wait_for_timeout(10)
    page.locator("#q").fill("pear tree")
    reading.until("document.getElementById('count').textContent.endsWith('for pear tree')")
    held[0].fulfill(body="<div data-said='too late'>too late</div>", content_type="text/html")
    page.evaluate("fetch('/ping').then(() => true)")  # whatever came before this has been seen by now
    assert "too late" not in page.content()
    page.locator("#q").fill("pear trees")
    reading.until("document.getElementById('count').textContent.endsWith('for pear trees')")
    assert "too late" not in page.content()
    assert asked == ["q=greenhouse", "q=pear+tree", "q=pear+trees"]


def test_filters_narrow_what_is_found_and_a_kept_address_finds_the_same(read: Read) -> None:
    reading = read()
    reading.open("/?q=key")
    page = reading.page
    page.locator("summary").click()
    page.locator("#source").select_option("club-chat")
    page.wait_for_url(re.compile("source=club-chat"))
    narrow = page.locator(".hit h2").all_inner_texts()
    assert narrow
    page.reload()
    assert page.locator(".hit h2").all_inner_texts() == narrow
    assert page.locator("#source").input_value() == "club-chat"
    assert page.locator("details.filters").get_attribute("open") is not None, "what narrows it down is seen"


def test_a_page_that_has_ended_says_how_to_open_it_again(read: Read) -> None:
    reading = read()
    reading.open("/")
    reading.page.route("**/search/hits?*", lambda route: route.abort())
    reading.page.locator("#q").fill("key")
    reading.until("document.getElementById('count').textContent.includes('sapwood open')")
