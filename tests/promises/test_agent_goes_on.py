"""What a running agent does not stumble over: a broken settings file, and a worker that came back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from agent.actions import running
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.db import Database
from agent.paths import Paths
from agent.supervisor.control import call
from agent.worker.kinds import KIND_NAMES
from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of


def test_a_broken_settings_file_does_not_stop_the_agent(
    start_agent: StartAgent, paths: Paths, database: Database, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "first.md").write_text("The first page speaks of the orchard and its old gate.\n")
    with open_home(paths) as home:
        add(home, [str(vault)], name="vault")
    start_agent(kind_names=list(KIND_NAMES), workers=1, worker=running.WORKER)
    wait_until(lambda: database.connection.value("SELECT count(*) FROM mem_tree_chunks") == 1, 20.0, "the first page")

    whole = paths.config_file.read_text()
    paths.config_file.write_text(f"[[sources]]\nid = 'vault\n{whole}")
    (vault / "second.md").write_text("The second page came while the settings could not be read.\n")
    call(paths, "reload")
    wait_until(lambda: database.connection.value("SELECT count(*) FROM mem_tree_chunks") == 2, 20.0, "the second page")
    status = call(paths, "status")
    assert status["state"] == "attention"
    assert "config.toml" in status["reason"]

    paths.config_file.write_text(whole)
    wait_until(lambda: call(paths, "status")["state"] != "attention", 20.0, "the end of the complaint")


def test_a_worker_that_comes_back_has_another_name_so_its_old_leases_look_dead(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    start_agent(workers=1)
    names, pids = [], []
    for number in range(2):
        held = tmp_path / f"held{number}"
        job = put(job_of("t_hold", held))
        wait_until(lambda held=held: lines(held), 10.0, "the job's first run")
        names.append(rows.row(job)["locked_by"])
        pids.append(int(lines(held)[0][0]))
        os.kill(pids[-1], signal.SIGKILL)
        wait_until(lambda job=job: rows.status(job) == "done", 10.0, "the job's second run")
    assert len(set(names)) == 2
    assert len(set(pids)) == 2
