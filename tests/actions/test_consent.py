"""What an owner is told before text goes to a cloud: which, from where, and about how much of it there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.actions.consent import Backlog, estimate_backlog, what_is_sent
from agent.config import Intent, SourceIntent
from agent.db import Connection
from agent.profile_intent import ProfileIntent
from agent.states import Lifecycle
from tests.worker.memory import add_chunk, add_item

FAR = ProfileIntent("far", "openai", "large", price_in=2.0, price_out=10.0)
EMBEDS = replace(FAR, embedding_model="e", embedding_dimensions=2)
OPEN = SourceIntent("notes", "folder", "Notes", ("/n",))
PRIVATE = replace(OPEN, id="diary", private=True)
INTENT = Intent(profiles=(FAR,), sources=(OPEN, PRIVATE))


def hold(connection: Connection, count: int, source: str = "notes", lifecycle: Lifecycle = Lifecycle.SEALED) -> None:
    with connection.write():
        item = add_item(connection, source_id=source, item_key=f"{source}-{lifecycle}.md")
        for number in range(count):
            add_chunk(connection, item, f"{source} {lifecycle} {number}", lifecycle=lifecycle)
        connection.run(
            "INSERT OR IGNORE INTO mem_tree_sources (source_id, kind, last_sync_ms) VALUES (?, 'folder', 1)", (source,)
        )
        connection.run("UPDATE mem_tree_chunks SET tokens = 100")


def estimate(connection: Connection, profile: ProfileIntent = FAR, intent: Intent = INTENT) -> Backlog:
    return estimate_backlog(connection, intent, profile)


def test_what_is_sent_names_the_sources_and_those_that_never_are() -> None:
    found = what_is_sent(INTENT, FAR)
    assert (found.host, found.sources, found.private) == ("api.openai.com", ("notes",), ("diary",))
    assert len(found.kinds) == 2
    assert any("search" in kind for kind in what_is_sent(INTENT, EMBEDS).kinds)


def test_what_is_grown_is_not_sent_again_but_for_another_models_vectors(connection: Connection) -> None:
    hold(connection, 10)
    hold(connection, 5, "diary", Lifecycle.PENDING_EXTRACTION)
    found = estimate(connection)
    assert (found.chunks, found.tokens_in_high, found.tokens_out_high) == (0, 0, 0)
    assert (found.cost_low, found.cost_high) == (0.0, 0.0)
    embeds = estimate(connection, EMBEDS)
    assert 1000 <= embeds.tokens_in_low <= embeds.tokens_in_high
    assert embeds.tokens_in_low < 1500, "what is private is in no number"


def test_what_waits_is_estimated_from_below_and_above(connection: Connection) -> None:
    hold(connection, 1000, lifecycle=Lifecycle.PENDING_EXTRACTION)
    found = estimate(connection)
    assert found.chunks == 1000
    # Measured on real corpora: 440,000 tokens and 175 calls for 1,000 chunks of some 330 tokens each.
    assert found.tokens_in_low < 100 * 1000 * 1.4 + 175 * 400 < found.tokens_in_high
    assert 0 < found.tokens_out_low < 175 * 200 < found.tokens_out_high
    assert found.cost_low is not None
    assert found.cost_high is not None
    assert 0 < found.cost_low < found.cost_high


def test_without_both_prices_no_cost_is_told(connection: Connection) -> None:
    hold(connection, 10, lifecycle=Lifecycle.ADMITTED)
    assert estimate(connection, replace(FAR, price_out=None)).cost_high is None


@pytest.mark.parametrize("profile", [FAR, EMBEDS], ids=["chat", "vectors"])
def test_items_that_nobody_has_read_yet_count_like_those_that_were(
    connection: Connection, profile: ProfileIntent
) -> None:
    hold(connection, 10)
    before = estimate(connection, profile)
    with connection.write():
        for number in range(4):
            add_item(connection, source_id="notes", item_key=f"new-{number}.md")
        connection.run("UPDATE mem_tree_items SET state = 'found' WHERE item_key LIKE 'new-%'")
    found = estimate(connection, profile)
    assert found.unread == 4
    assert found.chunks == 40
    assert found.tokens_in_low - before.tokens_in_low > 3_000


def test_a_source_that_was_never_looked_at_makes_the_number_unknown(connection: Connection) -> None:
    assert not estimate(connection).is_known
    hold(connection, 1)
    assert estimate(connection).is_known, "nothing of a private source is sent, known or not"
