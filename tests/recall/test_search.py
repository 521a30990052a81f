"""What search finds, in which order, and what it says about what it could not look at yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.errors import JobFailure, UsageFault
from agent.models.protocol import Profile
from agent.recall import coverage
from agent.recall.search import search
from tests.recall.conftest import BASE_MS, HashEmbedder, Memory

Found = Callable[..., list[str]]

HIT_KEYS = {
    "node_id", "kind", "level", "score", "text", "title", "source_id", "path", "locator", "author", "time", "parents",
}  # fmt: skip


def test_the_best_text_comes_first_with_all_that_is_promised(
    memory: Memory, connection: Connection, profile: Profile
) -> None:
    best = memory.chunk("The boiler was repaired by Anna in March.", title="House", author="Anna", item_key="house.md")
    memory.chunk("Anna went to the market.", item_key="town.md")
    result = search(connection, profile, "who repaired the boiler?").as_json()
    assert result["searched"] == "full"
    first = result["hits"][0]
    assert set(first) == HIT_KEYS
    assert first["node_id"] == best
    assert (first["kind"], first["level"], first["title"], first["author"]) == ("leaf", 0, "House", "Anna")
    assert first["path"] == "house.md"
    assert first["time"].startswith("2023-11-1")
    assert 0 < first["score"] <= 1
    assert first["parents"] == []


def test_leaves_and_summaries_are_one_list(memory: Memory, found: Found) -> None:
    leaf = memory.chunk("The boiler was repaired.")
    summary = memory.summary("What happened to the boiler in the house.", [leaf])
    assert set(found("boiler")) == {leaf, summary}
    assert found("boiler", kind="leaf") == [leaf]
    assert found("boiler", kind="summary") == [summary]


def test_a_leaf_stands_before_a_summary_that_says_the_same(memory: Memory, found: Found) -> None:
    leaf = memory.chunk("The boiler was repaired.", time_ms=BASE_MS)
    summary = memory.summary("The boiler was repaired.", [leaf], last_ms=BASE_MS + 1)
    assert found("boiler repaired") == [leaf, summary]


@pytest.mark.parametrize("query", ["東京", "京都", "住んで", "東京に行きたい"])
def test_a_run_of_cjk_is_found_by_two_of_its_characters(memory: Memory, found: Found, query: str) -> None:
    wanted = memory.chunk("私は東京都に住んでいます。")
    memory.chunk("大阪で会いましょう。", item_key="other.md")
    assert found(query) == [wanted]


def test_one_character_of_cjk_finds_the_runs_that_go_on_after_it(memory: Memory, found: Found) -> None:
    wanted = memory.chunk("私は東京都に住んでいます。")
    alone = memory.chunk("東", item_key="other.md")
    assert set(found("東")) == {wanted, alone}


def test_words_are_found_by_their_stem_and_without_their_accents(memory: Memory, found: Found) -> None:
    wanted = memory.chunk("The cafés were closing early.")
    assert found("cafe closed") == [wanted]


def test_thai_and_hindi_words_keep_their_vowel_signs(memory: Memory, found: Found) -> None:
    hindi = memory.chunk("हिन्दी में एक चिट्ठी")
    thai = memory.chunk("ขอบคุณ ที่นี่", item_key="thai.md")
    assert found("चिट्ठी") == [hindi]
    assert found("ที่นี่") == [thai]


@pytest.mark.parametrize(
    "query",
    [
        '"', "'", "a AND", "NOT boiler", "boiler NEAR(", "body: boiler", "boiler*", "^boiler", "(((", "boiler OR",
        "-boiler", "{boiler}", "boiler\x00repaired", "\ud800boiler", "boiler; DROP TABLE mem_tree_chunks",
        "boiler + 'x", "%_boiler", "_ boiler", "boiler " * 3_000,
    ],
)  # fmt: skip
def test_no_query_means_anything_but_its_words(memory: Memory, found: Found, query: str) -> None:
    wanted = memory.chunk("The boiler was repaired.")
    memory.chunk("Nothing of the kind.", item_key="other.md")
    assert found(query)[:1] == ([wanted] if "boiler" in query else [])


@pytest.mark.parametrize("query", ["", "   ", "?!", "_", "___ _"])
def test_a_query_without_words_finds_nothing(memory: Memory, found: Found, query: str) -> None:
    memory.chunk("The boiler was repaired.")
    assert found(query) == []


def test_a_query_of_stop_words_alone_still_answers(memory: Memory, found: Found, embedder: HashEmbedder) -> None:
    embedder.trusted = False
    wanted = memory.chunk("To be or not to be, that is the question.")
    memory.chunk("Boilers need care.", item_key="other.md")
    assert found("to be or not to be") == [wanted]


def test_numbers_that_belong_together_are_looked_up_together(memory: Memory, found: Found) -> None:
    apart = memory.chunk("8 of 3 or 3 of 8, says version 8 of 3 things", item_key="apart.md")
    together = memory.chunk("It came with version 3.8 of many other long and winding things that were told.")
    assert found("version 3.8") == [together, apart]


def test_equal_texts_come_newest_first_then_by_id(memory: Memory, found: Found) -> None:
    chunks = [memory.chunk("same words", item_key=f"{at}.md", time_ms=BASE_MS + at % 2) for at in range(6)]
    newest = sorted(chunk for at, chunk in enumerate(chunks) if at % 2)
    oldest = sorted(chunk for at, chunk in enumerate(chunks) if not at % 2)
    assert found("same words") == newest + oldest


def test_the_newest_of_many_equal_texts_is_not_cut_off_by_their_number(memory: Memory, found: Found) -> None:
    with_date = [
        memory.chunk("ok fine", item_key=f"{at}.md", time_ms=BASE_MS + (at * 7919) % 500, vectors=False)
        for at in range(450)
    ]
    newest = max(range(450), key=lambda at: (at * 7919) % 500)
    assert found("ok fine", limit=1) == [with_date[newest]]


def test_an_undated_text_comes_after_dated_equals(memory: Memory, found: Found) -> None:
    undated = memory.chunk("same words", item_key="a.md", time_ms=None)
    dated = memory.chunk("same words", item_key="b.md", time_ms=-BASE_MS)
    assert found("same words") == [dated, undated]


def test_results_are_cut_by_score_not_by_source(memory: Memory, found: Found) -> None:
    for at in range(5):
        memory.chunk(f"a boiler and many other things that are of no use {at}", source="aaa", item_key=f"{at}.md")
    wanted = memory.chunk("boiler boiler", source="zzz")
    assert found("boiler", limit=1) == [wanted]


def test_a_dropped_chunk_is_found_marked_and_below(memory: Memory, connection: Connection, profile: Profile) -> None:
    dropped = memory.chunk("boiler repaired", lifecycle="dropped", time_ms=BASE_MS + 5)
    kept = memory.chunk("boiler repaired", item_key="other.md")
    hits = search(connection, profile, "boiler repaired").hits
    assert [(hit.node_id, hit.dropped) for hit in hits] == [(kept, False), (dropped, True)]
    assert "dropped" not in hits[0].as_json()
    assert hits[1].as_json()["dropped"] is True


def test_a_removed_chunk_is_found_nowhere_not_even_in_the_summary_it_left_behind(
    memory: Memory, connection: Connection, found: Found
) -> None:
    kept = memory.chunk("The boiler was repaired.")
    gone = memory.chunk("The password of the boiler is swordfish.")
    memory.summary("The boiler was repaired; swordfish.", [kept, gone])
    assert gone in found("swordfish")
    with connection.write():
        remove_chunk(connection, gone)
    assert found("swordfish") == []
    assert found("boiler") == [kept]


@pytest.fixture
def many(memory: Memory) -> dict[str, str]:
    ids = {
        "old": memory.chunk("boiler in the cellar", item_key="1.md", time_ms=BASE_MS, entities=["anna kurz"]),
        "new": memory.chunk("boiler in the attic", item_key="2.md", time_ms=BASE_MS + 1_000),
        "mail": memory.chunk(
            "boiler by mail", source="mail", source_kind="email", item_key="m", time_ms=BASE_MS + 2_000,
            entities=["anna kurz"],
        ),
        "undated": memory.chunk("boiler without a date", item_key="3.md", time_ms=None),
    }  # fmt: skip
    ids["summary"] = memory.summary(
        "boilers", [ids["old"], ids["new"]], item_key=None, kind="source", first_ms=BASE_MS, last_ms=BASE_MS + 1_000
    )
    ids["root"] = memory.summary(
        "all boilers", [ids["summary"]], level=2, item_key=None, kind="source", last_ms=BASE_MS + 1_000
    )
    return ids


@pytest.mark.parametrize("trusted", [True, False], ids=["both sides", "words alone"])
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, "old new mail undated summary root"),
        ({"source": "mail"}, "mail"),
        ({"source": "notes"}, "old new undated summary root"),
        ({"source": "nowhere"}, ""),
        ({"kind": "leaf"}, "old new mail undated"),
        ({"kind": "leaf", "source": "notes"}, "old new undated"),
        ({"kind": "summary"}, "summary root"),
        ({"since_ms": BASE_MS + 1_000}, "new mail summary root"),
        ({"until_ms": BASE_MS + 999}, "old summary root"),
        ({"since_ms": BASE_MS + 500, "until_ms": BASE_MS + 999}, "summary root"),
        ({"since_ms": BASE_MS + 3_000}, ""),
        ({"entity": "Anna  KURZ"}, "old mail summary root"),
        ({"entity": "anna kurz", "kind": "leaf"}, "old mail"),
        ({"entity": "anna kurz", "source": "mail"}, "mail"),
        ({"entity": "anna"}, ""),
    ],
)
def test_filters_hold_on_both_sides(
    many: dict[str, str],
    found: Found,
    embedder: HashEmbedder,
    filters: dict[str, Any],
    wanted: str,
    trusted: bool,
) -> None:
    embedder.trusted = trusted
    assert set(found("boiler boilers", **filters)) == {many[name] for name in wanted.split()}


def test_a_filter_is_not_applied_to_the_first_results_only(memory: Memory, found: Found) -> None:
    for at in range(260):
        memory.chunk(f"boiler {at}", item_key=f"{at}.md")
    rare = memory.chunk("a text about very many things and among them a boiler", source="mail")
    assert found("boiler", source="mail", limit=1) == [rare]


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -3}, {"kind": "branch"}])
def test_impossible_wishes_are_refused(
    memory: Memory, connection: Connection, profile: Profile, wrong: dict[str, Any]
) -> None:
    with pytest.raises(UsageFault):
        search(connection, profile, "boiler", **wrong)


def test_meaning_finds_what_no_word_names(memory: Memory, found: Found, embedder: HashEmbedder) -> None:
    embedder.meanings = {"automobile": "car"}
    wanted = memory.chunk("car")
    memory.chunk("boiler", item_key="other.md")
    assert found("automobile") == [wanted]


def test_a_russian_query_uses_words_alone(memory: Memory, found: Found, embedder: HashEmbedder) -> None:
    wanted = memory.chunk("Котёл починили в марте.")
    embedder.asked.clear()
    assert found("котел починили") == [wanted]
    assert embedder.asked == []


def test_meaning_far_from_everything_finds_nothing(memory: Memory, found: Found) -> None:
    memory.chunk("the boiler was repaired in march by anna who lives next door")
    assert found("zebra") == []


def test_an_embedder_that_fails_leaves_the_words(memory: Memory, connection: Connection, profile: Profile) -> None:
    wanted = memory.chunk("The boiler was repaired.")

    def fail(texts: object) -> None:
        raise JobFailure.transient("unreachable")

    profile.embedder.embed = fail  # type: ignore[method-assign, assignment]
    result = search(connection, profile, "boiler")
    assert [hit.node_id for hit in result.hits] == [wanted]
    assert result.searched == "partial"


def test_an_empty_memory_answers_at_once(connection: Connection, profile: Profile, embedder: HashEmbedder) -> None:
    started = time.perf_counter()
    result = search(connection, profile, "boiler")
    assert time.perf_counter() - started < 0.5
    assert (result.searched, result.hits) == ("full", ())
    assert embedder.asked == []


def _searched(connection: Connection, profile: Profile, **filters: Any) -> str:
    return search(connection, profile, "boiler", **filters).searched.value


def _sync_job(connection: Connection, source: str) -> None:
    connection.run(
        "INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms,"
        " created_at_ms) VALUES ('sync_source', '{}', ?, 'ready', 5, 0, 0)",
        (f"sync:{source}",),
    )


def test_an_empty_memory_with_a_source_to_be_looked_at_says_not_yet(connection: Connection, profile: Profile) -> None:
    _sync_job(connection, "notes")
    assert _searched(connection, profile) == "not_yet"
    assert _searched(connection, profile, source="notes") == "not_yet"
    assert _searched(connection, profile, source="mail") == "full"


def test_a_later_look_at_an_empty_source_is_not_waited_for(connection: Connection, profile: Profile) -> None:
    _sync_job(connection, "notes")
    connection.run("INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms) VALUES ('notes', 'folder', 1)")
    assert _searched(connection, profile) == "full"


@pytest.mark.parametrize("state", ["found", "queued"])
def test_items_that_wait_make_it_not_yet_then_partial(
    memory: Memory, connection: Connection, profile: Profile, state: str
) -> None:
    memory.item("waiting.md", source="zoo", state=state)
    assert _searched(connection, profile) == "not_yet"
    memory.chunk("The boiler was repaired.")
    assert _searched(connection, profile) == "partial"
    assert _searched(connection, profile, source="notes") == "full"
    connection.run("UPDATE mem_tree_items SET state = 'current'")
    assert _searched(connection, profile) == "full"


@pytest.mark.parametrize(
    ("rows", "searched"),
    [(["failed"], "full"), (["done", "cancelled"], "full"), (["failed", "ready"], "partial"), (["done"], "partial")],
)
def test_an_item_whose_job_is_parked_is_not_waited_for(
    memory: Memory, connection: Connection, profile: Profile, rows: list[str], searched: str
) -> None:
    memory.chunk("The boiler was repaired.")
    memory.item("parked.md", source="zoo", state="queued")
    for status in rows:
        connection.run(
            "INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms,"
            " created_at_ms) VALUES ('ingest_file', '{}', 'ingest:zoo:parked.md', ?, 5, 0, 0)",
            (status,),
        )
    assert _searched(connection, profile) == searched
    memory.item("lost.md", source="zoo", state="queued")
    assert _searched(connection, profile) == "partial"


@pytest.mark.parametrize("state", ["current", "unreadable", "gone"])
def test_items_that_are_settled_are_not_waited_for(
    memory: Memory, connection: Connection, profile: Profile, state: str
) -> None:
    memory.item("settled.md", source="zoo", state=state)
    assert _searched(connection, profile) == "full"


def test_a_pending_chunk_is_found_and_makes_it_partial(
    memory: Memory, connection: Connection, profile: Profile
) -> None:
    pending = memory.chunk("The boiler was repaired.", lifecycle="pending_extraction", vectors=False)
    result = search(connection, profile, "boiler")
    assert [hit.node_id for hit in result.hits] == [pending]
    assert result.searched == "partial"


def test_vectors_of_another_model_make_it_partial_and_blind_nothing(
    memory: Memory, connection: Connection, profile: Profile, embedder: HashEmbedder
) -> None:
    wanted = memory.chunk("The boiler was repaired.")
    memory.summary("boiler", [wanted])
    assert _searched(connection, profile) == "full"
    embedder.signature = "test:other@512"
    result = search(connection, profile, "boiler", kind="leaf")
    assert [hit.node_id for hit in result.hits] == [wanted]
    assert result.searched == "partial"
    memory.signature_id()
    assert _searched(connection, profile) == "partial"
    connection.run("UPDATE mem_tree_chunks SET embedded_signature = ?", (memory.signature_id(),))
    assert _searched(connection, profile) == "partial"
    connection.run("UPDATE mem_tree_summaries SET embedded_signature = ?", (memory.signature_id(),))
    assert _searched(connection, profile) == "full"


def test_a_dropped_chunk_needs_no_vector(memory: Memory, connection: Connection, profile: Profile) -> None:
    memory.chunk("boiler", lifecycle="dropped")
    assert _searched(connection, profile) == "full"


def test_coverage_asks_indexes_alone(connection: Connection) -> None:
    statements = [getattr(coverage, name) for name in dir(coverage) if name.startswith("_") and name.isupper()]
    assert len(statements) == 7
    for statement in statements:
        given = ("notes", 1)[: 2 if "?2" in statement else int("?1" in statement)]
        steps = [detail for *_, detail in connection.all(f"EXPLAIN QUERY PLAN {statement}", given)]
        tables = [step for step in steps if step.startswith(("SCAN mem_tree", "SCAN c", "SCAN i"))]
        assert all("COVERING INDEX" in step for step in tables), steps


def test_a_search_inside_a_callers_transaction_works(memory: Memory, connection: Connection, profile: Profile) -> None:
    wanted = memory.chunk("The boiler was repaired.")
    with connection.snapshot():
        assert [hit.node_id for hit in search(connection, profile, "boiler").hits] == [wanted]
