"""Where nothing is new nothing is made: no model is asked on a timer, whatever the clock says."""

from __future__ import annotations

import os
from pathlib import Path

from agent.clock import FakeClock
from agent.supervisor.tick import Housekeeping
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault
from tests.promises.conftest import Grower

QUARTER_S = 15 * 60
HOURS = 30
"""More than a day: past every time limit of open tails."""


def test_no_model_is_asked_without_new_content_however_long_it_runs(
    grower: Grower, clock: FakeClock, tmp_path: Path
) -> None:
    write_vault(tmp_path / "vault", 8)
    grower.add("vault", "folder", tmp_path / "vault")
    grower.add("mail", "mbox", *write_exports(tmp_path / "mail", 12))
    grower.grow()
    assert all(grower.calls[call] > 0 for call in ("embed", "summarise", "extract"))
    grower.calls.clear()
    housekeeping = Housekeeping(grower.registry)
    looks = set()
    for _ in range(HOURS * 4):
        clock.advance(QUARTER_S)
        housekeeping.tick(grower.connection, grower.intent, clock.now_ms())
        grower.drain()
        looks.update(grower.connection.all("SELECT source_id, last_sync_ms FROM mem_tree_sources"))
    assert len(looks) > 2 * HOURS, "the sources were looked at"
    assert grower.calls == {}


def test_touched_files_ask_no_model(grower: Grower, tmp_path: Path) -> None:
    write_vault(tmp_path / "vault", 8)
    grower.add("vault", "folder", tmp_path / "vault")
    grower.grow()
    grower.calls.clear()
    for note in (tmp_path / "vault").rglob("*.md"):
        os.utime(note, (2_000_000_000, 2_000_000_000))
    grower.grow()
    assert grower.calls == {}


def test_what_is_new_is_all_that_is_asked_about(grower: Grower, tmp_path: Path) -> None:
    write_vault(tmp_path / "vault", 8)
    grower.add("vault", "folder", tmp_path / "vault")
    grower.grow()
    grower.calls.clear()
    (tmp_path / "vault" / "one more.md").write_text("The blue door opens to the garden, says the gardener.\n")
    grower.grow()
    assert grower.calls["extract"] == 1
