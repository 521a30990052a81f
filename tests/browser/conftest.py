"""A real browser on a real gateway: homes that have grown, readers with and without a script, dark, on a phone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.actions.gateway_address import read_gateway, read_token
from agent.actions.home import open_home
from agent.actions.models import add_profile, profile_of
from agent.paths import Paths
from agent.system.companion import Say
from tests.gateway.conftest import Served, heard, start
from tests.gateway.page_reader import forget_grown, grown_home

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page

GATEWAY = "agent.gateway.process:gateway_main"
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
MODES: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1100, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1100, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
}

# What a page must never do is kept where the page cannot lose it.
WATCH = """
window.__seen = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__seen.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@dataclass
class Reading:
    """One page of a browser, with all that went wrong in it."""

    page: Page
    origin: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.origin + path)

    def noticed(self) -> list[str]:
        """What went wrong so far: errors of scripts, refusals by the policy, dialogs, pictures from elsewhere."""
        return [*self.problems, *self.page.evaluate("window.__seen ?? []")]

    def until(self, expression: str, deadline_s: float = 10.0) -> None:
        """Wait until an expression of the page is true. The policy of the page lets Playwright's own wait not work."""
        end = time.monotonic() + deadline_s
        while not self.page.evaluate(expression):
            if time.monotonic() > end:
                pytest.fail(f"{expression} did not become true in {deadline_s} s")
            self.page.wait_for_timeout(20)

    def overflows(self) -> list[str]:
        """What makes the page wider than the window."""
        found: list[str] = self.page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] :
              [...document.querySelectorAll("body *")]
                .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
                .map((each) => `${each.tagName}.${each.className}`)"""
        )
        return found


Read = Callable[..., Reading]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[desktop-test]'")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # Root cannot have the browser's sandbox, and there is no root on an owner's machine.
        flags = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=[*FLAGS, *flags])
        yield browser
        browser.close()


def serve(paths: Paths) -> Served:
    """Start the real gateway of a home, as the supervisor does, and wait until it serves."""
    process, line = start(paths, GATEWAY)
    try:
        heard(line, Say.UP)
        address, token = read_gateway(paths), read_token(paths)
        assert address is not None
        assert token is not None
    except BaseException:
        process.kill()
        process.join(10)
        raise
    return Served(paths, process, line, address, token)


def stock(paths: Paths) -> None:
    """Give a home what its pages show besides sources: profiles of all sorts, a job that failed."""
    with open_home(paths) as home:
        add_profile(home, profile_of({"name": "box", "provider": "ollama", "chat_model": "small"}))
        add_profile(
            home, profile_of({"name": "sky", "provider": "openai", "chat_model": "large", "daily_tokens": 9000})
        )
        with home.connection.write():
            home.connection.run(
                """
                UPDATE mem_tree_jobs
                   SET status = 'failed', failure_reason = 'bad_output', failure_scope = 'box',
                       failure_class = 'transient', last_error = 'its answer was of no use'
                 WHERE id = (SELECT max(id) FROM mem_tree_jobs)
                """
            )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page of a home that has grown; shared by the tests of a module, which leave it as it is."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        paths = grown_home(folder)
        stock(paths)
        served = serve(paths)
        yield served
        served.close()
    forget_grown()


def let_in(browser: Browser, served: Served, **options: Any) -> tuple[BrowserContext, Reading]:
    """Return a browser's context that came through a link, with a page whose problems are kept."""
    context = browser.new_context(**{**MODES["light"], **options})
    context.set_default_timeout(10_000)
    context.add_init_script(WATCH)
    page = context.new_page()
    reading = Reading(page, served.origin)

    def say(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            reading.problems.append(message.text)

    def refuse(dialog: Dialog) -> None:
        reading.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", say)
    page.on("dialog", refuse)
    page.on("pageerror", lambda error: reading.problems.append(str(error)))
    page.goto(f"{served.origin}{served.link('help')}")
    page.wait_for_url("**/help")
    return context, reading


@pytest.fixture
def read(chromium: Browser, site: Served) -> Iterator[Read]:
    """Return a function that opens a browser window on the shared page, in one of ``MODES`` and with more options."""
    contexts: list[BrowserContext] = []

    def begin(mode: str = "light", **options: Any) -> Reading:
        context, reading = let_in(chromium, site, **{**MODES[mode], **options})
        contexts.append(context)
        return reading

    yield begin
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def shots() -> Path | None:
    """Where pictures of the pages are put: a folder named by ``SAPWOOD_SHOTS``, or nowhere."""
    named = os.environ.get("SAPWOOD_SHOTS")
    if not named:
        return None
    Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named)
