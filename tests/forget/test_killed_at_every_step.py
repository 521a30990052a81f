"""Killed anywhere on its way, forgetting is finished by the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from agent.actions.forgetting import keep_ledger
from agent.actions.home import open_home
from agent.paths import Paths
from agent.tree.check import problems
from tests.conftest import REPOSITORY
from tests.forget.planted import grow, run_agent_once
from tests.forget.test_nothing_is_left import where

STEPS = ("ledger", "uncommitted", "transaction", "inbox", "copies", "log")


def die_at(paths: Paths, step: str, *source: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.forget.dying", step, *source],
        env={**os.environ, "SAPWOOD_HOME": str(paths.config_dir.parent)},
        cwd=REPOSITORY,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_the_next_start_ends_with_the_words_gone(planted: Paths, step: str) -> None:
    die_at(planted, step)
    with open_home(planted) as home:
        keep_ledger(planted, home.connection, home.clock.now_ms())
    assert where(planted) == []
    grow(planted)
    assert where(planted) == []
    with open_home(planted) as home:
        assert problems(home.connection) == []


@pytest.mark.parametrize("step", ["intent", "uncommitted", "transaction", "inbox"])
def test_a_removal_that_was_killed_is_asked_for_again(planted: Paths, step: str) -> None:
    from agent.actions.forgetting import remove

    die_at(planted, step, "remembered")
    with open_home(planted) as home:
        if home.connection.value("SELECT count(*) FROM mem_tree_items WHERE source_id = 'remembered'"):
            remove(home, "remembered")
        assert home.intent.source("remembered") is None


@pytest.mark.slow
@pytest.mark.parametrize("step", ["ledger", "uncommitted", "transaction"])
def test_the_agent_itself_finishes_it_at_its_start(planted: Paths, step: str) -> None:
    die_at(planted, step)
    ran = run_agent_once(planted.config_dir.parent)
    assert ran.returncode == 0, ran.stderr
    assert where(planted) == []
