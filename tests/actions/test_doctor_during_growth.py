"""The deep look raises no false alarm: whatever is between two states is no fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent.actions.choosing import Wanted
from agent.actions.doctor import Check, doctor
from agent.actions.forgetting import forget, preview
from agent.actions.home import Home, open_home
from agent.db import Connection
from agent.db.state import PAUSE_KEY, set_state
from agent.ingest import removal
from agent.paths import Paths
from agent.queue.types import NewJob
from tests.actions.deep_home import faults, grow, grow_stepwise, home_in, push
from tests.generated.vault import edit_paragraph, write_vault


def check(paths: Paths, home: Home, where: str) -> None:
    found = faults(paths)
    stuck = [one for one in found if not one.name.startswith("failed ")]
    assert stuck == [], f"{where}: {json.dumps([vars(one) for one in stuck], indent=1)}"
    del home


def look_again(home: Home, *sources: str) -> None:
    for source in sources or ("notes", "mail", "chat", "remembered"):
        home.enqueue(NewJob.sync_source(source))


def test_no_moment_of_growing_and_changing_is_a_fault(tmp_path: Path) -> None:
    with home_in(tmp_path, notes=8, mails=24) as paths, open_home(paths) as home:
        look_again(home)
        for step in grow_stepwise(home, every=11):
            check(paths, home, f"first growth, after {step} claims")
        grow(paths)
        check(paths, home, "grown")
        notes = tmp_path / "sources" / "notes"
        # Edits, an insertion that splits a group, new files, files that go and move, an item pushed.
        some = sorted(path for path in notes.rglob("*.md") if path.name not in ("broken.md", "long.md"))
        edit_paragraph(some[0], "An afterthought about the greenhouse.")
        some[1].unlink()
        some[2].rename(some[2].with_name("moved.md"))
        long = (notes / "long.md").read_text().split("\n\n")
        (notes / "long.md").write_text("\n\n".join([*long[:4], "## New\n\n" + "Fresh words here. " * 200, *long[8:]]))
        write_vault(notes / "more", 4, seed=9)
        mailbox = sorted((tmp_path / "sources" / "mail").iterdir())[0]
        mails = mailbox.read_bytes().split(b"\nFrom ")
        mailbox.write_bytes(b"\nFrom ".join([mails[0], *mails[3:]]))
        push(home, "The pump is mended; the spare part lies in the shed.")
        look_again(home)
        for step in grow_stepwise(home, every=5):
            check(paths, home, f"after changes, {step} claims")
        grow(paths)
        check(paths, home, "grown again")


def test_a_queue_that_was_lost_is_no_fault_of_the_memory(tmp_path: Path) -> None:
    with home_in(tmp_path, notes=8, mails=20) as paths, open_home(paths) as home:
        look_again(home)
        for step in grow_stepwise(home, every=6):
            with home.connection.write():
                home.connection.run("DELETE FROM mem_tree_jobs WHERE status = 'ready' AND id % 3 = 0")
            check(paths, home, f"some jobs lost, after {step} claims")
        with home.connection.write():
            home.connection.run("DELETE FROM mem_tree_jobs")
        found = doctor(paths, deep=True)
        assert found.ok, [one for one in found.checks if not one.ok]


def test_long_items_that_leave_in_parts_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "NODES_A_TIME", 5)
    with home_in(tmp_path, notes=6, mails=10) as paths:
        grow(paths)
        (tmp_path / "sources" / "notes" / "long.md").unlink()
        (tmp_path / "sources" / "chat" / "#garden.log").write_text("")
        with open_home(paths) as home:
            look_again(home, "notes", "chat")
            for step in grow_stepwise(home, every=1):
                check(paths, home, f"leaving, after {step} claims")


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(Wanted(source_id="notes", item_key="long.md"), id="a document"),
        pytest.param(Wanted(source_id="mail"), id="a source"),
        pytest.param(Wanted(words="seedlings"), id="what says a word"),
    ],
)
def test_no_moment_of_forgetting_is_a_fault(tmp_path: Path, wanted: Wanted) -> None:
    with home_in(tmp_path, notes=6, mails=20) as paths:
        grow(paths)
        with open_home(paths) as home:
            assert forget(home, wanted, preview(home, wanted)[1]).chunks_removed
            check(paths, home, "forgotten")
            look_again(home)
            for step in grow_stepwise(home, every=3):
                check(paths, home, f"after forgetting, {step} claims")


@pytest.fixture
def half_grown(tmp_path: Path) -> Paths:
    with home_in(tmp_path, notes=8, mails=20) as paths, open_home(paths) as home:
        look_again(home)
        steps = grow_stepwise(home, every=25)
        next(steps)
        steps.close()
    return paths


def _fail(connection: Connection, kinds: str) -> None:
    with connection.write():
        connection.run(
            f"""
            UPDATE mem_tree_jobs
               SET status = 'failed', failure_reason = 'crash_loop', failure_class = 'unrecoverable', attempts = 1,
                   completed_at_ms = created_at_ms
             WHERE status = 'ready' AND kind IN ({kinds}) AND id % 2 = 0
            """
        )


def test_failed_jobs_are_told_as_such_and_as_nothing_else(half_grown: Paths) -> None:
    with open_home(half_grown) as home:
        _fail(home.connection, "'extract_chunk', 'ingest_file', 'seal_document', 'append_buffer', 'seal'")
        check(half_grown, home, "jobs failed")
        for step in grow_stepwise(home, every=12):
            check(half_grown, home, f"with failed jobs, after {step} claims")
        _fail(home.connection, "'seal_document', 'seal', 'append_buffer', 'reembed_backfill'")
        check(half_grown, home, "more jobs failed")
    names = {one.name for one in faults(half_grown)}
    assert names
    assert all(name.startswith("failed ") for name in names)


def test_a_paused_memory_is_well(half_grown: Paths) -> None:
    with open_home(half_grown) as home, home.connection.write():
        set_state(home.connection, PAUSE_KEY, str(1 << 50))
    assert faults(half_grown) == []


def test_a_memory_that_is_held_back_is_well_and_its_question_is_told(tmp_path: Path) -> None:
    with home_in(tmp_path, notes=10, mails=10) as paths:
        grow(paths)
        notes = tmp_path / "sources" / "notes"
        for path in list(notes.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        with open_home(paths) as home:
            look_again(home, "notes")
            for step in grow_stepwise(home, every=1):
                check(paths, home, f"held back, after {step} claims")
            if home.connection.value("SELECT count(*) FROM mem_tree_questions"):
                assert "sapwood sync notes --accept" in named(paths, "questions").detail


def named(paths: Paths, name: str) -> Check:
    return next(one for one in doctor(paths, deep=True).checks if one.name == name)
