"""Whatever an owner and the machine do, in whatever order: in the end the memory is what a fresh one would be."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.lived import Lived, lived_home, opened

OWNER = (
    *("write_note", "write_note", "edit_note", "edit_note", "rename_note", "rename_folder", "delete_note"),
    *("get_mail", "get_mail", "delete_mail", "say", "say", "forget", "switch"),
)
MACHINE = ("look", "work", "work", "crash", "lose_queue", "sweep", "accept", "finish")
STEPS = st.lists(st.tuples(st.sampled_from(OWNER + MACHINE), st.integers(0, 10_000)), min_size=4, max_size=40)
QUIETLY = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def live(home: Lived, steps: Sequence[tuple[str, int]]) -> None:
    for name, seed in steps:
        chance = random.Random(seed)
        match name:
            case "look" | "lose_queue" | "sweep" | "finish" | "accept":
                getattr(home, name)()
            case "work":
                home.work(chance.choice([1, 5, 40]))
            case _:
                getattr(home, name)(chance)
    home.finish()


def assert_like_a_fresh_one(home: Lived) -> None:
    home.assert_sound()
    home.assert_embedded()
    home.assert_mails_lie_where_they_are_said_to()
    with opened(home.folder, home.paths.config_dir.parent.parent / "fresh") as fresh:
        if home.paths.ledger.exists():
            shutil.copy(home.paths.ledger, fresh.paths.ledger)
        fresh.finish()
        fresh.assert_sound()
        assert home.passages() == fresh.passages()
        assert home.fingerprints() == fresh.fingerprints()


@given(STEPS)
@settings(QUIETLY, max_examples=12)
def test_any_history_ends_in_the_memory_of_a_fresh_home(steps: list[tuple[str, int]]) -> None:
    with lived_home() as home:
        live(home, steps)
        assert_like_a_fresh_one(home)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("SAPWOOD_TEST_HISTORIES", "16"))))
def test_many_long_histories_end_in_the_memory_of_a_fresh_home(seed: int) -> None:
    chance = random.Random(seed)
    steps = [(chance.choice(OWNER + MACHINE), chance.randrange(10_000)) for _ in range(120)]
    with lived_home() as home:
        live(home, steps)
        assert_like_a_fresh_one(home)
