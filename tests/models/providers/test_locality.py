"""A local profile reaches this machine and what its owner named, whatever a name server, a proxy or a server says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from agent.models.providers.locality import in_order, may_connect
from tests.models.providers.asking import ASK, PROVIDERS, answered, failure_of, on_chat, opened, run
from tests.models.providers.server import Asked, serving

Resolve = Callable[[dict[str, str]], None]


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Return a function that makes host names stand for other addresses."""
    real = socket.getaddrinfo

    def use(table: dict[str, str]) -> None:
        def look(host: str, *args: object, **kwargs: object) -> list[object]:
            return list(real(table.get(host, host), *args, **kwargs))  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", look)

    return use


@pytest.mark.parametrize(
    ("host", "address", "named", "allowed"),
    [
        ("localhost", "127.0.0.1", (), True),
        ("127.0.0.1", "127.0.0.1", (), True),
        ("localhost", "::1", (), True),
        ("localhost", "192.168.1.9", (), False),
        ("localhost", "192.168.1.9", ("localhost",), False),
        ("localhost", "8.8.8.8", (), False),
        ("models.example", "127.0.0.1", (), True),
        ("box.lan", "192.168.1.9", (), False),
        ("box.lan", "192.168.1.9", ("box.lan",), True),
        ("BOX.lan", "192.168.1.9", ("box.LAN",), True),
        ("box.lan", "100.64.3.2", ("box.lan",), True),
        ("box.lan", "fd00::9", ("box.lan",), True),
        ("box.lan", "fe80::9%eth0", ("box.lan",), True),
        ("box.lan", "8.8.8.8", ("box.lan",), False),
        ("box.lan", "::ffff:8.8.8.8", ("box.lan",), False),
        ("box.lan", "::ffff:192.168.1.9", ("box.lan",), True),
        ("box.lan", "8.8.8.8", ("box.lan", "8.8.8.8"), True),
        ("box.lan", "0.0.0.0", ("box.lan",), False),
        ("192.168.1.9", "192.168.1.9", ("192.168.1.9",), True),
        ("192.168.1.8", "192.168.1.8", ("192.168.1.9",), False),
        ("other.lan", "192.168.1.9", ("box.lan",), False),
        ("box.lan", "no address", ("box.lan",), False),
    ],
)
def test_where_a_local_profile_may_connect(host: str, address: str, named: tuple[str, ...], allowed: bool) -> None:
    assert may_connect(host, address, named) is allowed


def test_loopback_is_tried_by_ipv4_first() -> None:
    assert in_order(["::1", "127.0.0.1", "::1"]) == ["127.0.0.1", "::1"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("host", ["localhost", "box.lan", "gpu.localhost"])
def test_a_name_that_stands_for_an_address_elsewhere_is_refused_before_a_byte(
    provider: str, host: str, resolving: Resolve
) -> None:
    resolving({host: "192.0.2.7"})  # documentation's own: nobody is there

    async def work() -> None:
        async with opened(provider, f"http://{host}:9/v1", connect_s=2.0) as made:
            failure = await failure_of(made.chat(ASK))
        assert failure.code == "not_local"
        assert failure.is_unrecoverable()
        assert host in failure.title
        assert "nothing was sent" in failure.detail
        assert "local_hosts" in failure.hint

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_named_host_is_reached_by_its_name(provider: str, resolving: Resolve) -> None:
    resolving({"box.lan": "127.0.0.1"})

    async def work() -> None:
        async with serving(on_chat(answered)) as server:
            url = f"http://box.lan:{server.port}" + ("/v1" if provider == "openai" else "")
            async with opened(provider, url, local_hosts=("box.lan",)) as made:
                assert (await made.chat(ASK)).text == "Well."
            assert server.asked[-1].headers["host"] == f"box.lan:{server.port}"

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("local_only", [True, False])
def test_no_redirect_is_followed(provider: str, status: int, local_only: bool) -> None:
    async def work() -> None:
        async with serving(on_chat(answered)) as elsewhere:

            async def redirect(asked: Asked) -> None:
                await asked.answer(status, "", {"Location": f"{elsewhere.url}{asked.path}"})

            async with serving(on_chat(redirect)) as server, opened(provider, server, local_only=local_only) as made:
                failure = await failure_of(made.chat(ASK))
            assert elsewhere.asked == []
            assert failure.code == "unreachable"
            assert "another address" in failure.title

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_proxy_of_the_environment_never_sees_what_is_local(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with serving(answered) as proxy, serving(on_chat(answered)) as server:
            for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)
            async with opened(provider, server) as made:
                assert (await made.chat(ASK)).text == "Well."
            assert proxy.asked == []
            assert server.asked

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_cloud_profile_goes_through_the_owner_s_proxy(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def through(asked: Asked) -> None:
        asked.path = urlsplit(asked.path).path
        await on_chat(answered)(asked)

    async def work() -> None:
        async with serving(through) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            url = "http://models.example" + ("/v1" if provider == "openai" else "")
            async with opened(provider, url, local_only=False) as made:
                assert (await made.chat(ASK)).text == "Well."
            assert proxy.asked[-1].headers["host"] == "models.example"

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_proxy_that_cannot_be_used_is_told(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks://127.0.0.1:9/")

    async def work() -> None:
        async with opened(provider, "https://models.example/v1", local_only=False) as made:
            failure = await failure_of(made.chat(ASK))
        assert failure.code == "unreachable"
        assert "proxy" in failure.title
        assert "HTTPS_PROXY" in failure.hint
        assert failure.__context__ is None

    run(work())
