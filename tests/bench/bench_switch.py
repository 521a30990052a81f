"""How soon a cloud is left when its owner switches to another model, half of the time before its first token.

Two workers ask a scripted server that counts as a cloud; then the owner makes a local profile the active one. Measured
is the time from the written intent to the moment at which the server sees its last connection closed, and every request
that reaches it after the switch.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.bench.harness import Result, Setting, percentile
from tests.bench.model_ground import PATIENCE_S, Bench, agent, own_address, profile_table, use_profile
from tests.bench.waiting import poll
from tests.scripted.process import Spawned, spawned
from tests.scripted.record import CLOSED_BY_CLIENT, Call

SWITCHES = 100
WORKERS = 2
QUESTIONS = 8
SETTLE_S = 0.5  # so long after the last connection is closed a late request would have come


def run(setting: Setting) -> Result:
    """Measure a hundred switches (``--quick``: twenty) and hold them to their bars."""
    result = Result()
    host = own_address()
    if host is None:
        result.notes.append("this machine has no address but loopback, and that is no cloud: nothing was measured")
        return result
    switches = 20 if setting.quick else SWITCHES
    with (
        tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder,
        spawned(Path(folder) / "far.jsonl", host) as far,
        spawned(Path(folder) / "near.jsonl") as near,
        agent(
            [profile_table("far", far), profile_table("near", near)], "near", workers=WORKERS, questions=QUESTIONS
        ) as bench,
    ):
        found = [_switch(bench, far, before_first_token=number % 2 == 0) for number in range(switches)]
    closed = [each for each, _, _ in found]
    result.figures["cloud_closed_ms"] = round(max(closed), 1)
    result.figures["cloud_closed_p50_ms"] = round(percentile(closed, 0.5), 1)
    result.figures["switch_jobs"] = sum(late for _, late, _ in found)
    result.figures["switches"] = len(found)
    result.figures["cancelled_before_first_token"] = sum(cold for _, _, cold in found)
    result.notes.append("cloud_closed_ms is the slowest of all switches, the last connection counting")
    result.hold("switch_jobs", "==", 0)
    result.hold("cloud_closed_ms", "<", 1_000)
    return result


def _switch(bench: Bench, far: Spawned, *, before_first_token: bool) -> tuple[float, int, int]:
    """Make one switch; return ms until the cloud is left, requests that came after it, calls ended before a byte."""
    far.use("silent" if before_first_token else "slow_stream")
    seen = len(far.calls("chat"))
    use_profile(bench.paths, "far")

    def under_way() -> list[Call]:
        open_now = [call for call in far.calls("chat")[seen:] if call.ended is None]
        return open_now if before_first_token else [call for call in open_now if call.first_byte is not None]

    poll(lambda: len(under_way()) >= WORKERS, "calls of the cloud", PATIENCE_S)
    use_profile(bench.paths, "near")
    switched = time.monotonic()
    poll(lambda: all(call.ended is not None for call in far.calls("chat")), "the end of them", PATIENCE_S)
    time.sleep(SETTLE_S)
    mine = far.calls("chat")[seen:]
    assert all(call.how == CLOSED_BY_CLIENT for call in mine), "the server itself ended nothing"
    closed_ms = (max(call.ended or 0.0 for call in mine) - switched) * 1000
    return max(0.0, closed_ms), sum(call.began > switched for call in mine), sum(not call.bytes_sent for call in mine)
