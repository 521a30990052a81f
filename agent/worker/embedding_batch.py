"""One batch of nodes to their windows' vectors: by the table that is shipped, or by one call of a model.

A text that a model refuses must not hold up all others: the batch is made smaller from run to run until it stands alone
(one call a run), and then it is left out. It counts as covered only once the model has embedded something else since:
a server that refuses everything is nobody's fault but its own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.db.serving import signature_number
from agent.db.state import get_state, set_state
from agent.errors import JobFailure
from agent.models.embedding import WrongVectors
from agent.states import Hold

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.models.protocol import AsksModel, Embedder
    from agent.queue.registry import JobContext
    from agent.worker.reembed_sweep import Unembedded

log = logging.getLogger("sapwood.embedding")

NODES_A_CALL = 64
SECONDS_A_RUN = 2.0
MOST_HEAD = 200  # characters: a subject of a thousand would be all that its windows say
SHRINK = 8
"""A refused batch comes back as an eighth of itself: three refusals find one text among hundreds. So many and
``MOST_REFUSED`` more in a row do not open the provider's breaker yet (``REFUSALS_IN_A_ROW``)."""
GROW = 2
"""After one that succeeded the next takes so much more: the bad text is still among the next ones, mostly."""
MOST_REFUSED = 8
REFUSALS = frozenset({"context_overflow", "bad_output"})
"""What a server says of a text. All else is everybody's: it is out, it wants another key, it has no such model."""

BATCH_KEY = "embedding_batch"
"""How many nodes the next call takes after a refusal, and which stood alone when they were refused (JSON)."""


@dataclass(frozen=True)
class Embedded:
    """A node (chunk seq, or minus summary seq), the text its vectors are of, and its windows: n × dim signed bytes.

    Nothing to sum gives no bytes: the node counts as covered and has no vector. ``is_refused``: the model has none.
    """

    node: int
    text: str
    windows: bytes
    is_refused: bool = False


@dataclass(frozen=True)
class Batch:
    """What a run embedded. ``shrunk``: the model refused it, and it comes back smaller."""

    embedded: list[Embedded]
    shrunk: bool = False


@dataclass(frozen=True)
class _Narrowed:
    """What is remembered of refusals: ``nodes`` a call (0: no limit), nodes that were ``refused`` alone."""

    nodes: int = 0
    refused: tuple[int, ...] = ()


def embed_by_table(context: JobContext, embedder: Embedder, nodes: Sequence[Unembedded]) -> Batch:
    """Return the vectors of as many nodes as two seconds allow, 64 at least."""
    until = context.clock.monotonic() + SECONDS_A_RUN
    embedded: list[Embedded] = []
    for first in range(0, len(nodes), NODES_A_CALL):
        if embedded and context.clock.monotonic() > until:
            break
        context.check()
        some = nodes[first : first + NODES_A_CALL]
        windows = [windows_of(embedder, each) for each in some]
        vectors = embedder.embed([window for each in windows for window in each])
        embedded += _rows(some, windows, vectors)
    return Batch(embedded)


def embed_by_model(
    context: JobContext, embedder: Embedder, asks: AsksModel, nodes: Sequence[Unembedded], all_nodes: bool
) -> Batch:
    """Return the vectors of the nodes that one call takes. ``all_nodes``: no others are left beyond these.

    Raises what concerns more than one text: ``Postponed``, and every failure that is no refusal.
    """
    connection = context.connection
    narrowed = read_narrowed(connection, embedder.signature)
    refused = frozenset(narrowed.refused)
    free = [each for each in nodes if each.node not in refused]
    if not free:
        return _only_refused(connection, embedder, nodes) if all_nodes else Batch([])
    taken = _taken(embedder, asks, free, narrowed.nodes or len(free))
    texts = [window for _, windows in taken for window in windows]
    context.check()
    try:
        vectors, silent = asks.embed_some(texts, sorted({each.source_id for each, _ in taken}))
    except JobFailure as failure:
        if isinstance(failure, WrongVectors) or failure.code not in REFUSALS:
            raise
        _narrow(connection, embedder.signature, narrowed, [each.node for each, _ in taken], failure)
        return Batch([], shrunk=True)
    embedded = _rows([each for each, _ in taken], [windows for _, windows in taken], vectors, frozenset(silent))
    # The model works: whatever it refused alone before is that text's own matter.
    embedded += [Embedded(each.node, each.text, b"", True) for each in nodes if each.node in refused]
    for each in embedded:
        if each.is_refused:
            log.warning("the model has no vector for node %d; words alone find it", each.node)
    return Batch(embedded)


def widen_tx(connection: Connection, signature: str) -> None:
    """Let the next call take more again, after one that succeeded; inside the caller's transaction."""
    narrowed = read_narrowed(connection, signature)
    if narrowed == _Narrowed():
        return
    nodes = narrowed.nodes * GROW
    _write(connection, signature, None if not nodes or nodes >= NODES_A_CALL * SHRINK else _Narrowed(nodes))


def read_narrowed(connection: Connection, signature: str) -> _Narrowed:
    """Return what is remembered of refusals at a signature; nothing of those at another one."""
    stored = get_state(connection, BATCH_KEY)
    if stored is None:
        return _Narrowed()
    found = json.loads(stored)
    if found.get("signature") != signature:
        return _Narrowed()
    return _Narrowed(int(found["nodes"]), tuple(found["refused"]))


def windows_of(embedder: Embedder, waiting: Unembedded) -> list[str]:
    """Return a node's windows, each under its title and headings: a paragraph alone rarely says what it is about.

    Of 247 one-line descriptions of modules 209 found their page among the first five by meaning alone without them, 224
    with them.
    """
    head = ". ".join(part for part in (waiting.title, waiting.heading_path) if part)[:MOST_HEAD]
    return [f"{head}. {window}" if head else window for window in embedder.windows(waiting.text)]


def _taken(
    embedder: Embedder, asks: AsksModel, nodes: Sequence[Unembedded], most: int
) -> list[tuple[Unembedded, list[str]]]:
    """Return the first nodes with their windows, as many as one call takes; one at least, however long it is."""
    from agent.tokens import count_tokens

    taken: list[tuple[Unembedded, list[str]]] = []
    texts = tokens = 0
    for each in nodes[:most]:
        windows = windows_of(embedder, each)
        texts += len(windows)
        tokens += sum(map(count_tokens, windows))
        if taken and (texts > asks.most_texts or tokens > asks.most_tokens):
            break
        taken.append((each, windows))
    return taken


def _rows(
    nodes: Sequence[Unembedded], windows: Sequence[Sequence[str]], vectors: Any, silent: frozenset[int] = frozenset()
) -> list[Embedded]:
    says_something: Any = vectors.any(axis=1)
    found: list[Embedded] = []
    at = 0
    for waiting, each in zip(nodes, windows, strict=True):
        until_row = at + len(each)
        rows = vectors[at:until_row][says_something[at:until_row]]
        is_refused = not len(rows) and any(row in silent for row in range(at, until_row))
        found.append(Embedded(waiting.node, waiting.text, rows.tobytes(), is_refused))
        at = until_row
    return found


def _only_refused(connection: Connection, embedder: Embedder, nodes: Sequence[Unembedded]) -> Batch:
    """Return what is left, all of it refused, as covered: where the model has ever embedded anything."""
    number = signature_number(connection, embedder.signature)
    if number is None:
        raise JobFailure.unrecoverable(
            str(Hold.MODEL_MISSING),
            title="the embedding model refuses every text",
            detail=embedder.signature,
            hint="`sapwood model test` finds out what it answers with; `sapwood retry` then",
        )
    return Batch([Embedded(each.node, each.text, b"", True) for each in nodes])


def _narrow(
    connection: Connection, signature: str, narrowed: _Narrowed, nodes: Sequence[int], failure: JobFailure
) -> None:
    """Remember that the next call is to be smaller. In a transaction of its own: nothing was embedded, and the age of
    the row counts from its last progress.
    """
    refused = narrowed.refused
    if len(nodes) == 1:
        refused = (*refused, nodes[0])
        if len(refused) > MOST_REFUSED:
            raise failure
    with connection.write():
        _write(connection, signature, _Narrowed(max(1, len(nodes) // SHRINK), refused))


def _write(connection: Connection, signature: str, narrowed: _Narrowed | None) -> None:
    value = None
    if narrowed is not None:
        value = json.dumps({"signature": signature, "nodes": narrowed.nodes, "refused": list(narrowed.refused)})
    set_state(connection, BATCH_KEY, value)
