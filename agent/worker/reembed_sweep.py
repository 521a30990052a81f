"""Which nodes lack a vector at the wanted signature: for the back-fill itself and for the sweep that finds it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.serving import has_spare_vectors, serving_signature, signature_number
from agent.db.state import get_state, set_state
from agent.errors import SapwoodError
from agent.queue.types import NewJob
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.protocol import Profile
    from agent.queue.registry import SweepContext

OPEN_SOURCES_KEY = "embedding_sources"
"""The sources that could be sent to the embedding model (JSON) when nodes were last marked as private: as long as no
other can, none of the marked nodes need be looked at. Without it no node is marked."""

# Three seeks into the index on embedded_signature each: none, an older signature, a newer one. Marks below zero need no
# vector, but for private nodes once their words may go where the model is.
_NEW_CHUNKS = """
SELECT seq, text, title, heading_path, source_id, embedded_signature FROM mem_tree_chunks
 WHERE embedded_signature IS NULL AND lifecycle <> 'dropped'
 LIMIT ?2
"""
_CHUNKS = (
    """
    SELECT seq, text, title, heading_path, source_id, embedded_signature FROM mem_tree_chunks
     WHERE embedded_signature > 0 AND embedded_signature < ?1 AND lifecycle <> 'dropped'
     LIMIT ?2
    """,
    """
    SELECT seq, text, title, heading_path, source_id, embedded_signature FROM mem_tree_chunks
     WHERE embedded_signature > max(?1, 0) AND lifecycle <> 'dropped'
     LIMIT ?2
    """,
)
_NEW_SUMMARIES = """
SELECT -seq, text, title, NULL, source_id, embedded_signature FROM mem_tree_summaries
 WHERE embedded_signature IS NULL
 LIMIT ?2
"""
_SUMMARIES = (
    """
    SELECT -seq, text, title, NULL, source_id, embedded_signature FROM mem_tree_summaries
     WHERE embedded_signature > 0 AND embedded_signature < ?1
     LIMIT ?2
    """,
    """
    SELECT -seq, text, title, NULL, source_id, embedded_signature FROM mem_tree_summaries
     WHERE embedded_signature > max(?1, 0)
     LIMIT ?2
    """,
)
_PRIVATE = (
    """
    SELECT seq, text, title, heading_path, source_id, embedded_signature FROM mem_tree_chunks
     WHERE embedded_signature = -2 AND lifecycle <> 'dropped'
       AND (?1 IS NULL OR source_id IN (SELECT value FROM json_each(?1)))
     LIMIT ?2
    """,
    """
    SELECT -seq, text, title, NULL, source_id, embedded_signature FROM mem_tree_summaries
     WHERE embedded_signature = -2
       AND (?1 IS NULL OR source_id IN (SELECT value FROM json_each(?1)))
     LIMIT ?2
    """,
)


@dataclass(frozen=True)
class Unembedded:
    """A node (chunk seq, or minus summary seq) that lacks a vector, with what its vectors are made of.

    ``held`` is its ``embedded_signature``.
    """

    node: int
    text: str
    title: str | None
    heading_path: str | None
    source_id: str = ""
    held: int | None = None


@dataclass(frozen=True)
class Wanted:
    """What is to be embedded: the signature, and for a cloud's model the sources that may be sent there.

    ``sources`` is ``None`` where nothing leaves the owner's machines: every source may be embedded then.
    """

    signature: str
    sources: frozenset[str] | None = None

    def may_embed(self, source_id: str) -> bool:
        """Return whether words of a source may go to the model; those of a source that nobody named may not."""
        return self.sources is None or source_id in self.sources


def wanted_of(intent: Intent, profile: Profile) -> Wanted:
    """Return what the active profile's embedder wants."""
    signature = profile.embedder.signature
    if not profile.is_cloud or str(JobKind.REEMBED_BACKFILL) in profile.unbound:
        return Wanted(signature)
    return Wanted(signature, frozenset(source.id for source in intent.sources if not source.private))


def nodes_without_vector(
    connection: Connection, signature: str, limit: int, sources: frozenset[str] | None = None, *, held: bool = False
) -> list[Unembedded]:
    """Return up to ``limit`` nodes that lack a vector at a signature. Reads only those.

    ``sources`` as in ``Wanted``. ``held``: only nodes that were embedded, at another signature: what a search would
    lose if this one served it now.
    """
    # A signature that was never stored is nobody's: every vector there is belongs to another one.
    number = signature_number(connection, signature)
    found: list[Unembedded] = []
    statements = (*_CHUNKS, *_SUMMARIES) if held else (_NEW_CHUNKS, *_CHUNKS, _NEW_SUMMARIES, *_SUMMARIES)
    for statement in statements:
        if len(found) < limit:
            rows = connection.all(statement, (-1 if number is None else number, limit - len(found)))
            found += [Unembedded(*row) for row in rows]
    opened = _opened_since(connection, sources)
    if opened is None or opened:
        only = None if opened is None else json.dumps(sorted(opened))
        for statement in _PRIVATE:
            if len(found) < limit:
                found += [Unembedded(*row) for row in connection.all(statement, (only, limit - len(found)))]
    return found


def mark_private_tx(connection: Connection, wanted: Wanted, nodes: Sequence[int]) -> None:
    """Mark nodes that may not go to the model as covered without a vector, inside the caller's transaction."""
    if wanted.sources is not None:
        # Marks are made under these sources: one that is opened later is looked through again.
        stored = get_state(connection, OPEN_SOURCES_KEY)
        known = wanted.sources if stored is None else frozenset(json.loads(stored))
        _set_open(connection, wanted.sources & known)
    connection.many(
        "UPDATE mem_tree_chunks SET embedded_signature = -2 WHERE seq = ? AND lifecycle <> 'dropped'",
        [(node,) for node in nodes if node > 0],
    )
    connection.many(
        "UPDATE mem_tree_summaries SET embedded_signature = -2 WHERE seq = ?", [(-node,) for node in nodes if node < 0]
    )


def note_marked_tx(connection: Connection, wanted: Wanted) -> None:
    """Remember that no marked node is left that may be embedded now, inside the caller's transaction."""
    _set_open(connection, wanted.sources)


def _set_open(connection: Connection, sources: frozenset[str] | None) -> None:
    value = None if sources is None else json.dumps(sorted(sources))
    if get_state(connection, OPEN_SOURCES_KEY) != value:
        set_state(connection, OPEN_SOURCES_KEY, value)


def _opened_since(connection: Connection, sources: frozenset[str] | None) -> frozenset[str] | None:
    """Return the sources of which marked nodes may be embedded now; ``None``: all of them."""
    if sources is None:
        return None
    stored = get_state(connection, OPEN_SOURCES_KEY)
    return frozenset() if stored is None else sources - frozenset(json.loads(stored))


def sweep_reembed(context: SweepContext) -> Iterator[NewJob]:
    """Yield the back-fill of the wanted signature if a node lacks a vector at it, or if it has yet to take over."""
    from agent.models.profiles import open_profile

    try:
        wanted = wanted_of(context.intent, open_profile(context.intent, {}))
    except SapwoodError:
        return  # no model, no vectors; the owner reads why at each job that needs one
    if is_due(context.connection, wanted):
        yield NewJob.reembed_backfill(wanted.signature)


def is_due(connection: Connection, wanted: Wanted) -> bool:
    """Return whether the back-fill has anything to do. Reads a few index ends; nothing on a memory that is covered."""
    return (
        bool(nodes_without_vector(connection, wanted.signature, 1, wanted.sources))
        or serving_signature(connection, wanted.signature) != wanted.signature
        or has_spare_vectors(connection, wanted.signature)
    )
