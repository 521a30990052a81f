"""Which nodes lack a vector at the active signature: for the back-fill itself and for the sweep that finds it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import SapwoodError
from agent.queue.types import NewJob

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import SweepContext

# Three seeks into the index on embedded_signature each: none, an older signature, a newer one. −1 needs no vector.
_CHUNKS = (
    """
    SELECT seq, text, title, heading_path FROM mem_tree_chunks
     WHERE embedded_signature IS NULL AND lifecycle <> 'dropped'
     LIMIT ?2
    """,
    """
    SELECT seq, text, title, heading_path FROM mem_tree_chunks
     WHERE embedded_signature > -1 AND embedded_signature < ?1 AND lifecycle <> 'dropped'
     LIMIT ?2
    """,
    """
    SELECT seq, text, title, heading_path FROM mem_tree_chunks
     WHERE embedded_signature > ?1 AND lifecycle <> 'dropped'
     LIMIT ?2
    """,
)
_SUMMARIES = (
    "SELECT -seq, text, title, NULL FROM mem_tree_summaries WHERE embedded_signature IS NULL LIMIT ?2",
    """
    SELECT -seq, text, title, NULL FROM mem_tree_summaries
     WHERE embedded_signature > -1 AND embedded_signature < ?1
     LIMIT ?2
    """,
    "SELECT -seq, text, title, NULL FROM mem_tree_summaries WHERE embedded_signature > ?1 LIMIT ?2",
)


@dataclass(frozen=True)
class Unembedded:
    """A node (chunk seq, or minus summary seq) that lacks a vector, with what its vectors are made of."""

    node: int
    text: str
    title: str | None
    heading_path: str | None


def nodes_without_vector(connection: Connection, signature: str, limit: int) -> list[Unembedded]:
    """Return up to ``limit`` nodes that lack a vector at a signature. Reads only those."""
    stored = connection.value("SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (signature,))
    # A signature that was never stored is nobody's: every vector there is belongs to another one.
    signature_id = -1 if stored is None else stored
    found: list[Unembedded] = []
    for statement in (*_CHUNKS, *_SUMMARIES):
        if len(found) < limit:
            found += [Unembedded(*row) for row in connection.all(statement, (signature_id, limit - len(found)))]
    return found


def sweep_reembed(context: SweepContext) -> Iterator[NewJob]:
    """Yield the back-fill of the active signature if a node lacks a vector at it."""
    from agent.models.profiles import open_profile

    try:
        signature = open_profile(context.intent, {}).embedder.signature
    except SapwoodError:
        return  # no model, no vectors; the owner reads why at each job that needs one
    if nodes_without_vector(context.connection, signature, 1):
        yield NewJob.reembed_backfill(signature)
