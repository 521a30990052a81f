"""A damaged memory is told of, moved aside and grown again to the same ids, while everything else goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from agent.actions.home import open_home
from agent.clock import SYSTEM_CLOCK
from agent.db.aside import DAMAGED, copies, move_aside
from agent.paths import Paths, paths_under
from tests.cli.agents import Ids, grow, holds_chunks, ids_of, name_sources, overwrite, page_of, run, running_agent, said

Wait = Callable[..., None]


@pytest.fixture
def paths(tmp_path: Path, grown_home: Path) -> Paths:
    """A home of its own with a grown memory, its sources and one thing that was pushed."""
    paths = paths_under(tmp_path / "home").make()
    name_sources(paths, Path(shutil.copytree(grown_home.parent / "samples", tmp_path / "samples")))
    grow(paths)
    return paths


@pytest.fixture
def before(paths: Paths) -> Ids:
    found = ids_of(paths.database)
    assert len(found["chunks"]) > 40
    assert found["summaries"]
    return found


def has_looked(paths: Paths, since_ms: int) -> bool:
    """Return whether every source was looked at since, and nothing is left to do: a page in use heals itself."""
    with open_home(paths) as home:
        looked = "SELECT count(*) FROM mem_tree_sources WHERE last_sync_ms >= ?"
        left = "SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')"
        return home.connection.value(looked, (since_ms,)) == 3 and home.connection.value(left) == 0


def bring_in_the_log(paths: Paths) -> None:
    """Have the pages that are overwritten be those that are read."""
    raw = apsw.Connection(str(paths.database))
    raw.set_busy_timeout(10_000)
    assert raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0] == 0
    raw.close()


@pytest.mark.slow
def test_damage_met_by_a_command_is_mended_by_the_running_agent(paths: Paths, before: Ids, wait_until: Wait) -> None:
    started_ms = SYSTEM_CLOCK.now_ms()
    with running_agent(paths, wait_until):
        wait_until(lambda: has_looked(paths, started_ms), 30, "an agent that looked at everything")
        page = page_of(paths.database, "mem_tree_trees")
        bring_in_the_log(paths)
        overwrite(paths.database, [page])
        ran = run(paths, "tree", "--json")
        assert ran.returncode == 1
        assert "damaged" in ran.stderr
        assert "the agent" in ran.stderr
        assert "see `sapwood status`" in " ".join(ran.stderr.split())

        wait_until(lambda: copies(paths.database, DAMAGED), 30, "the file moved aside")
        # Other commands are usable meanwhile.
        assert run(paths, "sources").returncode == 0
        assert run(paths, "search", "greenhouse").returncode == 0
        wait_until(lambda: holds_chunks(paths.database, before), 60, "the same chunks")
        found = json.loads(run(paths, "status", "--json").stdout)
        assert found["state"] == "attention"
        assert "was damaged" in found["reason"]
        assert str(copies(paths.database, DAMAGED)[0].path) in found["reason"]
        assert run(paths, "doctor").stdout.count("was damaged") == 1
    assert run(paths, "run", "--once").returncode == 0
    assert ids_of(paths.database) == before
    lines = [line for log in paths.log_dir.glob("supervisor*.log") for line in log.read_text().splitlines()]
    assert len([line for line in lines if "CRITICAL" in line]) == 1, "told once, not at every look"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pages", "header", "short", "nothing"])
def test_damage_while_nobody_works_is_met_at_the_start(how: str, paths: Paths, before: Ids) -> None:
    if how == "pages":
        overwrite(paths.database, range(12, 60))
    elif how == "header":
        overwrite(paths.database, [1])
    else:
        with paths.database.open("r+b") as file:
            file.truncate(4096 * 30 + 7 if how == "short" else 0)
        os.utime(paths.database, (1, 1))  # a file that was just made is empty for a moment
    ran = run(paths, "run", "--once")
    assert ran.returncode == 0, ran.stderr
    assert "everything is grown" in ran.stdout
    words = " ".join(ran.stderr.split())
    assert ("was damaged (it was empty)" if how == "nothing" else "was damaged") in words
    assert ids_of(paths.database) == before
    assert len(copies(paths.database, DAMAGED)) == (how != "nothing")


@pytest.mark.slow
def test_index_that_does_not_match_its_table_is_damage(paths: Paths, before: Ids) -> None:
    raw = apsw.Connection(str(paths.database))
    raw.execute("PRAGMA writable_schema = ON").fetchall()
    raw.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'order_key', 'tokens') WHERE name = 'mem_tree_chunks_by_item'"
    ).fetchall()
    raw.close()
    told = run(paths, "doctor", "--deep")
    assert told.returncode == 1
    assert "sapwood rebuild" in " ".join(told.stdout.split())
    assert "is kept as" in " ".join(run(paths, "rebuild", "--yes").stdout.split())
    assert run(paths, "run", "--once").returncode == 0
    assert ids_of(paths.database) == before


def test_doctor_says_what_mends_it_while_nobody_works(paths: Paths) -> None:
    overwrite(paths.database, range(12, 60))
    ran = run(paths, "doctor")
    assert ran.returncode == 1
    assert "sapwood rebuild" in " ".join(ran.stdout.split())


@pytest.mark.slow
def test_second_damage_within_an_hour_ends_a_single_run(paths: Paths) -> None:
    overwrite(paths.database, range(12, 60))
    assert run(paths, "run", "--once").returncode == 0
    overwrite(paths.database, range(12, 60))
    ran = run(paths, "run", "--once")
    assert ran.returncode == 1
    assert "the disk may be failing" in " ".join(ran.stdout.split())
    assert "sapwood rebuild" in " ".join(ran.stdout.split())
    # The owner has the last word.
    ran = run(paths, "rebuild", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert "is kept as" in " ".join(ran.stdout.split())
    assert len(copies(paths.database, DAMAGED)) == 2
    assert run(paths, "run", "--once").returncode == 0


@pytest.mark.slow
def test_who_asks_while_it_waits_for_its_owner_is_told_what_to_do(paths: Paths, wait_until: Wait) -> None:
    overwrite(paths.database, range(12, 60))
    move_aside(paths.database, SYSTEM_CLOCK.now_ms())
    paths.database.write_bytes(b"no database " * 1_000)
    with running_agent(paths, wait_until):
        wait_until(lambda: said(paths)["state"] == "attention", 30, "the agent's words")
        ran = run(paths, "status")
        assert ran.returncode == 1
        assert "the disk may be failing" in " ".join(ran.stderr.split())
        assert "`sapwood rebuild`" in " ".join(ran.stderr.split())
        ran = run(paths, "rebuild", "--yes", "--json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["running"]
        wait_until(lambda: run(paths, "status").returncode == 0, 30, "a new memory")
