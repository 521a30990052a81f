"""JSON-RPC: the standard's words, what is taken and what is refused, and that what was taken is on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.actions.home import open_home
from agent.config import load_intent
from agent.paths import Paths
from tests.assistants.conftest import SECRET, Rpc
from tests.cli.agents import grow, overwrite

DOCUMENT = {"text": "The tortoise is called Agathe.", "key": "tortoise", "title": "The tortoise"}

Call = Callable[..., Any]


@pytest.fixture
def call(rpc: Rpc) -> Call:
    """Return a function from a method and its parameters to the whole answer."""

    def one(method: str, **params: Any) -> Any:
        answer = rpc({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        assert answer.status_code == 200
        document = answer.json()
        assert (document["jsonrpc"], document["id"]) == ("2.0", 7)
        return document

    return one


def code_of(answer: Any) -> int:
    return int(answer["error"]["code"])


# -- the standard -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"3", -32600),
        (b"[]", -32600),
        (b'{"method": "memory.status", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "memory.status"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory.status", "params": 3}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory.dream"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory.search"}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory.search", "params": ["key"]}', -32602),
    ],
)
def test_what_is_no_request_is_refused_by_the_standards_codes(rpc: Rpc, body: bytes, code: int) -> None:
    answer = rpc(body)
    assert answer.status_code == 200
    document = answer.json()
    assert code_of(document) == code
    assert document["jsonrpc"] == "2.0"
    assert "id" in document


def test_without_the_token_nothing_is_carried_out(rpc: Rpc, paths: Paths) -> None:
    push = {"jsonrpc": "2.0", "id": 1, "method": "memory.ingest", "params": {"source_id": "x", "document": DOCUMENT}}
    assert rpc(push, token="another").status_code == 401
    assert not (paths.inbox / "x").exists()


def test_a_batch_is_answered_one_by_one_and_a_notification_not_at_all(rpc: Rpc, paths: Paths) -> None:
    push = {"jsonrpc": "2.0", "method": "memory.ingest", "params": {"source_id": "zoo", "document": DOCUMENT}}
    answer = rpc([push, {"jsonrpc": "2.0", "id": "a", "method": "memory.status"}, 3])
    first, second = answer.json()
    assert first["id"] == "a"
    assert [each["source_id"] for each in first["result"]["sources"]] == ["zoo"]
    assert (second["id"], code_of(second)) == (None, -32600)
    assert len(list((paths.inbox / "zoo").glob("*.json"))) == 1
    assert rpc(push).status_code == 204
    assert rpc([push, push]).status_code == 204


# -- handing in -------------------------------------------------------------------------------------------------------


def test_each_shape_is_taken_is_in_the_inbox_and_is_found(rpc: Rpc, call: Call, paths: Paths) -> None:
    when = "2025-06-14T18:30:00+02:00"
    chat = {"conversation": "zoo", "messages": [{"author": "Ada", "text": "Feed the okapi.", "time": when, "id": "1"}]}
    email = {"text": "The walrus has arrived.", "subject": "Walrus", "sender": "ada@example.org", "time": when}
    for source_id, content in (("d", {"document": DOCUMENT}), ("c", {"chat": chat}), ("e", {"email": email})):
        result = call("memory.ingest", source_id=source_id, owner="Ada", tags=["zoo"], **content)["result"]
        assert result["source_id"] == source_id
        assert result["item_keys"]
        assert "`sapwood run`" in result["notes"][0]
        assert len(list((paths.inbox / source_id).glob("*.json"))) == 1
    assert [source.id for source in load_intent(paths).intent.sources] == ["d", "c", "e"]
    grow(paths)
    for word, source_id in (("Agathe", "d"), ("okapi", "c"), ("walrus", "e")):
        (hit, *_) = call("memory.search", query=word)["result"]["hits"]
        assert hit["origin"]["source_id"] == source_id
        assert hit["origin"]["time"] in (None, "2025-06-14T16:30:00+00:00")
        assert word in call("memory.fetch", id=hit["id"])["result"]["text"]
    assert call("memory.drill_down")["result"]["total"] == 3


def test_the_same_again_is_one_item_and_a_changed_one_is_a_new_version(call: Call, paths: Paths) -> None:
    keys = [call("memory.ingest", source_id="zoo", document=DOCUMENT)["result"]["item_keys"] for _ in range(3)]
    assert keys == [["tortoise"]] * 3
    call("memory.ingest", source_id="zoo", document={**DOCUMENT, "text": "The tortoise has moved to Bremen."})
    grow(paths)
    assert len(list((paths.inbox / "zoo").glob("*.json"))) == 1
    with open_home(paths) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_items WHERE source_id = 'zoo'") == 1
    found = call("memory.search", query="tortoise", kind="leaf")["result"]["hits"]
    assert ["Bremen" in hit["text"] for hit in found] == [True]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "source_id"),
        ({"source_id": "No Such"}, "source_id"),
        ({"source_id": "zoo"}, "chat, email and document"),
        ({"source_id": "zoo", "document": DOCUMENT, "email": {"text": "x"}}, "chat, email and document"),
        ({"source_id": "zoo", "document": {**DOCUMENT, "time": "yesterday"}}, "document.time"),
        ({"source_id": "zoo", "document": {**DOCUMENT, "time": "2025-06-14T18:30:00"}}, "document.time"),
        ({"source_id": "zoo", "document": {**DOCUMENT, "attachment": "x"}}, "attachment"),
        ({"source_id": "zoo", "document": {"title": "x"}}, "text"),
        ({"source_id": "zoo", "chat": {"messages": [{"author": "a", "text": 3}]}}, "chat.messages[0].text"),
        ({"source_id": "zoo", "chat": {"messages": []}}, "chat.messages"),
        ({"source_id": "zoo", "private": "yes", "document": DOCUMENT}, "private"),
        ({"source_id": "zoo", "tags": [1], "document": DOCUMENT}, "tags"),
    ],
)
def test_what_is_not_taken_is_refused_by_its_name(call: Call, paths: Paths, params: dict[str, Any], field: str) -> None:
    answer = call("memory.ingest", **params)
    assert code_of(answer) == -32602
    assert field in answer["error"]["message"]
    assert (
        "source_id (required)" in answer["error"]["data"]["hint"]
        or "call of its own" in answer["error"]["data"]["hint"]
    )
    assert not list(paths.inbox.glob("*")) if paths.inbox.exists() else True


def test_an_empty_or_an_overlong_item_is_refused_with_what_to_do(call: Call, paths: Paths) -> None:
    empty = call("memory.ingest", source_id="zoo", document={"text": " \n"})
    large = call("memory.ingest", source_id="zoo", document={"text": "word " * 1_700_000})
    for answer in (empty, large):
        assert code_of(answer) == -32000
        assert answer["error"]["data"]["hint"]
    assert "8,000,000" in large["error"]["data"]["hint"]
    assert load_intent(paths).intent.sources == ()


def test_a_source_of_the_owners_takes_no_pushes(call: Call, rpc: Rpc, grown: Paths) -> None:
    answer = call("memory.ingest", source_id="notes", document=DOCUMENT)
    assert code_of(answer) == -32000
    assert "another source_id" in answer["error"]["data"]["hint"]
    assert not (grown.inbox / "notes").exists()


def test_a_private_source_may_be_pushed_and_not_read(call: Call, paths: Paths) -> None:
    call("memory.ingest", source_id="plain", document=DOCUMENT)
    call("memory.ingest", source_id="secret", private=True, document={"text": SECRET})
    assert load_intent(paths).intent.is_private("secret")
    grow(paths)
    answers = [call("memory.search", query=SECRET), call("memory.status"), call("memory.drill_down")]
    assert "quillwort" not in json.dumps(answers)
    assert "secret" not in json.dumps(answers)
    refused = call("memory.ingest", source_id="plain", private=True, document={"text": SECRET})
    assert code_of(refused) == -32000
    assert not any("quillwort" in path.read_text("utf-8") for path in (paths.inbox / "plain").glob("*.json"))


def test_a_first_push_that_another_one_overtook_is_not_kept_in_a_source_that_is_not_private(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.actions.assistants_push import ingest
    from agent.errors import UsageFault
    from agent.ingest.push import DocumentContent

    with open_home(paths) as early, open_home(paths) as late:
        ingest(late, "zoo", DocumentContent(text="Everybody may read this.", key="a"))
        with pytest.raises(UsageFault, match="not private"):
            ingest(early, "zoo", DocumentContent(text=SECRET, key="b"), private=True)
    assert not any("quillwort" in path.read_text("utf-8") for path in (paths.inbox / "zoo").glob("*.json"))


def test_what_was_forgotten_is_refused_and_left_out_where_it_is_a_part(call: Call, paths: Paths) -> None:
    from agent.actions.choosing import Wanted
    from agent.actions.forgetting import forget, preview

    secret = {"author": "Ada", "text": SECRET, "time": "2025-06-14T18:30:00Z"}
    plain = {"author": "Ada", "text": "Good morning.", "time": "2025-06-15T08:00:00Z"}
    call("memory.ingest", source_id="zoo", chat={"messages": [secret]})
    call("memory.ingest", source_id="docs", document={"text": SECRET})
    grow(paths)
    with open_home(paths) as home:
        wanted = Wanted(words="quillwort")
        forget(home, wanted, preview(home, wanted)[1])
    answer = call("memory.ingest", source_id="docs", document={"text": SECRET})
    assert code_of(answer) == -32000
    assert "forgotten" in answer["error"]["message"]
    call("memory.ingest", source_id="zoo", chat={"messages": [secret, plain]})
    kept = "".join(path.read_text("utf-8") for path in paths.inbox.rglob("*.json"))
    assert "quillwort" not in kept
    assert "Good morning" in kept


# -- where something is wrong -----------------------------------------------------------------------------------------


def test_errors_say_what_to_do(call: Call) -> None:
    answer = call("memory.search", query="key")
    assert code_of(answer) == -32000
    assert answer["error"]["message"] == answer["error"]["data"]["title"] == "there is no memory yet"
    assert "sapwood add" in answer["error"]["data"]["hint"]


def test_a_damaged_memory_says_doctor_and_takes_what_is_handed_in(call: Call, grown: Paths) -> None:
    overwrite(grown.database, range(1, 3))
    answer = call("memory.search", query="key")
    assert code_of(answer) == -32000
    assert "sapwood doctor" in answer["error"]["data"]["hint"]
    assert call("memory.ingest", source_id="zoo", document=DOCUMENT)["result"]["item_keys"] == ["tortoise"]
    assert len(list((grown.inbox / "zoo").glob("*.json"))) == 1


def test_a_full_disk_acknowledges_nothing(call: Call, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agent.ingest.push.write_atomically", full)
    answer = call("memory.ingest", source_id="zoo", document=DOCUMENT)
    assert code_of(answer) == -32603
    assert "send it again" in answer["error"]["data"]["hint"]
    assert load_intent(paths).intent.sources == ()
