"""One-time links and the sessions they begin, with a clock that moves when told to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import FakeClock
from agent.gateway.links import LINK_SECONDS, LINKS_AT_ONCE, Entered, Links, enter_path, is_place
from agent.gateway.sessions import SESSION_SECONDS, SESSIONS_AT_ONCE, Sessions, cookie_name


def test_a_link_serves_once() -> None:
    links = Links(FakeClock())
    secret = links.mint()
    assert links.enter(secret) is Entered.WELCOME
    assert links.enter(secret) is Entered.USED


def test_a_link_is_old_after_a_minute_and_stays_so() -> None:
    clock = FakeClock()
    links = Links(clock)
    first, second = links.mint(), links.mint()
    clock.advance(LINK_SECONDS - 0.1)
    assert links.enter(first) is Entered.WELCOME
    clock.advance(0.2)
    assert links.enter(second) is Entered.EXPIRED
    assert links.enter(second) is Entered.EXPIRED


def test_what_nobody_minted_lets_nobody_in() -> None:
    links = Links(FakeClock())
    secret = links.mint()
    for guess in ("", secret[:-1], secret + "a", "\udcff"):
        assert links.enter(guess) is Entered.UNKNOWN


def test_many_links_and_tries_take_no_memory_for_ever() -> None:
    links = Links(FakeClock())
    secrets = [links.mint() for _ in range(LINKS_AT_ONCE * 3)]
    assert links.enter(secrets[0]) is Entered.UNKNOWN
    assert [links.enter(secret) for secret in secrets[-LINKS_AT_ONCE:]] == [Entered.WELCOME] * LINKS_AT_ONCE
    for _ in range(LINKS_AT_ONCE * 3):
        links.enter(links.mint())
    assert len(links._used) <= LINKS_AT_ONCE
    assert len(links._until) <= LINKS_AT_ONCE


@pytest.mark.parametrize(
    "place", ["", "tree", "sources/add", "models/my-model.2/consent", "help/bug-report", "show/leaf:ab12"]
)
def test_places_of_ours_are_led_to(place: str) -> None:
    assert is_place(place)


@pytest.mark.parametrize(
    "place",
    ["/", "//evil.example", "/\\evil.example", "https://evil.example", "\\evil", "tree/", "..",
     "a//b", "a/../b", "./a", "tree?x=1", "tree#x", "tree\n", "javascript:alert(1)", "a" * 201, "tree%2f", " tree"],
)  # fmt: skip
def test_no_link_leads_elsewhere(place: str) -> None:
    assert not is_place(place)


@given(st.text(max_size=40))
def test_whatever_counts_as_a_place_stays_on_our_origin(place: str) -> None:
    from urllib.parse import urljoin, urlsplit

    if is_place(place):
        target = urlsplit(urljoin("http://127.0.0.1:5000/enter/x", f"/{place}"))
        assert (target.scheme, target.netloc) == ("http", "127.0.0.1:5000")
        assert target.path == f"/{place}"
        assert enter_path("x", place) in (f"/enter/x?to={place}", "/enter/x")


def test_a_session_is_found_by_its_secret_alone_and_ends() -> None:
    clock = FakeClock()
    sessions = Sessions(clock)
    secret, session = sessions.begin()
    assert sessions.find(secret) is session
    assert sessions.find(secret + "x") is None
    assert sessions.find("") is None
    assert sessions.find(None) is None
    clock.advance(SESSION_SECONDS)
    assert sessions.find(secret) is None


def test_the_sixty_fifth_session_ends_the_first() -> None:
    sessions = Sessions(FakeClock())
    secrets = [sessions.begin()[0] for _ in range(SESSIONS_AT_ONCE + 1)]
    assert sessions.find(secrets[0]) is None
    assert all(sessions.find(secret) for secret in secrets[1:])


def test_no_secret_of_a_session_is_kept_or_shown() -> None:
    sessions = Sessions(FakeClock())
    secret, session = sessions.begin()
    assert secret not in str(sessions._held)
    assert session.csrf not in repr(session)


def test_two_agents_of_one_machine_have_cookies_of_their_own() -> None:
    assert cookie_name(4001) != cookie_name(4002)
