"""What the server tells of its clients: who is in flight, who left, and when."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.scripted import Serving, behave, serving, spawned

BODY = {"model": "scripted-chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


def asked(port: int, path: str, body: Any = None) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()


def knock(port: int, **changes: Any) -> socket.socket:
    """Send a chat and read nothing."""
    client = socket.create_connection(("127.0.0.1", port))
    body = json.dumps({**BODY, **changes}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def test_a_client_that_leaves_before_the_first_byte_is_seen_at_once(server: Serving) -> None:
    server.use("silent")
    client = knock(server.port)
    server.wait_for(lambda calls: len(calls) == 1)
    client.close()
    call = server.wait_for(lambda calls: calls[0].ended is not None, 2)[0]
    assert (call.how, call.first_byte, call.bytes_sent) == ("closed_by_client", None, 0)


def test_a_client_that_leaves_in_the_middle_is_told_from_one_that_left_before(server: Serving) -> None:
    server.use(behave("slow_stream"))
    client = knock(server.port, stream=True)
    server.wait_for(lambda calls: calls and calls[0].first_byte is not None)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    call = server.wait_for(lambda calls: calls[0].ended is not None, 2)[0]
    assert call.how == "closed_by_client"
    assert call.bytes_sent > 0


def test_calls_in_flight_are_counted_now_and_at_most(server: Serving) -> None:
    server.use("held")
    threads = [threading.Thread(target=asked, args=(server.port, "/api/chat", BODY)) for _ in range(3)]
    for thread in threads:
        thread.start()
    server.wait_for(lambda calls: len(calls) == 3)
    assert (server.in_flight, server.most) == (3, 3)
    server.release()
    for thread in threads:
        thread.join(10)
    assert (server.in_flight, server.most) == (0, 3)
    assert [call.how for call in server.calls()] == ["answered"] * 3
    assert sorted(call.side_by_side for call in server.calls()) == [1, 2, 3]


def test_a_list_of_models_is_no_call_of_a_model(server: Serving) -> None:
    assert asked(server.port, "/v1/models")[0] == 200
    assert server.calls("models")[0].how == "answered"
    assert server.most == 0


def test_it_goes_away_and_comes_back_on_the_same_port(server: Serving) -> None:
    server.go_away()
    with pytest.raises(ConnectionRefusedError):
        asked(server.port, "/v1/models")
    server.come_back()
    assert asked(server.port, "/v1/models")[0] == 200


def test_a_server_of_its_own_process_is_told_what_to_do_and_writes_down_what_it_saw(tmp_path: Path) -> None:
    with spawned(tmp_path / "calls.jsonl") as server:
        server.queue("payment", behave("ok", finish="length"))
        assert [asked(server.port, "/api/chat", BODY)[0] for _ in range(2)] == [402, 200]
        server.use("error_500", model="scripted-chat")
        assert asked(server.port, "/v1/chat/completions", BODY)[0] == 500
        assert [(call.protocol, call.behaviour, call.how) for call in server.calls("chat")] == [
            ("ollama", "payment", "answered"),
            ("ollama", "ok", "answered"),
            ("openai", "error_500", "answered"),
        ]
        assert server.order() == {"calls": 3, "in_flight": 0, "most": 1}
        process = server.process
    assert process.wait(5) == 0
