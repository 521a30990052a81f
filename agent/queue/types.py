"""The nouns of the queue: payloads with their dedupe keys, the row, what a handler gives back.

Names and keys are the contract of the seed on the job queue; ``sync:`` and ``ingest:`` are the design's. Payloads are
frozen dataclasses, stored as JSON and validated when they are read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import msgspec

from agent.errors import JobFailure, SapwoodError
from agent.states import FailureClass, JobKind, JobStatus, NodeKind

if TYPE_CHECKING:
    from agent.db import Connection

DEFAULT_MAX_ATTEMPTS = 5
REEMBED_MAX_ATTEMPTS = 3
DEFAULT_LOCK_DURATION_MS = 5 * 60 * 1000
AT_ONCE_MS = 1
"""When a row is due that goes before every other of its rank: what somebody waits for."""
REEMBED_BACKFILL_REVISIT_MS = 750
STALE_PAUSE_MS = 20  # a plan that is stale each time must not spin (11,000 runs a second, measured)
RETRY_BASE_MS = 60_000
RETRY_CAP_MS = 3_600_000
HOURS_PER_BLOCK = 3


def backoff_ms(attempts: int) -> int:
    """Return the wait after that many failed attempts: 60 s, doubling, one hour at most."""
    return min(RETRY_BASE_MS << min(max(attempts - 1, 0), 16), RETRY_CAP_MS)


class Payload(Protocol):
    """What a kind's rows carry."""

    def dedupe_key(self) -> str:
        """Return the key of which at most one row is ready or running."""
        ...


PayloadT = TypeVar("PayloadT")


@dataclass(frozen=True)
class NodeRef:
    """A node of a tree, by kind and id."""

    kind: NodeKind
    id: str

    @classmethod
    def leaf(cls, chunk_id: str) -> NodeRef:
        """Return a reference to a chunk."""
        return cls(NodeKind.LEAF, chunk_id)

    @classmethod
    def summary(cls, summary_id: str) -> NodeRef:
        """Return a reference to a summary."""
        return cls(NodeKind.SUMMARY, summary_id)

    def dedupe_fragment(self) -> str:
        """Return ``leaf:{chunk_id}`` or ``summary:{summary_id}``."""
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True)
class ExtractChunkPayload:
    """Score one chunk and decide whether it is admitted."""

    chunk_id: str

    def dedupe_key(self) -> str:
        return f"extract:{self.chunk_id}"


@dataclass(frozen=True)
class AppendBufferPayload:
    """Push a node into the L0 buffer of a source's or a topic's tree; ``scope`` is a source id or a tree id."""

    target: Literal["source", "topic"]
    scope: str
    node: NodeRef

    def dedupe_key(self) -> str:
        return f"append:{self.target}:{self.scope}:{self.node.dedupe_fragment()}"


@dataclass(frozen=True)
class SealPayload:
    """Bring one level of one tree closer to its shape."""

    tree_id: str
    level: int

    def dedupe_key(self) -> str:
        return f"seal:{self.tree_id}:{self.level}"


@dataclass(frozen=True)
class FlushStalePayload:
    """Close tails that have waited too long; one row per block of three UTC hours."""

    date_iso: str
    hour_block: int

    @classmethod
    def at(cls, now_ms: int) -> FlushStalePayload:
        """Return the block of an instant; date and block come from one reading of the clock."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        return cls(moment.date().isoformat(), moment.hour // HOURS_PER_BLOCK)

    def dedupe_key(self) -> str:
        return f"flush_stale:{self.date_iso}-h{self.hour_block}"


@dataclass(frozen=True)
class ReembedBackfillPayload:
    """Embed what lacks a vector at a signature, batch by batch."""

    signature: str

    def dedupe_key(self) -> str:
        return f"reembed_backfill:{self.signature}"


@dataclass(frozen=True)
class SealDocumentPayload:
    """Build the tree of one document's version; ``doc_id`` is ``source_id/item_key``."""

    doc_id: str
    version_ms: int | None = None

    def dedupe_key(self) -> str:
        if self.version_ms is None:
            return f"seal_doc:{self.doc_id}"
        return f"seal_doc:{self.doc_id}@{self.version_ms}"

    @property
    def source_id(self) -> str:
        """The source of the document."""
        return self.doc_id.partition("/")[0]

    @property
    def item_key(self) -> str:
        """The item of the document in its source."""
        return self.doc_id.partition("/")[2]


@dataclass(frozen=True)
class SyncSourcePayload:
    """Look at one source and find what changed."""

    source_id: str

    def dedupe_key(self) -> str:
        return f"sync:{self.source_id}"


@dataclass(frozen=True)
class IngestFilePayload:
    """Read, convert and store one item."""

    source_id: str
    item_key: str

    def dedupe_key(self) -> str:
        return f"ingest:{self.source_id}:{self.item_key}"


@dataclass(frozen=True, slots=True)
class NewJob:
    """What a producer asks for: a row without what the store mints. ``None`` means the kind's default."""

    kind: str
    payload_json: str
    dedupe_key: str | None = None
    max_attempts: int | None = None
    available_at_ms: int | None = None
    input_hash: str | None = None

    @classmethod
    def of(
        cls, kind: str, payload: Payload, *, available_at_ms: int | None = None, input_hash: str | None = None
    ) -> NewJob:
        """Return a job of a kind with its payload's dedupe key."""
        attempts = REEMBED_MAX_ATTEMPTS if kind == JobKind.REEMBED_BACKFILL else None
        return cls(kind, encode_payload(payload), payload.dedupe_key(), attempts, available_at_ms, input_hash)

    @classmethod
    def extract_chunk(cls, chunk_id: str) -> NewJob:
        return cls.of(JobKind.EXTRACT_CHUNK, ExtractChunkPayload(chunk_id))

    @classmethod
    def append_buffer(cls, target: Literal["source", "topic"], scope: str, node: NodeRef) -> NewJob:
        return cls.of(JobKind.APPEND_BUFFER, AppendBufferPayload(target, scope, node))

    @classmethod
    def seal(cls, tree_id: str, level: int) -> NewJob:
        return cls.of(JobKind.SEAL, SealPayload(tree_id, level))

    @classmethod
    def flush_stale(cls, now_ms: int) -> NewJob:
        return cls.of(JobKind.FLUSH_STALE, FlushStalePayload.at(now_ms))

    @classmethod
    def reembed_backfill(cls, signature: str) -> NewJob:
        return cls.of(JobKind.REEMBED_BACKFILL, ReembedBackfillPayload(signature))

    @classmethod
    def seal_document(cls, doc_id: str, version_ms: int | None) -> NewJob:
        return cls.of(JobKind.SEAL_DOCUMENT, SealDocumentPayload(doc_id, version_ms))

    @classmethod
    def sync_source(cls, source_id: str) -> NewJob:
        return cls.of(JobKind.SYNC_SOURCE, SyncSourcePayload(source_id))

    @classmethod
    def ingest_file(cls, source_id: str, item_key: str, input_hash: str | None = None) -> NewJob:
        return cls.of(JobKind.INGEST_FILE, IngestFilePayload(source_id, item_key), input_hash=input_hash)


def encode_payload(payload: object) -> str:
    """Return a payload as JSON."""
    return msgspec.json.encode(payload).decode()


@dataclass(frozen=True)
class Job:
    """One claimed row of ``mem_tree_jobs``. Times are UTC milliseconds."""

    id: int
    kind: str
    payload_json: str
    dedupe_key: str | None
    status: JobStatus
    attempts: int
    max_attempts: int
    crashes: int
    available_at_ms: int
    locked_until_ms: int | None
    locked_by: str | None
    lease_token: str | None
    last_error: str | None = None
    failure_reason: str | None = None
    failure_class: FailureClass | None = None
    input_hash: str | None = None
    created_at_ms: int = 0
    progress_at_ms: int | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None

    def payload(self, kind: type[PayloadT]) -> PayloadT:
        """Return the payload as the given dataclass.

        Raises ``JobFailure`` (unrecoverable, ``unreadable_payload``) where it does not fit: no retry can mend that.
        """
        try:
            return msgspec.json.decode(self.payload_json, type=kind)
        except msgspec.MsgspecError as error:
            raise JobFailure.unrecoverable(
                "unreadable_payload", f"the payload of this {self.kind} cannot be read"
            ) from error


@dataclass(frozen=True, slots=True)
class Done:
    """The handler ran to completion."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The handler cannot make progress now: look again at ``until_ms`` (UTC ms). Burns no attempt.

    ``code`` (a word of ``states.Hold``) and ``scope`` (a model profile) say what would mend it, where that is known.
    """

    until_ms: int
    reason: str
    code: str | None = None
    scope: str | None = None


JobOutcome = Done | Defer
DONE = Done()


class StalePlan(SapwoodError):
    """Raised by a plan's writes when what it was made from has changed: nothing is applied, the job is ready again."""

    def __init__(self, what: str) -> None:
        super().__init__("the plan's input changed meanwhile", what)


Writes = Callable[["Connection"], "Iterable[NewJob] | None"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a handler gives back; ``settle`` applies all of it in one transaction, or none of it.

    ``writes`` runs inside that transaction after the lease was checked and may return further follow-ups that depend
    on what it saw. ``full`` waits for the disk.
    """

    writes: Writes | None = None
    follow_ups: Sequence[NewJob] = field(default=())
    outcome: JobOutcome = DONE
    full: bool = False


NOTHING_TO_DO = Plan()
