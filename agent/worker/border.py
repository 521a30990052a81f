"""The border between a handler and the queue: foreign exceptions become typed failures there."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import msgspec

from agent.db import faults
from agent.errors import JobFailure, SapwoodError
from agent.queue.types import StalePlan

_log = logging.getLogger("sapwood.worker")


def at_the_border(error: Exception, kind: str) -> Exception:
    """Return a handler's error as the queue settles it: a foreign one becomes a ``JobFailure`` that it caused.

    Faults of the database stay what they are: they are not the job's.
    """
    if isinstance(error, JobFailure | StalePlan) or faults.is_database_fault(error):
        return error
    if isinstance(error, msgspec.ValidationError):
        failure = JobFailure.unrecoverable("unreadable_payload", f"the payload of this {kind} cannot be read")
    elif isinstance(error, MemoryError):
        failure = JobFailure.transient("out_of_memory", f"{kind} ran out of memory")
    elif isinstance(error, SapwoodError):
        failure = JobFailure.transient("fault", error.title, error.detail, error.hint)
    else:
        _log.error("unexpected error: %s", where(error))
        failure = JobFailure.transient("unexpected", f"unexpected error in {kind}")
    failure.__cause__ = error
    return failure


def where(error: BaseException) -> str:
    """Return an exception's type and places for the log, none of its words: they may quote what the owner wrote."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}" if places else type(error).__name__
