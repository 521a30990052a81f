"""Who may ask for what: the pure decision, over everything that can differ."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent.gateway.security import CSRF_FIELD, Asked, Door, Verdict, door_of, has_csrf, judge
from agent.gateway.sessions import Session

PORT, TOKEN = 4711, "the-token"
OWN = f"http://127.0.0.1:{PORT}"

HOSTS: tuple[tuple[str, ...], ...] = (
    (f"127.0.0.1:{PORT}",),
    (f"localhost:{PORT}",),
    (),
    ("127.0.0.1",),
    ("127.0.0.1:80",),
    (f"evil.example:{PORT}",),
    (f"127.0.0.1:{PORT}", f"127.0.0.1:{PORT}"),
    (f"[::1]:{PORT}",),
)
ORIGINS: tuple[tuple[str, ...], ...] = (
    (),
    (OWN,),
    ("null",),
    ("http://evil.example",),
    (f"https://127.0.0.1:{PORT}",),
    (f"http://localhost:{PORT}",),
    ("http://127.0.0.1:8080",),
    (OWN, "http://evil.example"),
)
SITES = ("", "same-origin", "none", "same-site", "cross-site")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
PATHS = ("/", "/tree", "/events", "/rpc", "/mcp", "/link", "/enter/x", "/static/page.css", "/favicon.ico")
REFERERS = ("", f"{OWN}/tree", "http://evil.example/", f"{OWN}.evil.example/")
BEARERS = ("", TOKEN, "the-toke", "THE-TOKEN")


def everything() -> Iterator[tuple[object, ...]]:
    return itertools.product(METHODS, PATHS, HOSTS, ORIGINS, SITES, REFERERS, BEARERS, (False, True))


def test_whoever_passes_has_shown_all_that_the_address_asks_for() -> None:
    passed = 0
    for method, path, hosts, origins, site, referer, bearer, has_session in everything():
        asked = Asked(method, path, hosts, origins, site, referer, bearer, has_session)  # type: ignore[arg-type]
        if judge(asked, PORT, TOKEN) is not Verdict.PASS:
            continue
        passed += 1
        assert hosts in HOSTS[:2], asked
        door = door_of(asked.path)
        if door is Door.ENTER:
            assert method == "GET", asked
            continue
        assert site in ("", "same-origin", "none"), asked
        assert not origins or origins == (f"http://{asked.hosts[0]}",), asked
        if door is Door.TOKEN:
            assert bearer == TOKEN, asked
        elif door is Door.PUBLIC:
            assert method in ("GET", "HEAD"), asked
        else:
            assert has_session, asked
            assert method in ("GET", "HEAD") or origins or asked.referer.startswith(f"http://{asked.hosts[0]}/"), asked
    assert passed > 100


PAGE = Asked("GET", "/tree", (f"127.0.0.1:{PORT}",), has_session=True)
FORM = replace(PAGE, method="POST", origins=(OWN,), site="same-origin")
CALL = Asked("POST", "/rpc", (f"127.0.0.1:{PORT}",), bearer=TOKEN)


@pytest.mark.parametrize(
    "asked",
    [
        PAGE,
        replace(PAGE, site="none"),  # typed, or a bookmark
        replace(PAGE, hosts=(f"localhost:{PORT}",)),
        replace(PAGE, method="HEAD"),
        FORM,
        replace(FORM, origins=(), referer=f"{OWN}/tree"),
        replace(FORM, site=""),
        CALL,
        replace(CALL, origins=(OWN,), site="same-origin"),
        replace(CALL, path="/mcp", method="GET"),
        replace(CALL, path="/link"),
        replace(PAGE, path="/enter/abc", has_session=False, site="cross-site"),
        replace(PAGE, path="/static/page.css", has_session=False),
    ],
)
def test_what_is_meant_passes(asked: Asked) -> None:
    assert judge(asked, PORT, TOKEN) is Verdict.PASS


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (replace(PAGE, hosts=(f"evil.example:{PORT}",)), Verdict.WRONG_HOST),
        (replace(PAGE, path="/enter/abc", hosts=("evil.example",)), Verdict.WRONG_HOST),
        (replace(PAGE, site="cross-site"), Verdict.FOREIGN),
        (replace(PAGE, site="same-site"), Verdict.FOREIGN),
        (replace(PAGE, origins=("http://127.0.0.1:8080",)), Verdict.FOREIGN),
        (replace(PAGE, has_session=False), Verdict.NO_SESSION),
        (replace(PAGE, has_session=False, bearer=TOKEN), Verdict.NO_SESSION),
        (replace(FORM, origins=()), Verdict.FOREIGN),
        (replace(FORM, origins=("null",)), Verdict.FOREIGN),
        (replace(FORM, method="OPTIONS"), Verdict.WRONG_METHOD),
        (replace(CALL, bearer="", has_session=True), Verdict.NO_TOKEN),
        (replace(CALL, bearer="é"), Verdict.NO_TOKEN),
        (replace(CALL, origins=("http://evil.example",)), Verdict.FOREIGN),
        (replace(CALL, path="/rpc/more", bearer=""), Verdict.NO_TOKEN),
        (replace(PAGE, path="/enter/abc", method="HEAD"), Verdict.WRONG_METHOD),
        (replace(FORM, path="/enter/abc"), Verdict.WRONG_METHOD),
        (replace(FORM, path="/static/page.css"), Verdict.WRONG_METHOD),
    ],
)
def test_what_is_refused_is_told_why(asked: Asked, verdict: Verdict) -> None:
    assert judge(asked, PORT, TOKEN) is verdict


@pytest.mark.parametrize(
    ("path", "door"),
    [
        ("/", Door.PAGE),
        ("/tree", Door.PAGE),
        ("/rpcx", Door.PAGE),
        ("/Rpc", Door.PAGE),
        ("//rpc", Door.PAGE),
        ("/staticx", Door.PAGE),
        ("/static", Door.PUBLIC),
        ("*", Door.PAGE),
        ("", Door.PAGE),
        ("/link/", Door.TOKEN),
        ("/enter", Door.ENTER),
    ],
)
def test_every_address_has_one_door(path: str, door: Door) -> None:
    assert door_of(path) is door


def test_the_token_of_a_form_is_its_session_s_own() -> None:
    session, other = Session(0.0), Session(0.0)
    form, kind = f"{CSRF_FIELD}={session.csrf}&x=1".encode(), "application/x-www-form-urlencoded; charset=utf-8"
    assert has_csrf(session, "", kind, form)
    assert has_csrf(session, session.csrf, "application/json", b"{}")
    assert not has_csrf(other, "", kind, form)
    assert not has_csrf(session, other.csrf, kind, form)
    assert not has_csrf(session, "", "text/plain", form)
    assert not has_csrf(session, "", "", form)
    assert not has_csrf(session, "", kind, b"")
    assert not has_csrf(session, "", kind, b"\xff\xfe")
    assert not has_csrf(session, "", kind, b"csrf=x&csrf=" + session.csrf.encode())
