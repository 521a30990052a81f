"""A cloud grows what it may see; what is private is grown by the built-in profile, and no word of it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import load_intent
from agent.paths import Paths
from agent.tree.check import problems
from agent.tree.flush import unfinished
from tests.models.pipeline.asking import edit, own_address
from tests.models.pipeline.growing import Growing, growing
from tests.scripted import Serving, serving

CARD = "4111 1111 1111 1111"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def cloud() -> Iterator[Serving]:
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but loopback, and that is no cloud: connect it to a network")
    with serving(host) as server:
        yield server


def config_with(grown: Growing, old: str, new: str) -> None:
    text = grown.paths.config_file.read_text()
    assert old in text
    edit(grown.paths, text.replace(old, new))
    grown.context.intent = load_intent(grown.paths).intent


def sent(server: Serving) -> str:
    return "\n".join(json.dumps(call.body, ensure_ascii=False) for call in server.calls())


def test_no_word_of_a_private_source_reaches_a_cloud_and_it_is_grown_all_the_same(
    cloud: Serving, paths: Paths, tmp_path: Path
) -> None:
    with growing("openai", cloud, paths, tmp_path / "owner", consent=cloud.host, key="openai") as grown:
        config_with(grown, 'id = "mail"', 'private = true\nid = "mail"')
        note = tmp_path / "owner" / "notes" / "pumps.md"
        note.write_text(note.read_text().replace("\n\n", f"\n\nThe card is {CARD}, the token {TOKEN}.\n\n", 1))
        grown.grow()
        assert len(cloud.calls("chat")) > 3
        words = sent(cloud)
        assert "Subject: Pump" not in words
        assert "club@example.org" not in words
        assert CARD not in words
        assert TOKEN not in words
        assert "room 130" not in words, "what the mails are about"
        assert "room 150" in words or "room 100" in words
        assert unfinished(grown.connection) == []
        assert problems(grown.connection) == []
        assert grown.failed() == []
        by: dict[str, str] = dict(
            grown.connection.all("SELECT source_id, max(signature) FROM mem_tree_summaries GROUP BY source_id")
        )
        assert by["mail"].startswith("builtin")
        assert by["notes"].startswith("openai")


def test_without_consent_nothing_is_sent_and_nothing_is_lost(cloud: Serving, paths: Paths, tmp_path: Path) -> None:
    with growing("openai", cloud, paths, tmp_path / "owner", key="openai") as grown:
        grown.grow(20_000)
        assert cloud.calls() == [], "no request at all"
        assert {(code, attempts) for _, code, _, attempts in grown.waiting()} == {("no_consent", 0)}
        assert all("sapwood model use box" in said for _, _, said, _ in grown.waiting())
        config_with(grown, "[[profiles]]\n", f'[[profiles]]\nconsent = "{cloud.host}"\n')
        grown.grow()
        grown.assert_whole()
