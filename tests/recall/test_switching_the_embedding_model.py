"""Another embedding model takes no search result away while its vectors are built, and nobody is asked whom the owner
has left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.clock import FakeClock
from agent.config import ModelsIntent
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.gate import LlmGate
from agent.models.surroundings import OPENER_KEY
from agent.paths import Paths
from agent.profile_intent import LOCAL_RESOURCE, ProfileIntent
from agent.queue.holds import HoldRow, put_hold_tx
from agent.recall import vectors
from agent.recall.search import SearchResult, search
from agent.recall.serving import LIMIT_S, serving_profile
from agent.recall.vectors import window_index
from agent.states import Hold, Lifecycle, Searched
from tests.scripted import serving
from tests.worker.embedding_model import CLOUD, DIMENSIONS, LOCAL, PROFILES, SECOND, Switching, switching
from tests.worker.memory import add_chunk, add_item

WORDS, LETTERS = "ollama:words@256", "ollama:letters@256"
NEEDLE = "copper kettle whistles"


@pytest.fixture
def home(connection: Connection, clock: FakeClock, paths: Paths) -> Switching:
    return switching(connection, clock, paths)


def fill(home: Switching, count: int, first: int = 0) -> list[str]:
    with home.connection.write():
        item = add_item(home.connection, f"{first}.md")
        texts = [f"lantern{at} harbour{at} saddle{at}" for at in range(first, first + count)]
        if not first:
            texts[count // 2] = NEEDLE
        return [
            add_chunk(home.connection, item, text, order=at, lifecycle=Lifecycle.SEALED)
            for at, text in enumerate(texts)
        ]


def find(home: Switching, query: str = "kettle whistles", **more: Any) -> SearchResult:
    profile = serving_profile(
        *(home.connection, home.context.intent, home.context.paths, home.clock), shared=home.context.shared, **more
    )
    return search(home.connection, profile, query)


def test_a_switch_loses_no_search_result_meanwhile(home: Switching) -> None:
    chunks = fill(home, 150)
    home.use("box")
    home.finish()
    before = find(home)
    assert (before.searched, before.note) == (Searched.FULL, None)
    home.use("second")
    home.sweep()
    states = []
    while home.turn():
        found = find(home)
        assert found.hits[0].text == NEEDLE
        assert [hit.node_id for hit in found.hits] == [hit.node_id for hit in before.hits] or home.serving == LETTERS
        states.append((home.serving, found.searched))
    assert states[0] == (WORDS, Searched.PARTIAL)
    assert states[-1] == (LETTERS, Searched.FULL)
    assert len(chunks) == len(home.nodes_at(LETTERS))


def test_a_query_is_embedded_by_the_model_that_serves(home: Switching) -> None:
    fill(home, 150)
    home.use("box")
    home.finish()
    home.use("second")
    home.sweep()
    home.turn()
    asked = len(home.server.models)
    find(home)
    assert home.server.models[asked:] == ["words"]
    home.finish()
    asked = len(home.server.models)
    find(home)
    assert home.server.models[asked:] == ["letters"]


def test_a_query_of_the_model_is_metered_and_stored_nowhere(home: Switching) -> None:
    fill(home, 5)
    home.use("box")
    home.finish()
    before = home.connection.value("SELECT count(*) FROM mem_tree_vectors")
    find(home)
    assert home.connection.value("SELECT count(*) FROM mem_tree_vectors") == before
    assert home.connection.value("SELECT calls FROM mem_tree_usage WHERE kind = 'search'") == 1


def nodes(home: Switching) -> list[int]:
    index = window_index(home.connection, WORDS, DIMENSIONS)
    assert index is not None
    return sorted(index.nodes.tolist())


def test_moving_to_another_signature_reads_no_vector_again(home: Switching, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, 150)
    home.use("box")
    home.finish()
    assert len(nodes(home)) == 150
    monkeypatch.setattr(vectors, "_read_all", None)
    monkeypatch.setattr(vectors, "_read_changed", None)
    home.use("second")
    home.sweep()
    home.turn()
    assert len(home.nodes_at(LETTERS)) == 64
    assert len(nodes(home)) == 150


def test_what_is_deleted_or_comes_while_nodes_move_is_seen_at_the_old_signature(home: Switching) -> None:
    chunks = fill(home, 150)
    home.use("box")
    home.finish()
    nodes(home)
    home.use("second")
    home.sweep()
    home.turn()
    with home.connection.write():
        remove_chunk(home.connection, chunks[0])
        remove_chunk(home.connection, chunks[149])
    assert nodes(home) == list(range(2, 150))
    fill(home, 1, first=500)
    home.turn()
    found = find(home, "lantern500")
    assert (found.searched, found.hits[0].text) == (Searched.PARTIAL, "lantern500 harbour500 saddle500")
    home.use("box")
    home.finish()
    assert nodes(home) == [*range(2, 150), 151], "embedded under the old one after all"


def test_private_nodes_stay_in_the_old_index_until_a_cloud_takes_over(home: Switching) -> None:
    with home.connection.write():
        item = add_item(home.connection, "diary.md", source_id="diary")
        add_chunk(home.connection, item, "secret sorrel", lifecycle=Lifecycle.SEALED)
    fill(home, 300)
    home.use("box")
    home.finish()
    nodes(home)
    home.use("far")
    home.sweep()
    home.turn()
    assert home.held()[0] == -2
    assert home.serving == WORDS
    assert 1 in nodes(home)


# -- why words alone were searched


@pytest.fixture
def embedded(home: Switching) -> Switching:
    fill(home, 3)
    home.use("box")
    home.finish()
    return home


def assert_words_alone(found: SearchResult, why: str) -> None:
    assert found.searched is Searched.PARTIAL
    assert why in str(found.note)
    assert [hit.text for hit in found.hits] == [NEEDLE], "words find it all the same"
    assert found.as_json()["note"] == found.note


def test_a_model_that_no_profile_names_any_more_is_told(embedded: Switching) -> None:
    embedded.context.intent = replace(embedded.context.intent, profiles=(SECOND,))
    asked = len(embedded.server.asked)
    assert_words_alone(find(embedded), "words, which no model profile names any more")
    assert len(embedded.server.asked) == asked


def test_a_model_that_is_out_is_told(embedded: Switching) -> None:
    from agent.errors import JobFailure

    embedded.server.out = JobFailure.transient("unreachable", title="it does not answer")
    assert_words_alone(find(embedded), "it does not answer")


def test_a_hold_is_told_and_nobody_is_asked(embedded: Switching) -> None:
    now_ms = embedded.clock.now_ms()
    with embedded.connection.write():
        hold = HoldRow("box", Hold.UNREACHABLE, "the server is out", now_ms + 9_000, 5, 1)
        put_hold_tx(embedded.connection, hold, now_ms)
    asked = len(embedded.server.asked)
    assert_words_alone(find(embedded), "the server is out")
    assert len(embedded.server.asked) == asked


def test_a_busy_model_is_waited_for_three_seconds_and_no_longer(embedded: Switching) -> None:
    with LlmGate(embedded.context.paths.permits, LOCAL_RESOURCE, 1).acquire(0):
        before = embedded.clock.monotonic()
        assert_words_alone(find(embedded), "busy")
        assert LIMIT_S <= embedded.clock.monotonic() - before < LIMIT_S + 0.5


def at_the_cloud(home: Switching) -> None:
    home.use("far")
    home.finish()
    assert home.serving == "openai:cloudy@256"


def test_a_cloud_that_was_left_is_not_asked_about_a_query(embedded: Switching) -> None:
    at_the_cloud(embedded)
    embedded.use("box")
    asked = len(embedded.server.asked)
    assert_words_alone(find(embedded), "cloudy, a cloud's model that is not in use any more")
    assert len(embedded.server.asked) == asked


def test_nothing_goes_to_a_cloud_without_consent_or_while_the_settings_are_broken(embedded: Switching) -> None:
    at_the_cloud(embedded)
    asked = len(embedded.server.asked)
    assert_words_alone(find(embedded, is_intent_sure=False), "config.toml cannot be read")
    embedded.context.intent = replace(embedded.context.intent, profiles=(LOCAL, replace(CLOUD, consent="")))
    assert_words_alone(find(embedded), "may not be sent")
    assert len(embedded.server.asked) == asked


def test_a_profile_that_cannot_be_opened_does_not_keep_the_built_in_table_from_searching(home: Switching) -> None:
    fill(home, 3)
    home.finish()
    home.context.intent = replace(
        home.context.intent, models=replace(home.context.intent.models, active="nobody"), profiles=PROFILES
    )
    found = find(home)
    assert (found.searched, found.note) == (Searched.FULL, None)


def test_a_query_without_words_for_the_index_asks_nobody(embedded: Switching) -> None:
    asked = len(embedded.server.asked)
    find(embedded, "?!")
    assert len(embedded.server.asked) == asked


def test_vectors_are_of_the_stored_scale(embedded: Switching) -> None:
    index = window_index(embedded.connection, WORDS, DIMENSIONS)
    assert index is not None
    norms = np.linalg.norm(index.matrix.astype(float), axis=1)
    assert np.allclose(norms, 127, atol=1.5)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_over_a_real_socket_nodes_and_queries_meet_in_one_space(home: Switching, provider: Any) -> None:
    fill(home, 20)
    with serving() as server:
        profile = ProfileIntent(
            *("socket", provider, "scripted-chat", "scripted-embed", 64), base_url=server.base_url(provider)
        )
        home.context.shared.pop(OPENER_KEY)
        home.context.intent = replace(home.context.intent, profiles=(profile,), models=ModelsIntent(active="socket"))
        home.finish()
        assert home.serving == f"{provider}:scripted-embed@64"
        found = find(home, NEEDLE)
    assert (found.searched, found.note) == (Searched.FULL, None)
    assert found.hits[0].text == NEEDLE
    assert home.connection.value("SELECT sum(calls) FROM mem_tree_usage") == 2
