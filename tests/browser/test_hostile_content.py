"""Whatever stands in files, names and settings is shown as it is written, and never runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.actions.home import open_home
from agent.actions.sources import add
from agent.paths import paths_under
from tests.browser.conftest import Reading, let_in, serve
from tests.cli.agents import grow
from tests.gateway.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = "<script>window.__ran = 1; alert(1)</script>"
PICTURE = "<img src=x onerror=window.__ran=1>"
ATTRIBUTE = '" onfocus="window.__ran=1" autofocus tabindex=1 x=\''
LINK = "[click](javascript:window.__ran=1)"

# Nothing but what our own templates put there.
STRANGERS = """() => [
  ...[...document.querySelectorAll("img, iframe, object, embed, base, svg script, [onerror], [onfocus], [autofocus]")],
  ...[...document.querySelectorAll("script")].filter((each) => !each.src.startsWith(location.origin + "/static/")),
  ...[...document.querySelectorAll("a[href]")].filter((each) => !/^https?:$/.test(each.protocol)),
].map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        paths = paths_under(folder / "home").make()
        notes = folder / f"notes {PICTURE.replace('/', '')}"
        notes.mkdir()
        texts = (SCRIPT, PICTURE, ATTRIBUTE, LINK, "</title></textarea>" + SCRIPT, "\u202egnp.exe\u0007 &lt;b&gt;")
        for number, text in enumerate(texts):
            name = f"{number} {text.replace('/', '')[:60]}.md"
            (notes / name).write_text(f"# lantern {text}\n\nthe lantern {number} {text} hangs in the attic {text}\n")
        (notes / f"bad {PICTURE}.md").write_bytes(b"\x00\x01\x02\xff" * 500)
        mail = folder / "letters.mbox"
        mail.write_text(
            "From x Sat Mar  1 10:00:00 2025\n"
            f'From: "{SCRIPT}" <eve@example.org>\nTo: {PICTURE} <bob@example.org>\nSubject: lantern {SCRIPT}\n'
            "Date: Sat, 1 Mar 2025 10:00:00 +0000\nMessage-ID: <1@example.org>\n\n"
            f"the lantern of the mail {SCRIPT} {PICTURE} {ATTRIBUTE}\n\n"
        )
        with open_home(paths) as home:
            add(home, [str(notes)], name=f"lamps {SCRIPT}", exclude=[f"*{ATTRIBUTE}*"])
        with open_home(paths) as home:
            add(home, [str(mail)], name=f"mail {ATTRIBUTE}")
        grow(paths)
        with open_home(paths) as home, home.connection.write():
            home.connection.run(
                """
                UPDATE mem_tree_jobs
                   SET status = 'failed', failure_reason = ?1, failure_scope = ?2, failure_class = 'transient',
                       last_error = ?1
                 WHERE id = (SELECT max(id) FROM mem_tree_jobs)
                """,
                (SCRIPT, PICTURE),
            )
        with paths.config_file.open("a") as config:
            config.write(f"\n[[profiles]]\nname = {_toml(SCRIPT)}\nprovider = 'ollama'\nchat_model = 'x'\n")
            config.write(f"\n[[profiles]]\nname = 'box'\nprovider = 'ollama'\nchat_model = {_toml(PICTURE)}\n")
            config.write(f"\n[{_toml(SCRIPT)}]\nx = 1\n")
        served = serve(paths)
        yield served
        served.close()


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture
def reading(chromium: Browser, hostile: Served) -> Iterator[Reading]:
    context, found = let_in(chromium, hostile)
    yield found
    context.close()


def looked_at(reading: Reading) -> list[str]:
    found: list[str] = [*reading.noticed(), *reading.page.evaluate(STRANGERS)]
    if reading.page.evaluate("window.__ran ?? null") is not None:
        found.append("a script of the content ran")
    return [f"{reading.page.url}: {each}" for each in found]


def test_nothing_planted_runs_where_it_is_read_most(reading: Reading) -> None:
    for path in ("/?q=lantern&more=1", "/sources", "/tree", "/work", "/models", "/settings"):
        reading.open(path)
        assert not looked_at(reading)


@pytest.mark.slow
def test_nothing_planted_runs_on_any_page(reading: Reading) -> None:
    page = reading.page
    found: list[str] = []
    reading.open("/sources")
    sources = [str(each.get_attribute("href")) for each in page.locator(".card h2 a").all()]
    assert len(sources) == 2
    reading.open("/?q=lantern&more=1")
    assert page.locator(".hit").count() >= 7
    nodes = [str(each.get_attribute("href")) for each in page.locator(".hit h2 a").all()]
    trees = [each.replace("/sources/", "/tree/") for each in sources]
    removes = [f"{each}/remove" for each in sources]
    others = ["/", "/tree", "/sources", "/forget?mentions=lantern", "/work", "/models", "/models/box/consent",
              "/settings", "/help/logs", "/help/doctor", "/welcome"]  # fmt: skip
    typed = [f"{path}={SCRIPT}{ATTRIBUTE}" for path in ("/?q", "/?q=lantern&source", "/?q=x&since", "/forget?mentions",
             "/forget?chunk", "/models/add?name", "/help/logs?level", "/sources?told")]  # fmt: skip
    unknown = [f"/{place}/{SCRIPT.replace('/', '')}{PICTURE}" for place in ("tree", "node", "sources", "settings")]
    for path in [*sources, *trees, *removes, *nodes, *others, *typed, *unknown]:
        reading.open(path)
        found += looked_at(reading)
    assert not found


def test_what_is_planted_is_read_as_it_is_written(reading: Reading) -> None:
    reading.open("/?q=lantern&kind=leaf&more=1")
    words = reading.page.locator("#hits").inner_text()
    assert SCRIPT in words
    assert PICTURE in words
    reading.open("/sources")
    assert f"lamps {SCRIPT}" in reading.page.locator("main").inner_text()
    assert "bad" in reading.page.locator("main").inner_text() or reading.page.get_by_text("cannot be read").count()


def test_what_the_script_puts_in_place_is_as_harmless(reading: Reading) -> None:
    reading.open("/")
    reading.page.locator("#q").fill(f"lantern {PICTURE}")
    reading.page.locator(".hit").first.wait_for()
    assert PICTURE in reading.page.locator("#count").inner_text()
    assert not looked_at(reading)


def test_the_watch_itself_sees_what_is_planted(reading: Reading) -> None:
    """If this page ran a script of the content, the tests above would know."""
    reading.open("/help")
    reading.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=/x onerror=\"window.__ran=1\">')")
    reading.until("window.__seen.length > 0")
    assert looked_at(reading)


def test_direction_marks_turn_nothing_else_around(reading: Reading, tmp_path: Path) -> None:
    reading.open("/?q=lantern&kind=leaf&more=1")
    assert reading.page.locator(".hit h2 bdi").count() == reading.page.locator(".hit").count()
