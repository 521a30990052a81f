"""Edits, insertions and deletions at any moment end in the trees of the naive builder."""

from __future__ import annotations

import random

import pytest

from agent.queue.types import NewJob
from agent.tree.check import problems
from tests.naive.builder import grow_memory
from tests.tree.garden import Garden, body


def _agree(garden: Garden) -> None:
    naive = grow_memory(garden.connection, garden.summariser)
    assert garden.fingerprints() == naive.fingerprints()
    assert problems(garden.connection) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_that_mails_come_to_and_go_from(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    there: dict[int, str] = {}
    for step in range(260):
        draw = chance.random()
        if draw < 0.75 or not there:
            at = chance.randrange(2_000)
            if at not in there:
                there[at] = garden.mail("post", at, break_key=at // 60)
        else:
            at = chance.choice(sorted(there))
            garden.drop_mail("post", there.pop(at))
        if step % 40 == 20:
            garden.clock.advance(chance.choice([600, 4_000, 90_000]))
            garden.enqueue(NewJob.flush_stale(garden.clock.now_ms()))
        if chance.random() < 0.15:
            garden.scramble(chance)
            assert problems(garden.connection) == []
        if step % 90 == 89:
            garden.finish()
            _agree(garden)
    garden.finish()
    _agree(garden)
    for at in sorted(there, key=lambda _: chance.random()):
        garden.drop_mail("post", there[at])
        if chance.random() < 0.3:
            garden.scramble(chance)
    garden.finish()
    _agree(garden)
    assert garden.fingerprints() == set()


@pytest.mark.parametrize("seed", range(4))
def test_a_folder_whose_documents_change(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    texts: dict[str, list[str]] = {}
    fresh = iter(range(100_000))
    for step in range(120):
        key = f"part{chance.randrange(4)}/note{chance.randrange(12):02d}.md"
        held = texts.setdefault(key, [])
        for _ in range(chance.randrange(1, 6)):
            if held and chance.random() < 0.45:
                held.pop(chance.randrange(len(held)))
            else:
                held.insert(chance.randrange(len(held) + 1), body(next(fresh)))
        garden.document("notes", key, held, [hash_of % 3 for hash_of in range(len(held))])
        if chance.random() < 0.3:
            garden.scramble(chance)
            assert problems(garden.connection) == []
        if step % 50 == 49:
            garden.finish()
            _agree(garden)
    for key in texts:
        garden.document("notes", key, [])
        if chance.random() < 0.3:
            garden.scramble(chance)
    garden.finish()
    _agree(garden)
    assert garden.fingerprints() == set()
