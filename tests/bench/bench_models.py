"""What a model's permit, its owner's pause and a crash cost, against a scripted model.

``permit_handover_ms``: the one permit's holder is killed in the middle of a call; until the next worker's job begins
under it. ``call_after_kill_ms``: until that job's call reaches the server; a worker that never asked before loads the
SDK first. ``pause_ms``/``resume_ms``: from the owner's word until no call of the local model is under way, and until
the next job that asks begins. ``calls_repeated``: a memory is grown while workers are killed; calls of one and the same
question beyond those that a kill cut off. ``own_cpu_paused``: looks at which the agent held itself back for its own
load.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from agent.actions.pausing import pause, resume
from agent.queue.handling import all_handling
from tests.bench.harness import Result, Setting
from tests.bench.model_ground import PATIENCE_S, Bench, agent, begun, profile_table
from tests.bench.model_growth import grow_with_kills
from tests.bench.own_load import own_cpu_paused
from tests.bench.waiting import poll, running_workers
from tests.scripted.behaviour import behave
from tests.scripted.process import Spawned, spawned

REPEATS = 20


def run(setting: Setting) -> Result:
    """Measure all of it; ``--quick`` repeats less."""
    result = Result()
    repeats = 6 if setting.quick else REPEATS
    with (
        tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder,
        spawned(Path(folder) / "calls.jsonl") as server,
    ):
        with _busy(server) as bench:
            handovers = [_kill_holder(bench, server) for _ in range(repeats)]
        result.figures["permit_handover_ms"] = round(median(handed for handed, _ in handovers), 1)
        result.figures["permit_handover_worst_ms"] = round(max(handed for handed, _ in handovers), 1)
        result.figures["call_after_kill_ms"] = round(median(called for _, called in handovers), 1)
        with _busy(server) as bench:
            pauses = [_pause(bench, server) for _ in range(repeats)]
        result.figures["pause_ms"] = round(max(paused for paused, _ in pauses), 1)
        result.figures["resume_ms"] = round(max(resumed for _, resumed in pauses), 1)
    grown = grow_with_kills(kills=5 if setting.quick else 20)
    result.figures |= grown.figures
    result.notes += grown.notes
    result.figures["own_cpu_paused"] = own_cpu_paused(seconds=20.0 if setting.quick else 60.0)
    result.notes.append("pause_ms and resume_ms are the slowest of all; permit_handover_ms is the median")
    result.hold("permit_handover_ms", "<=", 100)
    result.hold("calls_repeated", "==", 0)
    result.hold("pause_ms", "<=", 1_000)
    result.hold("resume_ms", "<=", 1_000)
    result.hold("own_cpu_paused", "==", 0)
    return result


def _busy(server: Spawned) -> AbstractContextManager[Bench]:
    """Run an agent whose two workers want the one permit of a slow local model."""
    server.use(behave("slow", first_byte_s=0.5, between_s=0.0))
    never = {"SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "1000000", "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.01"}
    never |= {"SAPWOOD_SUPERVISOR__BACKOFF_CAP_SECONDS": "0.02", "SAPWOOD_QUEUE__CRASH_LIMIT": "1000000"}
    return agent([profile_table("near", server)], "near", workers=2, questions=8, environ=never)


def _kill_holder(bench: Bench, server: Spawned) -> tuple[float, float]:
    """Kill the worker whose call is under way; return ms until another's job begins, and until its call is there."""
    poll(lambda: running_workers(bench.paths) == 2, "two workers", PATIENCE_S)
    poll(lambda: server.in_flight == 1, "a call", PATIENCE_S)
    seen = len(server.calls("chat"))
    busy = [each for each in all_handling(bench.paths) if each.job_id is not None]
    if not busy:
        return _kill_holder(bench, server)
    started = len(begun(bench.paths))
    killed = time.monotonic()
    os.kill(busy[0].pid, signal.SIGKILL)
    poll(lambda: len(server.calls("chat")) > seen, "the next call", PATIENCE_S)
    return (begun(bench.paths)[started] - killed) * 1000, (server.calls("chat")[seen].began - killed) * 1000


def _pause(bench: Bench, server: Spawned) -> tuple[float, float]:
    """Pause and resume; return ms until no call was under way, and until the next job began."""
    from agent.actions.home import open_home

    server.use("silent")
    poll(lambda: any(c.behaviour == "silent" and c.ended is None for c in server.calls("chat")), "a call", PATIENCE_S)
    with open_home(bench.paths) as home:
        started = time.monotonic()
        pause(home, None)
        poll(lambda: server.in_flight == 0, "silence", PATIENCE_S)
        time.sleep(0.3)
        calls = server.calls("chat")
        paused_ms = (max(call.ended or time.monotonic() for call in calls) - started) * 1000
        assert server.in_flight == 0, "nothing begins while it is paused"
        before = len(begun(bench.paths))
        started = time.monotonic()
        resume(home)
        poll(lambda: len(begun(bench.paths)) > before, "the next job", PATIENCE_S)
    resumed_ms = (begun(bench.paths)[before] - started) * 1000
    return max(0.0, paused_ms), resumed_ms
