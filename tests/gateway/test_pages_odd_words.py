"""Whatever is typed into a field, or stands in an address, is answered by what is wrong with it, never by a fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.gateway.page_reader import Reader, forget_grown, grown_home, reading

ASKED = {
    "/": ("q", "source", "kind", "since", "until", "entity"),
    "/search/hits": ("q", "since"),
    "/forget": ("source", "item", "chunk", "since", "until", "mentions", "entity"),
    "/models/add": ("name", "provider"),
    "/help/logs": ("level",),
    "/sources": ("told",),
}
SENT = {
    "/sources/add": ("path", "kind", "name", "exclude", "include", "then"),
    "/sources/notes/answer": ("answer",),
    "/jobs/pause": ("until",),
    "/jobs/retry": ("job",),
    "/jobs/cancel": ("job",),
    "/models/add": ("name", "provider", "chat_model", "base_url", "embedding_model", "key", "daily_tokens"),
    "/models/builtin/consent": ("answer",),
    "/settings/pool.max_workers": ("value",),
    "/settings/models.local_hosts": ("value",),
    "/settings/schedule.timezone": ("value",),
    "/settings/gateway.port": ("value",),
    "/settings/models.active": ("value",),
    "/settings/autostart": ("on",),
    "/forget": ("mentions", "source", "chunk"),
}
PLACES = (
    *("/tree/%s", "/node/%s", "/sources/%s", "/sources/%s/remove", "/models/%s/consent", "/models/%s/remove"),
    *("/settings/%s", "/static/%s"),
)
REST = {
    "/": {"q": "key"},
    "/search/hits": {"q": "key"},
    "/models/add": {"name": "other", "provider": "ollama", "chat_model": "m"},
    "/sources/add": {"path": "/nowhere"},
}
COMMON = ("a\x00b", "../../etc/passwd", "'\"<>&`", "é" * 5_000)
RARE = (
    *("\x00", "%00", "9" * 30, "-1", "1e309", "NaN", "２０２５-01-01", "0001-01-01", "9999-12-31T23:59:59", "99999w"),
    *("\u202e\u2066", "NEAR(a b)", "a AND", "*", '"', "((((", "a:b", "\r\n\r\nx: y", "💥"),
)


@pytest.fixture(scope="module", autouse=True)
def _tidy() -> Iterator[None]:
    yield
    forget_grown()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    # "on" is no word of these, but nothing here may ever reach the login of whoever runs it.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with reading(grown_home(tmp_path)) as found:
        yield found


@pytest.mark.parametrize("word", [*COMMON, *(pytest.param(word, marks=pytest.mark.slow) for word in RARE)])
def test_odd_words_are_answered(reader: Reader, word: str) -> None:
    found = []
    for path, fields in ASKED.items():
        for field in fields:
            page = reader.get(path, **{**REST.get(path, {}), field: word})
            found += [(path, field, page.status)] if page.status >= 500 else []
    for path, fields in SENT.items():
        for field in fields:
            page = reader.send(path, "/", **{**REST.get(path, {}), field: word, "do": "change"})
            found += [(path, field, page.status)] if page.status >= 500 else []
    for place in PLACES:
        page = reader.get(place % quote(word[:200], safe=""))
        found += [(place, "", page.status)] if page.status >= 500 else []
    assert not found
