"""A call that is ended closes its socket at once, and no server holds one for longer than the limits say."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing
from importlib import import_module

import pytest

from tests.models.providers.asking import ASK, PROVIDERS, endpoint, failure_of, failure_with, on_chat, opened, run
from tests.models.providers.server import Asked, serving

CLOSED_WITHIN_S = 0.3


async def _silent(asked: Asked) -> None:
    await asked.wait_for_the_end()


async def _talking(asked: Asked) -> None:
    """Begin an answer and say no more."""
    if asked.path == "/api/chat":
        await asked.start_stream("application/x-ndjson")
        await asked.chunk('{"model":"m","message":{"role":"assistant","content":"one"},"done":false}\n')
    else:
        await asked.start_stream()
        await asked.chunk('data: {"type":"ping","choices":[{"delta":{"content":"one"}}]}\n\n')
    await asked.wait_for_the_end()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("server_does", [_silent, _talking], ids=["before the first token", "in the middle"])
def test_cancelling_closes_the_socket_within_300_ms(provider: str, server_does: object) -> None:
    async def work() -> None:
        async with serving(on_chat(server_does)) as server, opened(provider, server) as made:  # type: ignore[arg-type]
            call = asyncio.create_task(made.chat(ASK))
            while not any("chat" in path or "messages" in path for path in server.paths()):
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)  # the beginning of the answer has come
            assert not server.gone_at
            cancelled_at = time.monotonic()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(server.gone.wait(), CLOSED_WITHIN_S)
            assert server.gone_at[0] - cancelled_at < CLOSED_WITHIN_S

    run(work())


@pytest.mark.parametrize(("provider", "last"), [("openai", "[DONE]"), ("anthropic", '{"type":"message_stop"}')])
def test_an_answer_is_over_at_its_end_although_the_server_holds_the_line(provider: str, last: str) -> None:
    async def hold(asked: Asked) -> None:
        await asked.start_stream()
        await asked.chunk(f"data: {last}\n\n")
        await asked.wait_for_the_end()

    async def work() -> None:
        async with serving(on_chat(hold)) as server, opened(provider, server) as made:
            await made.chat(ASK)
            await asyncio.wait_for(server.gone.wait(), CLOSED_WITHIN_S)

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_dribbles_for_ever_is_ended_by_the_total_limit(provider: str) -> None:
    async def dribble(asked: Asked) -> None:
        await asked.start_stream("application/x-ndjson" if asked.path == "/api/chat" else "text/event-stream")
        while True:
            await asked.chunk(" ")
            await asyncio.sleep(0.02)

    import_module(provider)
    started = time.monotonic()
    failure = run(failure_with(provider, on_chat(dribble), read_s=5.0, total_s=0.4))
    assert time.monotonic() - started < 3
    assert (failure.code, failure.is_unrecoverable()) == ("unreachable", False)
    assert "did not finish in 0.4 s" in failure.title
    assert "total_seconds" in failure.hint


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_silent_server_is_ended_by_the_read_limit(provider: str) -> None:
    failure = run(failure_with(provider, on_chat(_silent), read_s=0.2, total_s=10.0))
    assert (failure.code, failure.is_unrecoverable()) == ("unreachable", False)
    assert "silent for 0.2 s" in failure.title
    assert "read_seconds" in failure.hint


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_name_server_that_says_nothing_is_ended_by_the_connect_limit_and_holds_nobody(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_args: object, **_kwargs: object) -> list[object]:
        time.sleep(4)
        return []

    import_module(provider)  # takes seconds itself on a machine that has other work
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    started = time.monotonic()

    async def work() -> None:
        async with opened(provider, "http://models.example:9/v1", local_only=False, connect_s=0.2) as made:
            failure = await failure_of(made.chat(ASK))
        assert failure.code == "unreachable"
        assert "did not take the connection in 0.2 s" in failure.title

    run(work())
    assert time.monotonic() - started < 3, "the loop waited for the name server"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_absent_server_says_how_to_start_it(provider: str) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    async def work() -> None:
        async with opened(provider, url) as made:
            failure = await failure_of(made.chat(ASK))
        assert (failure.code, failure.is_unrecoverable()) == ("unreachable", False)
        assert url.removeprefix("http://") in failure.title
        assert "does not answer" in failure.title
        assert ("ollama serve" if provider == "ollama" else "start the model server") in failure.hint

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_breaks_off_is_no_answer(provider: str) -> None:
    async def break_off(asked: Asked) -> None:
        await _begin(asked)
        asked.writer.transport.abort()

    async def end_early(asked: Asked) -> None:
        await _begin(asked)
        await asked.end_stream()

    async def hang_up(asked: Asked) -> None:
        asked.writer.close()

    for script in (break_off, end_early, hang_up):
        failure = run(failure_with(provider, on_chat(script)))
        assert (failure.code, failure.is_unrecoverable()) == ("unreachable", False), script
        assert "broke off" in failure.title


async def _begin(asked: Asked) -> None:
    if asked.path == "/api/chat":
        await asked.start_stream("application/x-ndjson")
        await asked.chunk('{"model":"m","message":{"role":"assistant","content":"one"},"done":false}\n')
    else:
        await asked.start_stream()
        await asked.chunk(
            'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"one"},'
            '"choices":[{"delta":{"content":"one"}}]}\n\n'
        )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_limits_are_those_of_the_endpoint(provider: str) -> None:
    made = endpoint(provider, "http://127.0.0.1:1", connect_s=1.0, read_s=2.0, total_s=3.0)
    import httpcore
    import httpx

    from agent.models.providers.connecting import client_settings

    timeout = client_settings(httpx, httpcore, made)["timeout"]
    assert (timeout.connect, timeout.read, timeout.write) == (1.0, 2.0, 2.0)
