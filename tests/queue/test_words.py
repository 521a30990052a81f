"""The nouns and constants of the seed on the job queue, each by its name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent.errors import JobFailure
from agent.queue.types import (
    DEFAULT_LOCK_DURATION_MS,
    DEFAULT_MAX_ATTEMPTS,
    REEMBED_BACKFILL_REVISIT_MS,
    RETRY_BASE_MS,
    RETRY_CAP_MS,
    FlushStalePayload,
    NewJob,
    NodeRef,
    backoff_ms,
)
from agent.states import RETIRED_JOB_KINDS, FailureClass, JobKind, JobStatus, is_retired_kind


def test_kinds_and_their_wire_strings() -> None:
    assert {kind.name: kind.value for kind in JobKind} == {
        "EXTRACT_CHUNK": "extract_chunk",
        "APPEND_BUFFER": "append_buffer",
        "SEAL": "seal",
        "FLUSH_STALE": "flush_stale",
        "REEMBED_BACKFILL": "reembed_backfill",
        "SEAL_DOCUMENT": "seal_document",
        "SYNC_SOURCE": "sync_source",
        "INGEST_FILE": "ingest_file",
    }
    assert [JobKind.parse(kind.value) for kind in JobKind] == list(JobKind)


def test_llm_bound_kinds_are_the_seeds_four() -> None:
    assert {kind for kind in JobKind if kind.is_llm_bound()} == {
        JobKind.EXTRACT_CHUNK,
        JobKind.SEAL,
        JobKind.REEMBED_BACKFILL,
        JobKind.SEAL_DOCUMENT,
    }


def test_retired_kinds_are_recognised_and_never_parsed() -> None:
    assert RETIRED_JOB_KINDS == ("topic_route", "digest_daily")
    for word in RETIRED_JOB_KINDS:
        assert is_retired_kind(word)
        with pytest.raises(ValueError, match="retired"):
            JobKind.parse(word)
    assert not is_retired_kind("seal")
    with pytest.raises(ValueError):
        JobKind.parse("never_heard_of")


def test_statuses_and_which_are_terminal() -> None:
    assert [status.value for status in JobStatus] == ["ready", "running", "done", "failed", "cancelled"]
    assert {status for status in JobStatus if status.is_terminal()} == {
        JobStatus.DONE,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
    }


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (NewJob.extract_chunk("c1"), "extract:c1"),
        (NewJob.append_buffer("source", "notes", NodeRef.leaf("c1")), "append:source:notes:leaf:c1"),
        (NewJob.append_buffer("source", "notes", NodeRef.summary("s1")), "append:source:notes:summary:s1"),
        (NewJob.append_buffer("topic", "t1", NodeRef.leaf("c1")), "append:topic:t1:leaf:c1"),
        (NewJob.seal("t1", 2), "seal:t1:2"),
        (NewJob.flush_stale(0), "flush_stale:1970-01-01-h0"),
        (NewJob.reembed_backfill("builtin:static@256"), "reembed_backfill:builtin:static@256"),
        (NewJob.seal_document("notes/a.md", 17), "seal_doc:notes/a.md@17"),
        (NewJob.seal_document("notes/a.md", None), "seal_doc:notes/a.md"),
        (NewJob.sync_source("notes"), "sync:notes"),
        (NewJob.ingest_file("notes", "a.md"), "ingest:notes:a.md"),
    ],
)
def test_dedupe_key_table(job: NewJob, key: str) -> None:
    assert job.dedupe_key == key


def test_default_attempts_are_five_and_three_for_reembed_backfill() -> None:
    assert DEFAULT_MAX_ATTEMPTS == 5
    assert NewJob.reembed_backfill("s").max_attempts == 3
    assert NewJob.extract_chunk("c").max_attempts is None


def test_backoff_series_doubles_from_a_minute_to_an_hour() -> None:
    assert (RETRY_BASE_MS, RETRY_CAP_MS) == (60_000, 3_600_000)
    assert [backoff_ms(n) // 1000 for n in range(1, 10)] == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert backoff_ms(10_000) == 3_600_000


def test_lease_is_five_minutes_and_reembed_revisits_after_750_ms() -> None:
    assert DEFAULT_LOCK_DURATION_MS == 300_000
    assert REEMBED_BACKFILL_REVISIT_MS == 750


@pytest.mark.parametrize(("hour", "block"), [(0, 0), (2, 0), (3, 1), (11, 3), (12, 4), (23, 7)])
def test_flush_blocks_are_three_utc_hours(hour: int, block: int) -> None:
    at = int(datetime(2026, 3, 4, hour, 59, 59, tzinfo=UTC).timestamp() * 1000) + 999
    assert FlushStalePayload.at(at) == FlushStalePayload("2026-03-04", block)


def test_typed_failures() -> None:
    assert JobFailure.transient("x").failure_class is FailureClass.TRANSIENT
    assert not JobFailure.transient("x").is_unrecoverable()
    assert JobFailure.unrecoverable("x").is_unrecoverable()
    exhausted = JobFailure.budget_exhausted()
    assert (exhausted.code, exhausted.failure_class) == ("budget_exhausted", FailureClass.UNRECOVERABLE)
    assert isinstance(exhausted, Exception)
    assert [each.value for each in FailureClass] == ["transient", "unrecoverable"]
