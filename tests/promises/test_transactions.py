"""How the memory is read and written while everything grows, seen statement by statement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent.db import Connection, connect
from agent.paths import Paths
from agent.queue import run
from agent.supervisor.tick import Housekeeping
from tests.generated.mailbox import write_exports
from tests.generated.vault import edit_paragraph, write_vault
from tests.promises.conftest import Grower

_ENDS = ("COMMIT", "ROLLBACK", "END")


def _watch_transactions(connection: Connection, wrong: list[str]) -> Callable[[Any, str, Any], bool]:
    """Return a trace that notes each write inside a transaction that did not begin as one."""
    state = {"deferred": False}

    def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        words = " ".join(sql.split()).upper()
        if words.startswith("BEGIN"):
            state["deferred"] = words == "BEGIN" or words.startswith("BEGIN DEFERRED")
        elif words.startswith(_ENDS) and not words.startswith("ROLLBACK TO"):
            state["deferred"] = False
        elif state["deferred"] and not cursor.is_readonly:
            wrong.append(words[:80])
        return True

    connection.raw.exec_trace = trace
    return trace


def _sources(grower: Grower, folder: Path) -> None:
    write_vault(folder / "vault", 20)
    grower.add("vault", "folder", folder / "vault")
    grower.add("mail", "mbox", *write_exports(folder / "mail", 30))


def test_no_transaction_turns_from_reading_to_writing(grower: Grower, tmp_path: Path) -> None:
    wrong: list[str] = []
    _watch_transactions(grower.connection, wrong)
    _sources(grower, tmp_path)
    assert grower.grow() > 100
    for number, note in enumerate(sorted((tmp_path / "vault").rglob("*.md"))):
        if number % 4:
            edit_paragraph(note, "Changed.")
        else:
            note.unlink()
    now_ms = grower.context.clock.now_ms()
    housekeeping = Housekeeping(grower.registry)
    housekeeping.start(grower.connection, grower.intent, now_ms)
    housekeeping.tick(grower.connection, grower.intent, now_ms)
    grower.grow()
    assert wrong == []


def test_the_watch_sees_a_transaction_that_turns(connection: Connection) -> None:
    wrong: list[str] = []
    _watch_transactions(connection, wrong)
    with connection.snapshot():
        connection.run("DELETE FROM mem_tree_state WHERE key = 'nobody'")
    assert wrong == ["DELETE FROM MEM_TREE_STATE WHERE KEY = 'NOBODY'"]


def test_no_look_is_left_open_behind_a_job(
    grower: Grower, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten cursor pins the log of writes, which then grows without end."""
    other = connect(paths.database)
    other.raw.set_busy_timeout(0)
    pinned: list[str] = []
    real = run.settle_and_claim

    def settled(connection: Connection, results: Any, *rest: Any) -> Any:
        kind = str(results[0][0].kind)
        if other.one("PRAGMA wal_checkpoint(TRUNCATE)") != (0, 0, 0):
            pinned.append(f"the handler of {kind}")
        found = real(connection, results, *rest)
        if other.one("PRAGMA wal_checkpoint(TRUNCATE)") != (0, 0, 0):
            pinned.append(f"settling {kind}")
        return found

    monkeypatch.setattr(run, "settle_and_claim", settled)
    _sources(grower, tmp_path)
    assert grower.grow() > 100
    assert pinned == []
    other.close()
