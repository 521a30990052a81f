"""The words of state, shared by the database, the logs, the command line and the tray.

Every enum here is stored or printed by its value, so a value never changes its spelling.
"""

from __future__ import annotations

from enum import StrEnum


class JobKind(StrEnum):
    """What a row of ``mem_tree_jobs`` asks for (six kinds of the seed on the job queue, two of the design)."""

    EXTRACT_CHUNK = "extract_chunk"
    APPEND_BUFFER = "append_buffer"
    SEAL = "seal"
    FLUSH_STALE = "flush_stale"
    REEMBED_BACKFILL = "reembed_backfill"
    SEAL_DOCUMENT = "seal_document"
    SYNC_SOURCE = "sync_source"
    INGEST_FILE = "ingest_file"

    def is_llm_bound(self) -> bool:
        """Return whether a handler of this kind may call a model (the seed's table)."""
        return self in _LLM_BOUND

    @classmethod
    def parse(cls, word: str) -> JobKind:
        """Return the kind with this wire string; ``ValueError`` for an unknown or a retired one."""
        if is_retired_kind(word):
            raise ValueError(f"retired job kind: {word}")
        return cls(word)


_LLM_BOUND = frozenset({JobKind.EXTRACT_CHUNK, JobKind.SEAL, JobKind.REEMBED_BACKFILL, JobKind.SEAL_DOCUMENT})

RETIRED_JOB_KINDS = ("topic_route", "digest_daily")


def is_retired_kind(word: str) -> bool:
    """Return whether a raw kind is one of the retired ones, without parsing it."""
    return word in RETIRED_JOB_KINDS


class JobStatus(StrEnum):
    """Where a job is in its life."""

    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    def is_terminal(self) -> bool:
        """Return whether a row in this status never moves by itself again."""
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


class FailureClass(StrEnum):
    """Whether trying again can help."""

    TRANSIENT = "transient"
    UNRECOVERABLE = "unrecoverable"


class Lifecycle(StrEnum):
    """The state machine of a leaf (lane 6 of the pipeline)."""

    PENDING_EXTRACTION = "pending_extraction"
    ADMITTED = "admitted"
    BUFFERED = "buffered"
    SEALED = "sealed"
    DROPPED = "dropped"


class ItemState(StrEnum):
    """Where an item of a source is on its way into the memory."""

    FOUND = "found"  # seen by a sync with content the memory does not hold yet
    QUEUED = "queued"  # its ingest_file job was enqueued
    CURRENT = "current"  # the memory holds what was seen last
    UNREADABLE = "unreadable"  # could not be read; the reason is kept, a change tries again
    GONE = "gone"  # no longer there; its ingest_file job takes it out of the memory


class Answer(StrEnum):
    """What an owner says to a question about what is no longer there."""

    ACCEPT = "accept"  # it is meant to be gone: its memory goes too
    REFUSE = "refuse"  # keep what is held of it


class NodeKind(StrEnum):
    """What a node of a tree is."""

    LEAF = "leaf"
    SUMMARY = "summary"


class TreeKind(StrEnum):
    """What the leaves of a tree have in common (``topic`` and ``day`` have no producer yet)."""

    DOCUMENT = "document"
    SOURCE = "source"
    TOPIC = "topic"
    DAY = "day"


class SourceKind(StrEnum):
    """How the content of a source is shaped; part of a chunk's identity."""

    DOCUMENT = "document"
    EMAIL = "email"
    CHAT = "chat"


class Searched(StrEnum):
    """How much of the memory a search could look at."""

    FULL = "full"
    PARTIAL = "partial"
    NOT_YET = "not_yet"


class WorkerState(StrEnum):
    """A slot of the pool as the supervisor sees it."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    FAILED = "failed"


class CompanionState(StrEnum):
    """A process beside the workers, the tray or the page, as the supervisor sees it."""

    OFF = "off"  # nobody wants it, or it ended by itself
    STARTING = "starting"  # coming up, or about to be started again
    UP = "up"
    IMPOSSIBLE = "impossible"  # it cannot serve here for now, which is no fault of it; tried again later
    FAILED = "failed"  # it ends again and again; tried slowly


class AgentState(StrEnum):
    """What the agent is doing, as ``status`` and the tray say it."""

    STOPPED = "stopped"
    STARTING = "starting"
    IDLE = "idle"
    GROWING = "growing"
    PAUSED = "paused"
    ATTENTION = "attention"
    ERROR = "error"


class Hold(StrEnum):
    """Why nothing that may call a model is claimed for now (``mem_tree_holds.code``), or a job was put off."""

    UNREACHABLE = "unreachable"
    RATE_LIMITED = "rate_limited"
    AUTH_FAILED = "auth_failed"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MODEL_MISSING = "model_missing"
    LOW_MEMORY = "low_memory"
    KEYS_NOT_YET = "keys_not_yet"
    DAILY_LIMIT = "daily_limit"
    NO_CONSENT = "no_consent"
    CONFIG_BROKEN = "config_broken"


class KeyState(StrEnum):
    """What came of looking for a key, or of writing one."""

    VALUE = "value"
    MISSING = "missing"
    LOCKED = "locked"  # the keyring wants its owner
    UNAVAILABLE = "unavailable"  # there is no keyring that can be used, or it failed
    TIMED_OUT = "timed_out"  # a prompt that nobody answered, most likely
    NOT_YET = "not_yet"  # the login is too young: the keyring may open any moment


class PowerMode(StrEnum):
    """How much of the machine the agent takes, as its own state and its owner's allow."""

    AGGRESSIVE = "aggressive"  # mains power, and nobody else needs the machine: the pool grows without waiting
    NORMAL = "normal"
    THROTTLED = "throttled"  # one worker at a time, which rests between jobs that load the machine
    PAUSED = "paused"  # nothing that loads the machine; what makes new text findable goes on, in one worker


class PowerCause(StrEnum):
    """Why a mode is less than normal."""

    OWNER = "owner"
    BATTERY = "battery"
    BATTERY_LOW = "battery_low"
    MEMORY = "memory"
    CPU = "cpu"
