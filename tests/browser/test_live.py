"""What changes is seen without loading the page again; a page that nobody looks at asks for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.actions.home import open_home
from agent.paths import Paths
from agent.system.companion import Say
from tests.browser.conftest import Read, let_in, serve
from tests.gateway.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STREAMS = """
window.__streams = [];
window.EventSource = class extends EventSource {
  constructor(...given) { super(...given); window.__streams.push(this); }
};
Object.defineProperty(document, "hidden", { get: () => window.__hidden ?? false });
"""
OPEN = "window.__streams.filter((each) => each.readyState !== EventSource.CLOSED).length"


def hide(hidden: bool) -> str:
    return f"window.__hidden = {str(hidden).lower()}; document.dispatchEvent(new Event('visibilitychange'))"


def test_a_change_is_seen_without_loading_the_page(read: Read, site: Served) -> None:
    reading = read()
    page = reading.page
    reading.open("/work")
    reading.until("document.getElementById('state-name').textContent === 'Stopped'")
    needs = page.locator("#state-needs").inner_text()
    page.evaluate("document.querySelector('.figures').dataset.old = 'yes'")
    with open_home(site.paths) as home, home.connection.write():
        home.connection.run(
            "UPDATE mem_tree_jobs SET status = 'failed' WHERE id IN (SELECT min(id) FROM mem_tree_jobs)"
        )
    site.line.send(Say.STATE)
    reading.until(f"document.getElementById('state-needs').innerText !== {needs!r}")
    reading.until("!document.querySelector('.figures').dataset.old")
    assert not reading.noticed()


def test_a_hidden_page_listens_to_nothing_and_listens_again_when_seen(read: Read) -> None:
    reading = read()
    page = reading.page
    page.context.add_init_script(STREAMS)
    reading.open("/")
    reading.until(f"{OPEN} === 1")
    page.evaluate(hide(True))
    assert page.evaluate(OPEN) == 0
    page.evaluate(hide(False))
    reading.until(f"{OPEN} === 1")


def test_what_one_is_reading_is_not_taken_from_under_the_fingers(read: Read, site: Served) -> None:
    reading = read()
    page = reading.page
    page.clock.install()
    reading.open("/work")
    needs = page.locator("#state-needs").inner_text()
    page.get_by_role("button", name="Try all again").focus()
    page.evaluate("document.querySelector('.figures').dataset.old = 'yes'")
    with open_home(site.paths) as home, home.connection.write():
        home.connection.run(
            "UPDATE mem_tree_jobs SET status = 'failed' WHERE id IN (SELECT min(id) + 1 FROM mem_tree_jobs)"
        )
    site.line.send(Say.STATE)
    reading.until(f"document.getElementById('state-needs').innerText !== {needs!r}")
    page.clock.fast_forward(5_000)
    page.evaluate("fetch('/ping').then(() => true)")  # whatever was asked for before this is there by now
    assert page.evaluate("document.querySelector('.figures').dataset.old") == "yes"


def test_a_page_whose_gateway_has_ended_says_so(chromium: Browser, paths: Paths) -> None:
    served = serve(paths)
    try:
        context, reading = let_in(chromium, served)
        reading.until("document.getElementById('state-name').textContent === 'Stopped'")
        served.process.kill()
        reading.until("document.getElementById('state-name').textContent === 'No answer'")
        assert "sapwood open" in reading.page.locator("#state-words code").inner_text()
        context.close()
    finally:
        served.close()


def test_an_open_page_keeps_the_gateway_from_ending(read: Read) -> None:
    reading = read()
    reading.page.clock.install()
    reading.open("/tree")
    with reading.page.expect_request("**/ping"):
        reading.page.clock.fast_forward("05:01")
