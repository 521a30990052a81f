"""Edits, insertions and deletions at any moment end in the trees of the naive builder."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from agent.queue.types import NewJob
from agent.states import Lifecycle
from agent.tree.check import problems
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import T0, Garden, body


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_mails_come_to_and_go_from(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    there: dict[int, str] = {}
    for step in range(160):
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
        if step % 70 == 69:
            garden.finish()
            assert_as_naive(garden)
    garden.finish()
    assert_as_naive(garden)
    for at in sorted(there, key=lambda _: chance.random()):
        garden.drop_mail("post", there[at])
        if chance.random() < 0.3:
            garden.scramble(chance)
    garden.finish()
    assert_as_naive(garden)
    assert garden.fingerprints() == set()


@pytest.mark.parametrize("seed", range(3))
def test_several_changes_side_by_side_at_once(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    there = {at: garden.mail("post", at, f"Line {at}.", break_key=at // 9) for at in range(0, 140, 2)}
    garden.finish()
    for round_number in range(25):
        low = chance.randrange(120)
        for at in range(low, low + chance.choice([4, 12, 30])):
            if at in there and chance.random() < 0.5:
                garden.drop_mail("post", there.pop(at))
            elif at not in there and chance.random() < 0.5:
                there[at] = garden.mail("post", at, f"Line {at} of {round_number}.", key=f"m{at}-{round_number}")
        garden.finish()
        assert_as_naive(garden)


@pytest.mark.parametrize("source", ["post", "list", "team"])
def test_groups_lose_their_first_leaf_and_others_come_before_the_rest(garden: Garden, source: str) -> None:
    chunks = {at: garden.mail(source, at, f"Line {at}.") for at in range(0, 3_000, 10)}
    garden.finish()
    firsts = garden.connection.all("SELECT min(sort_key) FROM mem_tree_edges WHERE level = 0 GROUP BY parent_id")
    for at in sorted((int.from_bytes(key[:8], "big") - 2**62 - T0) // 1_000 for (key,) in firsts):
        garden.drop_mail(source, chunks[at])
        for more in range(1, 8):
            garden.mail(source, at + more, f"Line {at + more}.")
        garden.run_appends()
        garden.finish()
    assert_as_naive(garden)


def test_a_leaf_that_was_a_group_by_itself_goes(garden: Garden) -> None:
    """Its neighbour's group ended because a break followed; now none does, and nothing else says so."""
    giants = []
    for at in range(80):
        garden.mail("post", at)
        if at % 5 == 4:
            giants.append(garden.mail("post", at, "word " * 13_000, key=f"mail-{at:06d}-giant", break_key=1))
    garden.finish()
    assert_as_naive(garden)
    for giant in giants:
        garden.drop_mail("post", giant)
        garden.finish()
        assert_as_naive(garden)


@pytest.mark.parametrize("seed", range(3))
def test_a_folder_whose_documents_change(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    texts: dict[str, list[str]] = {}
    fresh = iter(range(100_000))
    for step in range(100):
        key = f"part{chance.randrange(4)}/note{chance.randrange(12):02d}.md"
        held = texts.setdefault(key, [])
        for _ in range(chance.randrange(1, 6)):
            if held and chance.random() < 0.45:
                held.pop(chance.randrange(len(held)))
            else:
                held.insert(chance.randrange(len(held) + 1), body(next(fresh)))
        garden.document("notes", key, held, [number % 3 for number in range(len(held))])
        if chance.random() < 0.3:
            garden.scramble(chance)
            assert problems(garden.connection) == []
        if step % 50 == 49:
            garden.finish()
            assert_as_naive(garden)
    for key in texts:
        garden.document("notes", key, [])
        if chance.random() < 0.3:
            garden.scramble(chance)
    garden.finish()
    assert_as_naive(garden)
    assert garden.fingerprints() == set()


def test_a_source_of_documents_and_mails(garden: Garden) -> None:
    for at in range(25):
        garden.mail("inbox", at)
        garden.document("inbox", f"kept-{at:02d}", [body(900 + at * 9 + n) for n in range(at % 8)])
    garden.scramble(random.Random(1))
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("seed", range(2))
def test_decisions_that_come_late(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    waiting: list[tuple[int, str]] = []
    for at in range(150):
        late = chance.random() < 0.3
        chunk = garden.mail("post", at, lifecycle=Lifecycle.PENDING_EXTRACTION if late else Lifecycle.ADMITTED)
        if late:
            waiting.append((at, chunk))
        if chance.random() < 0.1:
            garden.scramble(chance)
        if waiting and chance.random() < 0.3:
            _, chunk = waiting.pop(chance.randrange(len(waiting)))
            garden.decide("post", chunk, admitted=chance.random() < 0.7)
    for _, chunk in waiting:
        garden.decide("post", chunk, admitted=chance.random() < 0.7)
    garden.scramble(chance)
    garden.finish()
    assert_as_naive(garden)


def test_two_histories_end_in_one_memory(new_garden: Callable[[str], Garden]) -> None:
    straight, winding = new_garden("straight"), new_garden("winding")
    for at in range(0, 160, 2):
        straight.mail("post", at)
    straight.finish()
    chance = random.Random(5)
    extra = [winding.mail("post", at) for at in range(1, 160, 4)]
    winding.finish()
    order = list(range(0, 160, 2))
    chance.shuffle(order)
    for at in order:
        winding.mail("post", at)
        if chance.random() < 0.2:
            winding.scramble(chance)
        if extra and chance.random() < 0.5:
            winding.drop_mail("post", extra.pop())
    for chunk in extra:
        winding.drop_mail("post", chunk)
    winding.finish()
    assert winding.fingerprints() == straight.fingerprints()
    assert winding.shape("post") == straight.shape("post")
