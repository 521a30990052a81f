"""A real agent with a real bus: what its owner is told, and that a desktop without notifications changes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.db import connect
from agent.db.state import NOTICES_KEY, get_state
from tests.desktop.panel import private_bus
from tests.supervisor.conftest import StartAgent

if sys.platform == "linux":
    from tests.system.notification_service import Service, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the bus is of Linux"),
]

NEEDS = "agent.actions.notifying:what_is_needed"
FAILS_SOON = {
    "SAPWOOD_DESKTOP__NOTIFICATIONS": "true",
    "SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "2",
    "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.1",
    "SAPWOOD_SUPERVISOR__TICK_IDLE_SECONDS": "1",
}


def test_a_worker_that_gave_up_is_told_once(
    tmp_path: Path, start_agent: StartAgent, wait_until: Callable[..., None]
) -> None:
    with private_bus(tmp_path) as bus, serving(bus.address, Service()) as service:
        env = {**FAILS_SOON, "DBUS_SESSION_BUS_ADDRESS": bus.address}
        agent = start_agent(env=env, worker="tests.supervisor.odd_workers:dies_at_once", needs_hook=NEEDS)
        wait_until(lambda: service.shown, 60, "a notification")
        assert [title for _, title, _ in service.shown] == ["Part of Sapwood ends again and again"]
        connection = connect(agent.paths.database, agent.paths.write_turn)
        try:
            assert '"worker"' in str(get_state(connection, NOTICES_KEY))
        finally:
            connection.close()
        assert agent.status()["state"] == "attention"


def test_a_silent_desktop_keeps_the_agent_neither_from_its_work_nor_from_its_end(
    tmp_path: Path, start_agent: StartAgent, wait_until: Callable[..., None]
) -> None:
    with private_bus(tmp_path) as bus, serving(bus.address, Service(hangs=True)) as service:
        env = {**FAILS_SOON, "DBUS_SESSION_BUS_ADDRESS": bus.address}
        agent = start_agent(env=env, worker="tests.supervisor.odd_workers:dies_at_once", needs_hook=NEEDS)
        wait_until(lambda: service.shown, 60, "a notification that is asked for")
        began = time.monotonic()
        assert agent.status()["state"] == "attention", "it answers meanwhile"
        family = agent.family()
        agent.process.terminate()
        agent.wait()
        assert time.monotonic() - began < 4
        wait_until(lambda: not [pid for pid in agent.family() if pid in family], 5, "the end of all it started")
