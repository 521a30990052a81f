"""Appending one leaf: how long a handler and its settling take, and how many rows they step over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import apsw

from agent.db import Connection
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.registry import Registry
from agent.queue.run import run_once
from agent.queue.types import NewJob, NodeRef
from agent.states import JobKind, Lifecycle
from agent.tree.append import append_node
from tests.bench.harness import Result, percentile
from tests.bench.tree_ground import Ground, new_ground, put_mails

BATCH = 5_000


@dataclass
class RowCount:
    """Rows that a connection stepped: those handed out, those changed, those a scan without an index passed over.

    SQLite counts no rows that an index walk skips, so its virtual machine's steps are kept beside them: were rows
    hidden there, these would grow with the tree.
    """

    connection: Connection
    rows: int = 0
    vm_steps: int = 0
    _before: int = 0
    _mask: int = field(default=apsw.SQLITE_TRACE_ROW | apsw.SQLITE_TRACE_PROFILE)

    def start(self) -> None:
        self.rows = self.vm_steps = 0
        self._before = self.connection.raw.total_changes()
        self.connection.raw.trace_v2(self._mask, self._seen)

    def stop(self) -> None:
        self.connection.raw.trace_v2(0, None)
        self.rows += self.connection.raw.total_changes() - self._before

    def _seen(self, event: dict[str, Any]) -> None:
        if event["code"] == apsw.SQLITE_TRACE_ROW:
            self.rows += 1
            return
        status = event["stmt_status"]
        self.rows += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
        self.vm_steps += status["SQLITE_STMTSTATUS_VM_STEP"]


def grow_stream(ground: Ground, leaves: int) -> None:
    """Grow a finished stream tree, every second place left free."""
    for start in range(0, leaves, BATCH):
        chunks = put_mails(
            ground.connection,
            "post",
            range(start * 2, min(start + BATCH, leaves) * 2, 2),
            Lifecycle.ADMITTED,
        )
        with ground.connection.write():
            # What the handler does, without a row of the queue for each.
            for chunk in chunks:
                append_node(ground.connection, "post", NodeRef.leaf(chunk), ground.context.clock.now_ms(), 0)
        ground.finish()


def measure_append(result: Result, leaves: int, name: str, samples: int) -> None:
    """Measure appends at the end and in between, half each, on a finished tree of so many leaves."""
    with new_ground() as ground:
        grow_stream(ground, leaves)
        between = range(1, leaves * 2, max(2, (leaves * 4 // samples) // 2 * 2))[: samples // 2]
        at_end = range(leaves * 2, leaves * 2 + samples - len(between))
        alone = Registry.of([ground.registry[JobKind.APPEND_BUFFER]])
        times: list[float] = []
        cpu_times: list[float] = []
        rows: list[int] = []
        steps: list[int] = []
        counted = False
        count = RowCount(ground.connection)
        for place in [*at_end, *between]:
            (chunk,) = put_mails(ground.connection, "post", [place], Lifecycle.ADMITTED)
            with ground.connection.write():
                job = NewJob.append_buffer("source", "post", NodeRef.leaf(chunk))
                enqueue_many_tx(ground.connection, [job], ground.context.clock.now_ms())
            # Counting costs time, so one append is timed and the next one is counted.
            counted = not counted
            if counted:
                count.start()
            begin, cpu_begin = time.perf_counter(), time.thread_time()
            run_once(ground.connection, alone, ground.context)
            if counted:
                count.stop()
                rows.append(count.rows)
                steps.append(count.vm_steps)
            else:
                times.append((time.perf_counter() - begin) * 1000)
                cpu_times.append((time.thread_time() - cpu_begin) * 1000)
        result.figures[f"append_p95_ms_{name}"] = round(percentile(times, 0.95), 3)
        result.figures[f"append_cpu_p95_ms_{name}"] = round(percentile(cpu_times, 0.95), 3)
        result.figures[f"append_rows_{name}"] = max(rows)
        result.figures[f"append_vm_steps_{name}"] = max(steps)
        result.hold(f"append_p95_ms_{name}", "<=", 5)
        result.hold(f"append_rows_{name}", "<=", 200)
