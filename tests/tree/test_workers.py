"""Worker processes, however many and whatever comes first, grow the same trees."""

from __future__ import annotations

import random

import pytest

from tests.bench.tree_orders import corpus, grow


@pytest.mark.slow
def test_one_worker_and_four_in_any_order_grow_the_same_trees() -> None:
    files = corpus(None, mails=160, documents=40)
    shuffled = list(files)
    random.Random(9).shuffle(shuffled)
    one, four = grow(files, 1, states=4), grow(shuffled, 4, states=4)
    assert one.fingerprints == four.fingerprints
    assert len(one.fingerprints) > 60
    for outcome in (one, four):
        assert outcome.wrong == []
        assert outcome.naive_differ == 0
        assert outcome.states_short == 0
