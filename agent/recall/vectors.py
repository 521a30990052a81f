"""The meaning side of a search: every window of one signature as an int8 matrix, kept by the process.

A node is as near as its best window (averaging them is bad: ``numbers.md``). 100,000 nodes are some 60 MB here; blocks
are widened to float32 one after another in a buffer of a megabyte, so that scoring all of them takes 15 ms and no
memory.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agent.recall.filters import Filters, passing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.db.connection import Connection

BLOCK_ROWS = 1_024
READ_ROWS = 4_096  # rows of a read: a reader that holds its snapshot for long makes the WAL grow
KEPT_SIGNATURES = 2
UNIT = 127 * 127  # what two equal vectors of the stored scale multiply to
FLOOR = 0.3  # a cosine under it says nothing (SciFact: 95 of 100 relevant texts are above, unrelated queries below)

_SIGNATURE = "SELECT signature_id FROM mem_tree_signatures WHERE signature = ?"

# Chunk and summary numbers are never used twice, and a node's text never changes under its number: the set of nodes
# that are embedded at all is the state of the vectors, and beside it how many at this very signature. While another
# signature is built, nodes move to that one and keep the vectors that they have here.
_STATE = """
SELECT (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature = ?1)
       + (SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature = ?1),
       count(*), coalesce(max(seq), 0), coalesce(sum(seq), 0),
       (SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature > 0),
       (SELECT coalesce(max(seq), 0) FROM mem_tree_summaries WHERE embedded_signature > 0),
       (SELECT coalesce(sum(seq), 0) FROM mem_tree_summaries WHERE embedded_signature > 0)
  FROM mem_tree_chunks
 WHERE embedded_signature > 0
"""
_STATE_OF_PRIVATE = """
SELECT count(*), coalesce(max(seq), 0), coalesce(sum(seq), 0),
       (SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature = -2),
       (SELECT coalesce(max(seq), 0) FROM mem_tree_summaries WHERE embedded_signature = -2),
       (SELECT coalesce(sum(seq), 0) FROM mem_tree_summaries WHERE embedded_signature = -2)
  FROM mem_tree_chunks
 WHERE embedded_signature = -2
"""

_NODES = """
SELECT seq FROM mem_tree_chunks WHERE embedded_signature > 0
UNION ALL
SELECT seq FROM mem_tree_chunks WHERE embedded_signature = -2
UNION ALL
SELECT -seq FROM mem_tree_summaries WHERE embedded_signature > 0
UNION ALL
SELECT -seq FROM mem_tree_summaries WHERE embedded_signature = -2
"""

_PAGE = """
SELECT node, windows
  FROM mem_tree_vectors
 WHERE signature_id = ?
   AND node > ?
 ORDER BY node
 LIMIT ?
"""

_SOME = """
SELECT v.node, v.windows
  FROM json_each(?2) AS wanted
  CROSS JOIN mem_tree_vectors AS v ON v.signature_id = ?1 AND v.node = wanted.value
 ORDER BY v.node
"""

_WINDOWS = """
SELECT windows
  FROM mem_tree_vectors
 WHERE signature_id = ?
   AND node = ?
"""


@dataclass(frozen=True)
class WindowIndex:
    """All windows of one signature: ``matrix`` int8 (windows, dimensions); the windows of ``nodes[i]`` are the rows
    from ``starts[i]`` on, up to the next node's. No node is without a window.
    """

    nodes: NDArray[Any]
    starts: NDArray[Any]
    matrix: NDArray[Any]

    def similarities(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Return, for each node, the cosine of its best window with an int8 vector. Blocks for about 0.1 ms per
        thousand windows.
        """
        import numpy as np

        rows, dimensions = self.matrix.shape
        wide = vector.astype(np.float32)
        scores = np.empty(rows, np.float32)
        buffer = np.empty((min(BLOCK_ROWS, rows), dimensions), np.float32)
        for start in range(0, rows, BLOCK_ROWS):
            count = min(BLOCK_ROWS, rows - start)
            np.copyto(buffer[:count], self.matrix[start : start + count])
            np.dot(buffer[:count], wide, out=scores[start : start + count])
        best: NDArray[Any] = np.maximum.reduceat(scores, self.starts)
        return best / UNIT


@dataclass
class _Held:
    state: tuple[int, ...]
    newest: tuple[int, bytes]
    index: WindowIndex | None
    # A connection whose marks have not moved needs no look at the tables.
    looked: WeakKeyDictionary[Connection, tuple[int, int]] = field(default_factory=WeakKeyDictionary)


_held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
_lock = threading.Lock()


def window_index(connection: Connection, signature: str, dimensions: int) -> WindowIndex | None:
    """Return the windows stored under a signature, or ``None`` where there are none.

    Read once per process and then kept up to date: only what came since is read. Blocks for some 3 ms per thousand
    nodes at the first call.
    """
    signature_id = connection.value(_SIGNATURE, (signature,))
    if signature_id is None:
        return None
    key = (str(connection.raw.filename), signature)
    with _lock:
        held = _held.get(key)
        marks = (connection.value("PRAGMA data_version"), connection.raw.total_changes())
        if held is not None and held.looked.get(connection) == marks:
            return held.index
        state = _state(connection, signature_id)
        if held is None or not _same_memory(connection, signature_id, held):
            held = _hold(state, _read_all(connection, signature_id, dimensions))
        elif held.state[1:] == state[1:] and held.state[0] >= state[0]:
            held.state = state  # nodes moved to another signature: their vectors here are as they were
        else:
            held = _hold(state, _read_changed(connection, signature_id, dimensions, held.index))
        _held[key] = held
        _held.move_to_end(key)
        while len(_held) > KEPT_SIGNATURES:
            _held.popitem(last=False)
        held.looked[connection] = marks
        return held.index


def forget_held_windows() -> None:
    """Let go of all windows that this process keeps (another file was put in the database's place; tests)."""
    with _lock:
        _held.clear()


def _state(connection: Connection, signature_id: int) -> tuple[int, ...]:
    """Return how many nodes are embedded at the signature, and which are embedded at all or marked as private."""
    here, *found = connection.all(_STATE, (signature_id,))[0]
    private = connection.all(_STATE_OF_PRIVATE)[0]
    chunks, last_chunk, sum_chunks, summaries, last_summary, sum_summaries = private
    return (
        here,
        found[0] + chunks,
        max(found[1], last_chunk),
        found[2] + sum_chunks,
        found[3] + summaries,
        max(found[4], last_summary),
        found[5] + sum_summaries,
    )


def _same_memory(connection: Connection, signature_id: int, held: _Held) -> bool:
    # A memory that was grown again in the same place numbers other nodes alike.
    node, windows = held.newest
    found = connection.value(_WINDOWS, (signature_id, node))
    return found is None or found == windows


def _hold(state: tuple[int, ...], index: WindowIndex | None) -> _Held:
    if index is None:
        return _Held(state, (0, b""), None)
    return _Held(state, (int(index.nodes[-1]), index.matrix[index.starts[-1] :].tobytes()), index)


def _read_all(connection: Connection, signature_id: int, dimensions: int) -> WindowIndex | None:
    nodes: list[int] = []
    sizes: list[int] = []
    data = bytearray()
    last = -(1 << 62)
    while True:
        rows = connection.all(_PAGE, (signature_id, last, READ_ROWS))
        _take(rows, dimensions, nodes, sizes, data)
        if len(rows) < READ_ROWS:
            return _index(nodes, sizes, data, dimensions)
        last = rows[-1][0]


def _read_changed(
    connection: Connection, signature_id: int, dimensions: int, old: WindowIndex | None
) -> WindowIndex | None:
    import numpy as np

    if old is None:
        return _read_all(connection, signature_id, dimensions)
    wanted = np.fromiter((row[0] for row in connection.all(_NODES)), np.int64)
    nodes: list[int] = []
    sizes: list[int] = []
    data = bytearray()
    fresh = np.setdiff1d(wanted, old.nodes, assume_unique=True).tolist()
    for start in range(0, len(fresh), READ_ROWS):
        rows = connection.all(_SOME, (signature_id, json.dumps(fresh[start : start + READ_ROWS])))
        _take(rows, dimensions, nodes, sizes, data)
    new = _index(nodes, sizes, data, dimensions)
    kept = np.isin(old.nodes, wanted, assume_unique=True)
    if not kept.all():
        old = _only(old, kept)
    if new is None or not len(old.nodes):
        return new if new is not None else (old if len(old.nodes) else None)
    return WindowIndex(
        np.concatenate((old.nodes, new.nodes)),
        np.concatenate((old.starts, new.starts + len(old.matrix))),
        np.concatenate((old.matrix, new.matrix)),
    )


def _take(rows: list[tuple[Any, ...]], dimensions: int, nodes: list[int], sizes: list[int], data: bytearray) -> None:
    for node, windows in rows:
        if windows and len(windows) % dimensions == 0:
            nodes.append(node)
            sizes.append(len(windows) // dimensions)
            data += windows


def _index(nodes: list[int], sizes: list[int], data: bytearray, dimensions: int) -> WindowIndex | None:
    import numpy as np

    if not nodes:
        return None
    ends = np.cumsum(sizes)
    matrix = np.frombuffer(data, np.int8).reshape(-1, dimensions)
    return WindowIndex(np.array(nodes, np.int64), ends - np.array(sizes), matrix)


def _only(index: WindowIndex, kept: NDArray[Any]) -> WindowIndex:
    import numpy as np

    sizes = np.diff(index.starts, append=len(index.matrix))
    return WindowIndex(
        index.nodes[kept],
        np.cumsum(sizes[kept]) - sizes[kept],
        index.matrix[np.repeat(kept, sizes)],
    )


def nearest(
    connection: Connection, index: WindowIndex, similarities: NDArray[Any], filters: Filters, limit: int
) -> list[tuple[int, float]]:
    """Return ``(node, cosine)`` of the nearest nodes that pass the filters, best first, ties by number.

    Nothing under ``FLOOR`` is near. A narrow filter is asked about more and more nodes until enough have passed.
    """
    import numpy as np

    wanted = similarities >= FLOOR
    if not filters.leaves:
        wanted &= index.nodes < 0
    if not filters.summaries:
        wanted &= index.nodes > 0
    nodes, scores = index.nodes[wanted], similarities[wanted]
    if not filters.narrow:
        order = _best(scores, nodes, limit)
        return [(int(node), float(score)) for node, score in zip(nodes[order], scores[order], strict=True)]
    found: list[tuple[int, float]] = []
    order = np.lexsort((nodes, -scores))
    start, size = 0, max(limit, 512)
    while start < len(order) and len(found) < limit:
        part = order[start : start + size]
        allowed = passing(connection, filters, nodes[part].tolist())
        found += [(int(nodes[at]), float(scores[at])) for at in part if int(nodes[at]) in allowed]
        start, size = start + size, size * 8
    return found[:limit]


def scores_of(index: WindowIndex, similarities: NDArray[Any], nodes: Iterable[int]) -> dict[int, float]:
    """Return the cosines of some nodes; those that have no window, or are not near, are left out."""
    import numpy as np

    wanted = np.isin(index.nodes, np.fromiter(nodes, np.int64)) & (similarities >= FLOOR)
    return {int(node): float(score) for node, score in zip(index.nodes[wanted], similarities[wanted], strict=True)}


def _best(scores: NDArray[Any], nodes: NDArray[Any], limit: int) -> NDArray[Any]:
    import numpy as np

    if len(scores) > limit:
        last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        candidates = np.flatnonzero(scores >= last)
    else:
        candidates = np.arange(len(scores))
    order = np.lexsort((nodes[candidates], -scores[candidates]))
    return candidates[order][:limit]
