"""The eight kinds of job by dotted name: what every process of the agent is given."""

from __future__ import annotations

KIND_NAMES = (
    "agent.worker.handlers.extract_chunk:SPEC",
    "agent.worker.handlers.append_buffer:SPEC",
    "agent.worker.handlers.seal:SPEC",
    "agent.worker.handlers.flush_stale:SPEC",
    "agent.worker.handlers.reembed_backfill:SPEC",
    "agent.worker.handlers.seal_document:SPEC",
    "agent.worker.handlers.sync_source:SPEC",
    "agent.worker.handlers.ingest_file:SPEC",
)
