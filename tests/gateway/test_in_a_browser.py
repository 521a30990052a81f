"""What a real browser sends, which is what the guard relies on: cookies, origins, fetch metadata, the policy."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.gateway.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Elsewhere = Callable[[str, str], str]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[desktop-test]'")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # Root cannot have the browser's sandbox, and there is no root on an owner's machine.
        flags = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Return a function that serves a page on another port, under a name of this machine, and tells where."""
    servers: list[http.server.HTTPServer] = []

    def serve(host: str, body: str) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(f"<!doctype html><title>elsewhere</title>{body}".encode())

            def log_message(self, format: str, *args: object) -> None:
                return

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://{host}:{server.server_address[1]}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_link_typed_or_opened_by_the_desktop_ends_at_its_place(page: Page, shared: Served) -> None:
    page.goto(f"{shared.origin}{shared.link('form')}")
    page.wait_for_url(f"{shared.origin}/form")
    cookie = page.context.cookies()[0]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_link_followed_from_another_page_ends_at_its_place(
    page: Page, shared: Served, elsewhere: Elsewhere, host: str
) -> None:
    # To a browser ``localhost`` is another site than 127.0.0.1: from there a strict cookie survives no redirect.
    page.goto(elsewhere(host, f"<a href='{shared.origin}{shared.link('form')}'>open</a>"))
    page.click("a")
    page.wait_for_url(f"{shared.origin}/form")
    assert page.locator("button").count() == 1
    # The way back leads past the link, which is used up.
    page.go_back()
    assert page.title() == "elsewhere"


def test_a_form_of_ours_is_taken_without_javascript(chromium: Browser, shared: Served) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{shared.origin}{shared.link('form')}")
    page.wait_for_url(f"{shared.origin}/form")
    page.click("button")
    page.wait_for_url(f"{shared.origin}/sources/add")
    assert '"path":"notes"' in page.content()
    context.close()


def test_live_updates_reach_our_script_and_no_inline_script_runs(page: Page, shared: Served) -> None:
    page.goto(f"{shared.origin}{shared.link('form')}")
    page.wait_for_url(f"{shared.origin}/form")
    page.locator("#live", has_text="stopped").wait_for()
    assert page.title() == "form"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_another_page_can_neither_read_nor_send_nor_frame(
    page: Page, shared: Served, elsewhere: Elsewhere, host: str
) -> None:
    page.goto(f"{shared.origin}{shared.link('form')}")
    page.wait_for_url(f"{shared.origin}/form")
    token = page.locator("input[name=csrf]").get_attribute("value")
    # Even with the token in its hands: the cookie goes along from another port of 127.0.0.1, since that is one site.
    page.goto(
        elsewhere(
            host,
            f"<form method=post action='{shared.origin}/sources/add'><input name=csrf value='{token}'>"
            f"<button>go</button></form><iframe src='{shared.origin}/form'></iframe>"
            f"<a href='{shared.origin}/form'>x</a>",
        )
    )
    read = page.evaluate(
        "url => fetch(url, {credentials: 'include'}).then(answer => answer.text(), error => 'refused')",
        f"{shared.origin}/form",
    )
    assert read == "refused"
    blind = page.evaluate(
        "async url => { await fetch(url, {mode: 'no-cors', credentials: 'include'}).catch(() => 0); return 'sent' }",
        f"{shared.origin}/form",
    )
    assert blind == "sent"
    assert page.frames[1].locator("button").count() == 0
    with page.expect_navigation() as sent:
        page.click("button")
    assert sent.value.status == 403
    assert "another page" in page.content()
    page.go_back()
    with page.expect_navigation() as led:
        page.click("a")
    assert led.value.status == 403
