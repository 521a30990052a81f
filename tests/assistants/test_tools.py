"""Every tool through the official client, on a real ``sapwood mcp`` with a grown memory."""

from __future__ import annotations

import json
from typing import Any

from agent.actions.assistants_paging import ANSWER_CHARS
from agent.actions.home import open_home
from agent.config_edit import edit_intent
from agent.paths import Paths
from tests.assistants.conftest import ORDER, SECRET, ask, said, with_assistant
from tests.cli.agents import overwrite

TOOLS = ["search_memory", "fetch", "drill_down", "status", "remember"]


def test_the_tools_are_those_that_are_built_and_say_what_they_take_and_answer(grown: Paths) -> None:
    async def talk(session: Any) -> Any:
        return (await session.list_tools()).tools

    tools = with_assistant(grown, talk)
    assert [tool.name for tool in tools] == TOOLS
    for tool in tools:
        assert tool.description
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert all(each.get("description") for each in tool.input_schema["properties"].values())
        assert tool.annotations.read_only_hint is (tool.name != "remember")
        assert tool.annotations.destructive_hint is False


def test_a_model_gets_from_a_search_to_the_passage_and_from_the_top_to_the_leaves(grown: Paths) -> None:
    async def talk(session: Any) -> None:
        # The client holds every structured answer to the tool's schema by itself.
        found = await session.call_tool("search_memory", {"query": "spare greenhouse key", "limit": "3"})
        hits = [each for each in found.structured_content["hits"] if each["origin"]["source_id"] == "notes"]
        hit = next(each for each in hits if "blue watering can" in each["text"])
        assert hit["origin"]["place"].endswith("people.txt:1–18")
        assert hit["origin"]["place"] in said(found)
        assert hit["parents"]
        read = await session.call_tool("fetch", {"id": hit["id"][:12]})
        assert read.structured_content["id"] == hit["id"]
        assert "blue watering can" in read.structured_content["text"]
        top = await session.call_tool("drill_down", {})
        by_name = {each["source_id"]: each for each in top.structured_content["sources"]}
        assert {"notes", "club-mail", "club-chat"} <= by_name.keys()
        leaves, below = [], [by_name["notes"]["node_id"]]
        while below:
            level = await session.call_tool("drill_down", {"id": below.pop()})
            for node in level.structured_content["nodes"]:
                (leaves if node["kind"] == "leaf" else below).append(node["id"])
        assert hit["id"] in leaves
        assert len(leaves) == len(set(leaves)) == by_name["notes"]["passages"]
        end = await session.call_tool("drill_down", {"id": hit["id"]})
        assert end.is_error
        assert "fetch it" in said(end)

    with_assistant(grown, talk)


def test_neighbours_lead_through_a_whole_document_once(grown: Paths) -> None:
    async def talk(session: Any) -> list[str]:
        found = await session.call_tool("search_memory", {"query": "logbook frost dahlias", "source": "notes"})
        at = found.structured_content["hits"][0]["id"]
        while (node := (await session.call_tool("fetch", {"id": at})).structured_content)["before"]:
            at = node["before"]
        seen = [node["id"]]
        while node["after"]:
            node = (await session.call_tool("fetch", {"id": node["after"]})).structured_content
            seen.append(node["id"])
        return seen

    seen = with_assistant(grown, talk)
    assert len(seen) == len(set(seen)) > 1


def test_a_cursor_walk_gives_every_hit_once_and_the_same_ones(grown: Paths) -> None:
    async def talk(session: Any) -> tuple[list[str], list[str]]:
        walked: list[str] = []
        more: dict[str, Any] = {}
        while True:
            page = (
                await session.call_tool("search_memory", {"query": "greenhouse", "limit": 3, **more})
            ).structured_content
            walked += [hit["id"] for hit in page["hits"]]
            if page["next_cursor"] is None:
                break
            more = {"cursor": page["next_cursor"]}
        whole = (await session.call_tool("search_memory", {"query": "greenhouse", "limit": 20})).structured_content
        wrong = await session.call_tool("search_memory", {"query": "other words", "limit": 3, **more})
        assert wrong.is_error
        assert "without a cursor" in said(wrong)
        return walked, [hit["id"] for hit in whole["hits"]]

    walked, whole = with_assistant(grown, talk)
    assert len(walked) == len(set(walked)) > len(whole) // 2
    assert walked[: len(whole)] == whole


def test_answers_are_bounded(grown: Paths) -> None:
    found = ask(grown, "search_memory", query="the", limit=20)
    assert len(json.dumps(found.structured_content, ensure_ascii=False)) <= ANSWER_CHARS
    assert len(said(found)) <= ANSWER_CHARS


def test_wrong_parameters_are_refused_by_their_name(grown: Paths) -> None:
    async def talk(session: Any) -> list[str]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("search_memory", {"query": 3}),
            ("search_memory", {"querry": "x"}),
            ("search_memory", {"query": "x", "limit": 99}),
            ("search_memory", {"query": "x", "since": "soon"}),
            ("search_memory", {"query": "x", "source": "nowhere"}),
            ("fetch", {"id": "0123456789abcdef"}),
            ("fetch", {}),
        ]
        found = [await session.call_tool(*call) for call in calls]
        assert all(each.is_error for each in found)
        return [said(each) for each in found]

    words = with_assistant(grown, talk)
    for said_, name in zip(words, ("query", "querry", "limit", "soon", "nowhere", "0123456789", "id"), strict=True):
        assert name in said_
    assert "2025-06-14" in words[3]
    assert "club-mail" in words[4]


def test_orders_in_the_content_are_returned_as_data_that_closes_no_fence(grown: Paths) -> None:
    found = ask(grown, "search_memory", query="zeppelin")
    assert ORDER in found.structured_content["hits"][0]["text"]
    text = said(found)
    fence = text[: text.index("About the zeppelin")].rstrip().rpartition("\n")[2]
    assert fence.startswith("````")
    inside = text.partition(f"{fence}\n")[2].partition(f"\n{fence.removesuffix('text')}\n")[0]
    assert ORDER in inside
    assert "no instruction to you" in text.partition(fence)[0]


def test_private_sources_are_nowhere_and_cost_no_hits(grown: Paths) -> None:
    with open_home(grown) as home:
        secret = home.connection.value("SELECT chunk_id FROM mem_tree_chunks WHERE source_id = 'heron-diary' LIMIT 1")
        root = home.connection.value(
            "SELECT summary_id FROM mem_tree_summaries WHERE source_id = 'heron-diary' LIMIT 1"
        )

    async def talk(session: Any) -> list[Any]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("search_memory", {"query": "greenhouse key", "limit": 8}),
            ("search_memory", {"query": SECRET}),
            ("search_memory", {"query": SECRET, "kind": "summary"}),
            ("search_memory", {"query": "key", "source": "heron-diary"}),
            ("fetch", {"id": secret}),
            ("fetch", {"id": secret[:10]}),
            ("drill_down", {"id": root}),
            ("drill_down", {"id": "heron-diary"}),
            ("drill_down", {}),
            ("status", {}),
        ]
        return [await session.call_tool(*call) for call in calls]

    answers = with_assistant(grown, talk)
    assert len(answers[0].structured_content["hits"]) == 8
    for answer in answers:
        everything = said(answer) + json.dumps(answer.structured_content)
        assert "quillwort" not in everything
        assert "boathouse" not in everything
    for answer in (*answers[:3], *answers[8:]):
        assert "heron" not in said(answer) + json.dumps(answer.structured_content)
    assert all(answer.is_error for answer in answers[3:8])
    assert "private" in said(answers[9])

    def allow(document: Any) -> None:
        document["assistants"] = {"private": True}

    edit_intent(grown, allow)
    assert "quillwort" in said(ask(grown, "search_memory", query=SECRET))


def test_a_source_that_nobody_names_any_more_is_private(grown: Paths) -> None:
    def drop(document: Any) -> None:
        document["sources"] = [each for each in document["sources"] if each["id"] != "club-mail"]

    edit_intent(grown, drop)
    found = ask(grown, "search_memory", query="offer for panes of glass", limit=20)
    assert {hit["origin"]["source_id"] for hit in found.structured_content["hits"]} <= {"notes", "club-chat", "orders"}


def test_private_stays_out_while_the_settings_cannot_be_read(grown: Paths) -> None:
    def allow(document: Any) -> None:
        document["assistants"] = {"private": True}

    edit_intent(grown, allow)
    grown.config_file.write_text("this is [ no toml")
    found = ask(grown, "search_memory", query=SECRET)
    assert "quillwort" not in said(found)
    assert "config.toml" in said(found)


def test_what_is_remembered_is_kept_and_it_is_said_that_nobody_reads_it(grown: Paths) -> None:
    text = "The tortoise is called Agathe and eats dandelions."

    async def talk(session: Any) -> tuple[Any, Any, Any]:
        kept = await session.call_tool("remember", {"text": text, "title": "The tortoise"})
        again = await session.call_tool("remember", {"text": text, "title": "The tortoise"})
        return kept, again, await session.call_tool("status", {})

    kept, again, status = with_assistant(grown, talk)
    assert kept.structured_content["item_keys"] == again.structured_content["item_keys"]
    (file,) = (grown.inbox / "remembered").glob("*.json")
    assert text in file.read_text("utf-8")
    assert "`sapwood run`" in said(kept)
    assert "not running" in said(status)
    assert status.structured_content["running"] is False


def test_without_a_memory_it_says_what_to_do_and_makes_none(paths: Paths) -> None:
    async def talk(session: Any) -> list[Any]:
        return [
            await session.call_tool("search_memory", {"query": "anything"}),
            await session.call_tool("drill_down", {}),
            await session.call_tool("status", {}),
        ]

    search, drill_down, status = with_assistant(paths, talk)
    assert search.is_error
    assert drill_down.is_error
    for answer in (search, drill_down, status):
        assert "sapwood add" in said(answer)
        assert "sapwood run" in said(answer)
    assert not paths.database.exists()


def test_a_damaged_memory_says_doctor_and_the_server_lives_on(grown: Paths) -> None:
    overwrite(grown.database, range(1, 3))

    async def talk(session: Any) -> list[Any]:
        return [await session.call_tool("search_memory", {"query": "key"}) for _ in range(2)]

    for answer in with_assistant(grown, talk):
        assert answer.is_error
        assert "sapwood doctor" in said(answer)
