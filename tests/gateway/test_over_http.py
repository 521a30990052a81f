"""The guard of a real process, over real HTTP."""

from __future__ import annotations

import concurrent.futures
import socket
import time

import httpx
import pytest

from tests.gateway.conftest import Served


def test_a_link_lets_a_browser_in_and_leads_on_to_its_place(shared: Served) -> None:
    browser = shared.client()
    entered = browser.get(shared.link("tree"), headers={"Sec-Fetch-Site": "cross-site"})
    assert entered.status_code == 200
    assert 'url=/tree"' in entered.text
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"sapwood_session_{shared.address.port}=")
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert "Domain" not in cookie
    assert browser.get("/tree").json() == {"sources": 0}


def test_a_used_link_says_so_and_lets_nobody_in(shared: Served) -> None:
    link = shared.link()
    assert shared.client().get(link).status_code == 200
    second = shared.client().get(link)
    assert second.status_code == 403
    assert "used already" in second.text
    assert "sapwood open" in second.text
    assert "set-cookie" not in second.headers


def test_a_used_link_still_leads_the_browser_that_used_it(shared: Served) -> None:
    browser = shared.client()
    link = shared.link("tree")
    first, again = browser.get(link), browser.get(link)
    assert (first.status_code, again.status_code) == (200, 200)
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize("body", ["[" * 100_000, '{"to":' * 100_000, '{"to":' + "9" * 5_000 + "}", "\x00"])
def test_rubbish_in_place_of_a_place_is_refused_as_such(shared: Served, body: str) -> None:
    answer = shared.client().post("/link", content=body, headers=shared.bearer)
    assert answer.status_code == 400
    assert answer.json()["error"] == "This is no place of the page"


def test_an_invented_link_says_so(shared: Served) -> None:
    answer = shared.client().get("/enter/abcdef?to=tree")
    assert answer.status_code == 403
    assert "not known" in answer.text


@pytest.mark.parametrize("headers", [{"Sec-Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}])
def test_loading_ahead_uses_no_link_up(shared: Served, headers: dict[str, str]) -> None:
    link = shared.link()
    assert shared.client().get(link, headers=headers).status_code == 503
    assert shared.client().head(link).status_code == 405
    assert shared.client().get(link).status_code == 200


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/tree", "..", 7, None])
def test_no_link_is_made_to_elsewhere(shared: Served, place: object) -> None:
    answer = shared.client().post("/link", json={"to": place}, headers=shared.bearer)
    assert answer.status_code == 400
    swapped = shared.link().split("?")[0] + "?to=//evil.example"
    assert shared.client().get(swapped).status_code == 400


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "evil.example:{port}"])
def test_a_foreign_host_is_refused_with_cookie_and_token(shared: Served, host: str) -> None:
    headers = {"Host": host.format(port=shared.address.port)}
    browser = shared.browser()
    for answer in (
        browser.get("/", headers=headers),
        browser.get("/static/page.css", headers=headers),
        shared.client().post("/rpc", headers=headers | shared.bearer),
    ):
        assert answer.status_code == 421


def test_a_foreign_origin_is_refused_with_cookie_and_token(shared: Served) -> None:
    headers = {"Origin": "http://evil.example"}
    browser = shared.browser()
    token = browser.get("/").json()["csrf"]
    assert browser.get("/", headers=headers).status_code == 403
    assert browser.post("/sources/add", data={"csrf": token}, headers=headers).status_code == 403
    assert shared.client().post("/rpc", headers=headers | shared.bearer).status_code == 403
    assert browser.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.get("/", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403


def test_without_a_cookie_a_page_says_how_to_open_it(shared: Served) -> None:
    for path in ("/", "/tree", "/events", "/nowhere"):
        answer = shared.client().get(path)
        assert answer.status_code == 403
        assert "sapwood open" in answer.text
    other = shared.client()
    other.cookies.set(f"sapwood_session_{shared.address.port}", "invented")
    assert other.get("/").status_code == 403


def test_programs_need_the_token_of_this_start_and_no_cookie_helps(shared: Served) -> None:
    browser = shared.browser()
    for headers in ({}, {"Authorization": "Bearer old"}, {"Authorization": f"Basic {shared.token}"}):
        answer = browser.post("/rpc", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "rpc.token" in answer.json()["hint"]
        assert browser.post("/link", json={}, headers=headers).status_code == 401
        assert browser.post("/mcp", headers=headers).status_code == 401
    assert shared.client().post("/rpc", content=b"12", headers=shared.bearer).json() == {"bytes": 2}
    assert shared.client().get("/", headers=shared.bearer).status_code == 403


def test_a_form_without_its_token_changes_nothing(shared: Served) -> None:
    browser = shared.browser()
    token = browser.get("/").json()["csrf"]
    origin = {"Origin": shared.origin}
    assert browser.post("/sources/add", data={"path": "x"}, headers=origin).status_code == 403
    assert browser.post("/sources/add", data={"path": "x", "csrf": "y"}, headers=origin).status_code == 403
    assert browser.post("/sources/add", data={"path": "x", "csrf": token}).status_code == 403
    strange = shared.browser().get("/").json()["csrf"]
    assert browser.post("/sources/add", data={"path": "x", "csrf": strange}, headers=origin).status_code == 403
    sent = browser.post("/sources/add", data={"path": "x", "csrf": token}, headers=origin)
    assert sent.json() == {"path": "x", "csrf": token}
    by_script = browser.post("/sources/add", data={"path": "x"}, headers=origin | {"X-CSRF-Token": token})
    assert by_script.json() == {"path": "x"}
    by_referer = {"Referer": f"{shared.origin}/tree"}
    assert browser.post("/sources/add", data={"csrf": token}, headers=by_referer).status_code == 200


def test_a_body_that_is_too_large_is_refused_in_words(shared: Served) -> None:
    browser = shared.browser()
    token = browser.get("/").json()["csrf"]
    headers = {"Origin": shared.origin, "X-CSRF-Token": token}
    answer = browser.post("/sources/add", data={"path": "x" * 1_100_000}, headers=headers)
    assert answer.status_code == 413
    assert "1 MB" in answer.text
    many = (b"x" * 100_000 for _ in range(210))  # chunked: no length is told before
    answer = shared.client().post("/rpc", content=many, headers=shared.bearer)
    assert answer.status_code == 413
    assert "20 MB" in answer.json()["detail"]
    large = shared.client().post("/rpc", content=b"x" * 15_000_000, headers=shared.bearer)
    assert large.json() == {"bytes": 15_000_000}


def test_every_answer_carries_our_headers_and_none_opens_us_to_others(shared: Served) -> None:
    browser = shared.browser()
    for answer in (
        browser.get("/"),
        browser.get("/nowhere"),
        browser.get("/broken"),
        browser.get("/static/page.css"),
        shared.client().get("/"),
        shared.client().get(shared.link()),
        shared.client().post("/rpc", headers=shared.bearer),
        shared.client().request("OPTIONS", "/rpc", headers=shared.bearer | {"Origin": "http://evil.example"}),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers


def test_errors_are_told_as_pages_and_as_json(shared: Served) -> None:
    browser = shared.browser()
    page = browser.get("/refused", headers={"Accept": "text/html"})
    assert page.status_code == 400
    assert "There is no source with this name" in page.text
    assert "<nav" in page.text
    json = browser.get("/refused", headers={"Accept": "application/json"})
    assert json.json()["error"] == "there is no source with this name"
    nowhere = browser.get("/nowhere")
    assert nowhere.status_code == 404
    assert "<nav" in nowhere.text
    assert browser.get("/sources/add").status_code == 405
    program = shared.client().get("/rpc/nowhere", headers=shared.bearer | {"Accept": "application/json"})
    assert (program.status_code, program.json()["error"]) == (404, "There is no such page")


def test_an_error_nobody_caught_shows_its_words_nowhere(shared: Served) -> None:
    answer = shared.browser().get("/broken")
    assert answer.status_code == 500
    assert "sapwood doctor" in answer.text
    log = (shared.paths.log_dir / "gateway.log").read_text("utf-8")
    assert "RuntimeError" in log
    for text in (answer.text, log):
        assert "planted" not in text


def test_addresses_that_are_asked_for_are_in_no_log(shared: Served) -> None:
    shared.browser().get("/tree?q=plantedsearch")
    assert "plantedsearch" not in (shared.paths.log_dir / "gateway.log").read_text("utf-8")


def test_two_hundred_at_once_are_all_answered(shared: Served) -> None:
    browser = shared.browser()
    cookies = dict(browser.cookies)

    def ask(_: int) -> int:
        return httpx.get(f"{shared.origin}/tree", cookies=cookies, timeout=20, trust_env=False).status_code

    with concurrent.futures.ThreadPoolExecutor(200) as crowd:
        assert list(crowd.map(ask, range(200))) == [200] * 200


def test_what_waits_for_a_model_keeps_no_other_waiting(shared: Served) -> None:
    browser = shared.browser()
    cookies = dict(browser.cookies)
    with concurrent.futures.ThreadPoolExecutor(8) as crowd:
        slow = [
            crowd.submit(httpx.get, f"{shared.origin}/slow", cookies=cookies, timeout=20, trust_env=False)
            for _ in range(8)
        ]
        # Eight for four threads of half a second each: the last are done after a second at the earliest.
        assert browser.get("/tree").status_code == 200
        assert not all(each.done() for each in slow)
        assert [each.result().status_code for each in slow] == [200] * 8


def test_callers_that_send_half_a_request_keep_nobody_waiting(shared: Served) -> None:
    heads = [socket.create_connection(("127.0.0.1", shared.address.port)) for _ in range(60)]
    try:
        for head in heads[:30]:
            head.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        browser = shared.browser()
        for body in heads[30:]:
            body.sendall(
                f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{shared.address.port}\r\n"
                f"Authorization: Bearer {shared.token}\r\nContent-Length: 100\r\n\r\nhalf".encode()
            )
        began = time.monotonic()
        assert browser.get("/tree").status_code == 200
        assert time.monotonic() - began < 2
    finally:
        for each in heads:
            each.close()
    assert browser.get("/tree").status_code == 200
    assert "ClientDisconnect" not in (shared.paths.log_dir / "gateway.log").read_text("utf-8")


def test_what_is_no_http_is_turned_away(shared: Served) -> None:
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\0" * 100_000):
        with socket.create_connection(("127.0.0.1", shared.address.port), timeout=5) as line:
            line.sendall(junk)
            try:
                assert line.recv(12) == b"HTTP/1.1 400"
            except ConnectionResetError:
                continue
    assert shared.browser().get("/").status_code == 200
