"""A reader of the page without a browser: it is let in, sends forms with their token, and reads what comes back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import mkdtemp

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode
from starlette.testclient import TestClient

from agent.gateway.app import build_app
from agent.gateway.events import Live
from agent.gateway.links import Links
from agent.gateway.serving import Context
from agent.gateway.sessions import Sessions, cookie_name
from agent.paths import Paths, paths_under
from tests.cli.agents import grown

PORT = 40_000
ORIGIN = f"http://127.0.0.1:{PORT}"


@dataclass
class Read:
    """What one address answered."""

    answer: httpx.Response

    @property
    def status(self) -> int:
        return self.answer.status_code

    @property
    def tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.answer.text)

    @property
    def words(self) -> str:
        """All that a person reads, in one line."""
        body = self.tree.body
        assert body is not None
        return " ".join(unescape(body.text(separator=" ")).split())

    @property
    def main(self) -> str:
        """What stands in the content alone."""
        words = " ".join(self.one("main").text(separator=" ").split())
        return re.sub(r" ([:.,;?”])", r"\1", words).replace("“ ", "“")

    @property
    def path(self) -> str:
        """Where the reader is now."""
        return self.answer.url.path

    def one(self, selector: str) -> LexborNode:
        found = self.tree.css_first(selector)
        assert found is not None, f"no {selector} in {self.words[:500]}"
        return found

    def texts(self, selector: str) -> list[str]:
        return [" ".join(each.text(separator=" ").split()) for each in self.tree.css(selector)]

    def links(self) -> list[str]:
        return [str(each.attributes.get("href")) for each in self.tree.css("main a[href]")]


class Reader:
    """A browser without a script."""

    def __init__(self, client: TestClient, context: Context) -> None:
        self._client = client
        secret, self.session = context.sessions.begin()
        client.cookies.set(cookie_name(PORT), secret)

    def get(self, path: str, /, **query: str) -> Read:
        return Read(self._client.get(path, params=query or None))

    def send(self, path: str, came_from: str = "/", /, **fields: str) -> Read:
        """Send a form as a browser does, and follow to where it leads."""
        headers = {"Origin": ORIGIN, "Referer": f"{ORIGIN}{came_from}"}
        return Read(self._client.post(path, data={"csrf": self.session.csrf, **fields}, headers=headers))

    def press(self, page: Read, label: str) -> Read:
        """Press the first button of a page that says this, with what stands in its form."""
        for form in page.tree.css("form"):
            for button in form.css("button"):
                if label in " ".join(button.text().split()):
                    fields = {
                        str(each.attributes["name"]): each.attributes.get("value") or ""
                        for each in form.css("input[name]")
                        if each.attributes.get("type") not in ("checkbox", "radio") or "checked" in each.attributes
                    }
                    for each in form.css("select[name]"):
                        option = each.css_first("option[selected]") or each.css_first("option")
                        assert option is not None
                        fields[str(each.attributes["name"])] = option.attributes.get("value") or ""
                    name = button.attributes.get("name")
                    if name:
                        fields[name] = button.attributes.get("value") or ""
                    target = str(form.attributes.get("action"))
                    if form.attributes.get("method") == "get":
                        return self.get(target, **fields)
                    assert fields.pop("csrf") == self.session.csrf
                    return self.send(target, page.path, **fields)
        raise AssertionError(f"no button says {label!r}: {page.texts('button')}")


@contextmanager
def reading(paths: Paths) -> Iterator[Reader]:
    """Hold the pages of a home open for a reader."""

    async def look() -> dict[str, object]:
        return {}

    context = Context(paths=paths, port=PORT, token="token", sessions=Sessions(), links=Links(), live=Live(look))
    try:
        with TestClient(build_app(context), base_url=ORIGIN) as client:
            yield Reader(client, context)
    finally:
        context.close()


@cache
def _grown_once() -> Path:
    folder = Path(mkdtemp(prefix="sapwood-test-pages-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        grown(folder)
    return folder


def grown_home(target: Path) -> Paths:
    """Return a copy of a home with the samples grown. Its sources' files are shared: tests only read these."""
    shutil.copytree(_grown_once() / "home", target / "home", dirs_exist_ok=True)
    return paths_under(target / "home")


def forget_grown() -> None:
    """Remove what was grown for the tests of this process."""
    if _grown_once.cache_info().currsize:
        shutil.rmtree(_grown_once(), ignore_errors=True)
        _grown_once.cache_clear()
