"""All that is held of a source goes in one transaction: it is said that it takes a while, and who waits just waits."""

from __future__ import annotations

import pytest

from agent.actions import forgetting
from agent.actions.choosing import Wanted, choose
from agent.actions.erasing import find_forgotten
from agent.actions.forgetting import forget, remove
from agent.actions.home import open_home
from agent.ids import tree_id
from agent.ledger import read_ledger
from agent.paths import Paths
from agent.tree.check import problems
from agent.tree.flush import unfinished
from tests.forget.planted import grow


def _sources(paths: Paths) -> list[str]:
    with open_home(paths) as home:
        return [source for (source,) in home.connection.all("SELECT DISTINCT source_id FROM mem_tree_items ORDER BY 1")]


def test_nothing_of_any_tree_of_it_stays_and_the_others_stand(planted: Paths) -> None:
    for source_id in _sources(planted):
        with open_home(planted) as home:
            others = home.connection.all(
                "SELECT tree_id, root_id FROM mem_tree_trees WHERE source_id <> ?", (source_id,)
            )
            wanted = Wanted(source_id=source_id)
            done = forget(home, wanted, choose(home.connection, wanted))
            assert done.items_removed > 0
            for table in ("chunks", "summaries", "items"):
                assert home.connection.value(
                    f"SELECT count(*) FROM mem_tree_{table} WHERE source_id = ?", (source_id,)
                ) == (0), table
            left = home.connection.all(
                """
                SELECT tree_id, root_id, max_level FROM mem_tree_trees
                 WHERE source_id = ? ORDER BY 1
                """,
                (source_id,),
            )
            assert left == [(tree_id("source", source_id), None, 0)]
            assert others == home.connection.all(
                "SELECT tree_id, root_id FROM mem_tree_trees WHERE source_id <> ?", (source_id,)
            )
            assert problems(home.connection) == []
            assert find_forgotten(home.connection, read_ledger(planted)) == []
    grow(planted)
    with open_home(planted) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_edges") == 0
        assert unfinished(home.connection) == []


@pytest.mark.parametrize("way", ["forget", "remove"])
def test_it_is_told_that_it_goes_on(planted: Paths, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(forgetting, "_INSTRUCTIONS", 1_000)
    calls: list[bool] = []
    with open_home(planted) as home:
        connection = home.connection

        def meanwhile() -> None:
            calls.append(connection.in_transaction)

        if way == "forget":
            wanted = Wanted(source_id="post")
            forget(home, wanted, choose(connection, wanted), meanwhile=meanwhile)
        else:
            remove(home, "post", meanwhile=meanwhile)
        told = len(calls)
        assert told > 3
        assert any(calls)
        connection.all("SELECT count(*) FROM mem_tree_chunks AS a, mem_tree_chunks AS b")
        assert len(calls) == told, "nobody is told of what comes after"
