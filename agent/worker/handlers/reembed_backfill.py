"""``reembed_backfill``: vectors for what has none at the active signature, batch by batch until all is covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.queue.registry import JobSpec
from agent.queue.types import (
    NOTHING_TO_DO,
    REEMBED_BACKFILL_REVISIT_MS,
    REEMBED_MAX_ATTEMPTS,
    Defer,
    Job,
    Plan,
    ReembedBackfillPayload,
)
from agent.states import JobKind
from agent.worker.profile import active_profile
from agent.worker.reembed_sweep import Unembedded, nodes_without_vector, sweep_reembed

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.models.protocol import Embedder
    from agent.queue.registry import JobContext

NODES_A_RUN = 512
NODES_A_CALL = 64
SECONDS_A_RUN = 2.0
MOST_HEAD = 200  # characters: a subject of a thousand would be all that its windows say


@dataclass(frozen=True)
class _Embedded:
    """A node (chunk seq, or minus summary seq), the text its vectors are of, and its windows: n × dim signed bytes.

    Nothing to sum gives no bytes: the node counts as covered and has no vector.
    """

    node: int
    text: str
    windows: bytes


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that stores the vectors of the next nodes: at most 512, or what two seconds allow.

    Defers by 750 ms where rows were written and more remain (the seed: no new row, so that its dedupe key stays);
    otherwise it is done. A chain at a signature that is no longer the active one ends.
    """
    embedder = active_profile(context).embedder
    signature = job.payload(ReembedBackfillPayload).signature
    if signature != embedder.signature:
        return NOTHING_TO_DO
    waiting = nodes_without_vector(context.connection, signature, NODES_A_RUN + 1)
    embedded = _embed(context, embedder, waiting[:NODES_A_RUN])
    if not embedded:
        return NOTHING_TO_DO

    def writes(connection: Connection) -> None:
        _store(connection, signature, embedded)

    if len(embedded) == len(waiting):
        return Plan(writes)
    return Plan(writes, outcome=Defer(context.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS, "more nodes to embed"))


def _embed(context: JobContext, embedder: Embedder, nodes: list[Unembedded]) -> list[_Embedded]:
    until = context.clock.monotonic() + SECONDS_A_RUN
    embedded: list[_Embedded] = []
    for first in range(0, len(nodes), NODES_A_CALL):
        if embedded and context.clock.monotonic() > until:
            break
        context.check()
        some = nodes[first : first + NODES_A_CALL]
        windows = [_windows(embedder, each) for each in some]
        vectors = embedder.embed([window for each in windows for window in each])
        says_something: Any = vectors.any(axis=1)
        at = 0
        for waiting, each in zip(some, windows, strict=True):
            until_row = at + len(each)
            rows = vectors[at:until_row][says_something[at:until_row]]
            embedded.append(_Embedded(waiting.node, waiting.text, rows.tobytes()))
            at = until_row
    return embedded


def _windows(embedder: Embedder, waiting: Unembedded) -> list[str]:
    """Return a node's windows, each under its title and headings: a paragraph alone rarely says what it is about.

    Of 247 one-line descriptions of modules 209 found their page among the first five by meaning alone without them, 224
    with them.
    """
    head = ". ".join(part for part in (waiting.title, waiting.heading_path) if part)[:MOST_HEAD]
    return [f"{head}. {window}" if head else window for window in embedder.windows(waiting.text)]


def _store(connection: Connection, signature: str, embedded: list[_Embedded]) -> None:
    """Write vectors inside the settle transaction, only for nodes that still exist with the same text."""
    connection.run("INSERT INTO mem_tree_signatures (signature) VALUES (?) ON CONFLICT DO NOTHING", (signature,))
    signature_id = connection.value("SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (signature,))
    chunks = [each for each in embedded if each.node > 0]
    summaries = [each for each in embedded if each.node < 0]
    connection.many(
        """
        UPDATE mem_tree_chunks SET embedded_signature = ?1
         WHERE seq = ?2 AND text = ?3 AND lifecycle <> 'dropped'
        """,
        [(signature_id, each.node, each.text) for each in chunks],
    )
    connection.many(
        "UPDATE mem_tree_summaries SET embedded_signature = ?1 WHERE seq = ?2 AND text = ?3",
        [(signature_id, -each.node, each.text) for each in summaries],
    )
    connection.many(
        """
        INSERT INTO mem_tree_vectors (signature_id, node, windows)
        SELECT ?1, ?2, ?3
         WHERE EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = ?2 AND embedded_signature = ?1 AND text = ?4)
            ON CONFLICT (signature_id, node) DO UPDATE SET windows = excluded.windows
        """,
        [(signature_id, each.node, each.windows, each.text) for each in chunks if each.windows],
    )
    connection.many(
        """
        INSERT INTO mem_tree_vectors (signature_id, node, windows)
        SELECT ?1, ?2, ?3
         WHERE EXISTS (SELECT 1 FROM mem_tree_summaries WHERE seq = -?2 AND embedded_signature = ?1 AND text = ?4)
            ON CONFLICT (signature_id, node) DO UPDATE SET windows = excluded.windows
        """,
        [(signature_id, each.node, each.windows, each.text) for each in summaries if each.windows],
    )


SPEC = JobSpec(
    kind=JobKind.REEMBED_BACKFILL,
    handle=handle,
    llm_bound=True,
    max_attempts=REEMBED_MAX_ATTEMPTS,
    time_limit_s=120.0,
    sweep=sweep_reembed,
)
