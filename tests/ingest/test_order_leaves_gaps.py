"""Order keys: what stays keeps its key, what comes between fits, exhaustion is survived."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agent.ingest.order import GAP, assign_order_keys, item_sort_key


def test_a_first_version_is_numbered_with_gaps() -> None:
    assert assign_order_keys(["a", "b", "c"], {}).keys == (GAP, 2 * GAP, 3 * GAP)


def test_what_comes_between_moves_nobody() -> None:
    held = {"a": GAP, "b": 2 * GAP}
    ordering = assign_order_keys(["x", "a", "y", "z", "b", "w"], held)
    assert ordering.moved == frozenset()
    assert ordering.keys[1] == GAP
    assert ordering.keys[4] == 2 * GAP
    assert list(ordering.keys) == sorted(set(ordering.keys))


def test_only_what_was_moved_gets_another_key() -> None:
    held = {name: (at + 1) * GAP for at, name in enumerate("abcdef")}
    ordering = assign_order_keys(["f", "a", "b", "c", "d", "e"], held)
    assert ordering.moved == frozenset("f")


def test_an_exhausted_gap_renumbers_the_item() -> None:
    ordering = assign_order_keys(["a", "x", "b"], {"a": 5, "b": 6})
    assert ordering.keys == (GAP, 2 * GAP, 3 * GAP)
    assert ordering.moved == frozenset("ab")


@given(st.lists(st.sampled_from("abcdefghijklmnop"), unique=True), st.randoms(use_true_random=False))
def test_keys_rise_in_any_order_and_moves_are_told(order: list[str], chance: random.Random) -> None:
    names = chance.sample("abcdefghijklmnop", chance.randint(0, 16))
    held = {name: (at + 1) * chance.choice([1, 2, 1 << 10]) + at * (1 << 11) for at, name in enumerate(names)}
    ordering = assign_order_keys(order, held)
    assert list(ordering.keys) == sorted(set(ordering.keys))
    assert all(key > 0 for key in ordering.keys)
    for name, key in zip(order, ordering.keys, strict=True):
        assert (name in ordering.moved) == (name in held and held[name] != key)


def test_inserting_at_one_place_for_ever_never_breaks_the_order() -> None:
    order, held = ["a", "b"], {"a": GAP, "b": 2 * GAP}
    for number in range(200):
        order.insert(1, f"n{number}")
        ordering = assign_order_keys(order, held)
        held = dict(zip(order, ordering.keys, strict=True))
        assert list(ordering.keys) == sorted(set(ordering.keys))


def test_streams_are_ordered_by_time_undated_first() -> None:
    times = [None, -5_000, 0, 1, 1_700_000_000_000]
    keys = [item_sort_key("email", "k", time_ms) for time_ms in times]
    assert keys == sorted(keys)
    assert item_sort_key("chat", "a", 5) < item_sort_key("chat", "b", 5)
