"""Real workers in a call, and their owner leaves: the connection closes within a second and no attempt is burnt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.actions.home import open_home
from agent.actions.pausing import pause, resume
from agent.actions.running import GATE_HOOK, PERMITS_HOOK
from agent.paths import Paths
from agent.queue.types import NewJob
from tests.models.pipeline.asking import KINDS, edit, keep_key, own_address, plain, profile_text, question
from tests.scripted import Behaviour, Call, Serving, behave, serving
from tests.supervisor.conftest import Rows, StartAgent, put, rows, start_agent

__all__ = ["put", "rows", "start_agent"]

PUT_OFF = {"status": "ready", "attempts": 0, "crashes": 0}
SILENT = behave("silent")
TALKING = behave("slow_stream", between_s=60.0)


@dataclass
class Scene:
    """A running agent with two workers, a cloud and a server of this machine; the cloud is active."""

    paths: Paths
    far: Serving
    near: Serving
    put: Callable[[NewJob], int]
    rows: Rows
    wait_until: Callable[..., None]
    active: str = "far"
    number: int = 0

    def config(self, active: str = "", **far: Any) -> str:
        return (
            f'[models]\nactive = "{active or self.active}"\n\n'
            + profile_text("far", self.far, **far)
            + profile_text("near", self.near)
        )

    def ask(self) -> int:
        self.number += 1
        return self.put(question(self.number))

    def in_call(self, server: Serving, behaviour: Behaviour) -> tuple[int, Call]:
        """Put a question and return its row and its call once that is under way; with a first byte where it talks."""
        server.use(behaviour)
        before = len(server.calls("chat"))
        job = self.ask()

        def is_there(calls: list[Call]) -> bool:
            chats = [call for call in calls if call.kind == "chat"][before:]
            return bool(chats) and (behaviour is not TALKING or chats[0].first_byte is not None)

        server.wait_for(is_there, 30)
        return job, server.calls("chat")[before]

    def assert_left(self, server: Serving, call: Call, since: float, behaviour: Behaviour) -> None:
        server.wait_for(lambda _: call.ended is not None, 10)
        assert call.ended is not None
        assert call.how == "closed_by_client"
        assert call.ended - since < 1.0
        assert (call.first_byte is None) == (behaviour is SILENT)

    def row(self, job: int) -> dict[str, Any]:
        return {name: value for name, value in self.rows.row(job).items() if name in PUT_OFF}

    def others_go_on(self) -> None:
        """A job that needs no model is done: the workers are well, and had time to call somebody."""
        self.number += 1
        job = self.put(plain(self.number))
        self.wait_until(lambda: self.rows.status(job) == "done", 20, "a job that needs no model")


@pytest.fixture
def scene(
    paths: Paths,
    start_agent: StartAgent,
    put: Callable[[NewJob], int],
    rows: Rows,
    wait_until: Callable[..., None],
) -> Any:
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but loopback, and that is no cloud: connect it to a network")
    with serving(host) as far, serving() as near:
        found = Scene(paths, far, near, put, rows, wait_until)
        keep_key(paths, far)
        edit(paths, found.config())
        workers = {"SAPWOOD_POOL__MIN_WORKERS": "2", "SAPWOOD_POOL__MAX_WORKERS": "2"}
        agent = start_agent(kind_names=KINDS, gate_hook=GATE_HOOK, permits_hook=PERMITS_HOOK, env=workers)
        wait_until(lambda: len(agent.running()) == 2, 30, "two workers")
        yield found


def test_switching_by_hand_closes_the_clouds_connection_and_the_next_call_goes_to_the_new_server(scene: Scene) -> None:
    for behaviour in (SILENT, TALKING):
        edit(scene.paths, scene.config("far"))
        job, call = scene.in_call(scene.far, behaviour)
        asked = len(scene.far.calls("chat"))
        since = time.monotonic()
        edit(scene.paths, scene.config("near"))
        scene.assert_left(scene.far, call, since, behaviour)
        scene.wait_until(lambda job=job: scene.rows.status(job) == "done", 20, "the question, asked of the other")
        assert scene.rows.row(job)["attempts"] <= 1, "the call that was ended burnt none"
        assert len(scene.far.calls("chat")) == asked, "no request after the switch"
        (answered,) = [each for each in scene.near.calls("chat") if each.body["messages"] == call.body["messages"]]
        assert answered.how == "answered"


@pytest.mark.slow
def test_withdrawn_consent_closes_the_clouds_connection_and_nothing_is_sent_there(scene: Scene) -> None:
    for behaviour in (SILENT, TALKING):
        edit(scene.paths, scene.config())
        with open_home(scene.paths) as home:
            home.connection.run("DELETE FROM mem_tree_holds")
        job, call = scene.in_call(scene.far, behaviour)
        asked = len(scene.far.calls("chat"))
        since = time.monotonic()
        edit(scene.paths, scene.config(consent=""))
        scene.assert_left(scene.far, call, since, behaviour)
        scene.wait_until(lambda job=job: scene.row(job) == PUT_OFF, 10, "the job put off")
        assert scene.rows.row(job)["failure_reason"] == "no_consent"
        other = scene.ask()
        scene.others_go_on()
        assert scene.rows.status(other) == "ready"
        assert len(scene.far.calls("chat")) == asked


@pytest.mark.slow
def test_a_config_that_cannot_be_read_closes_the_clouds_connection_and_mending_it_goes_on(scene: Scene) -> None:
    for behaviour in (SILENT, TALKING):
        job, call = scene.in_call(scene.far, behaviour)
        asked = len(scene.far.calls("chat"))
        since = time.monotonic()
        edit(scene.paths, scene.config() + "\n[[[")
        scene.assert_left(scene.far, call, since, behaviour)
        scene.wait_until(lambda job=job: scene.row(job) == PUT_OFF, 10, "the job put off")
        scene.others_go_on()
        assert len(scene.far.calls("chat")) == asked
        scene.far.use("ok")
        edit(scene.paths, scene.config())
        scene.wait_until(lambda job=job: scene.rows.status(job) == "done", 30, "the question after the mending")


@pytest.mark.slow
def test_a_pause_ends_a_call_on_this_machine_and_lets_one_of_a_cloud_come_to_its_end(scene: Scene) -> None:
    edit(scene.paths, scene.config("near"))
    for behaviour in (SILENT, TALKING):
        job, call = scene.in_call(scene.near, behaviour)
        since = time.monotonic()
        with open_home(scene.paths) as home:
            pause(home, "1h")
        scene.assert_left(scene.near, call, since, behaviour)
        scene.wait_until(lambda job=job: scene.row(job) == PUT_OFF, 10, "the job put off")
        scene.near.use("ok")
        with open_home(scene.paths) as home:
            resume(home)
        scene.wait_until(lambda job=job: scene.rows.status(job) == "done", 20, "the question after the pause")
    edit(scene.paths, scene.config("far"))
    job, call = scene.in_call(scene.far, behave("held"))
    with open_home(scene.paths) as home:
        pause(home, "1h")
    scene.far.release()
    scene.wait_until(lambda: scene.rows.status(job) == "done", 20, "the call that was paid for")
    assert call.how == "answered"
