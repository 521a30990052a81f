"""From a node down to the file and the place in it, and up to the root of its tree.

The chunk's row and its item's are enough; nothing is read again from the source (lane 6 of the pipeline).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.states import NodeKind

if TYPE_CHECKING:
    from agent.config import Intent, SourceIntent
    from agent.db.connection import Connection

MAX_LEVELS = 64  # no tree is this high: a chain that is, is a circle

# A document's root has its own tree's edge without a parent and stands as a leaf in its folder's tree, so the chain
# goes on there. A node that went up a level as itself has itself as parent.
PARENT = """
SELECT s.summary_id, s.level, s.title, t.tree_id
  FROM mem_tree_edges AS e
  JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
  JOIN mem_tree_summaries AS s ON s.summary_id = e.parent_id
 WHERE e.node_id = ?1
   AND e.parent_id NOT IN ('', ?1)
   AND t.kind IN ('document', 'source')
 ORDER BY t.kind, e.level
 LIMIT 1
"""
"""The summary directly above a node (?1): its id, level, title, and its tree's id."""

_CHUNK_ORIGIN = """
SELECT c.source_id, c.source_kind, c.item_key, c.locator, c.author, c.time_ms, c.reference, c.title, c.heading_path
  FROM mem_tree_chunks AS c
 WHERE c.chunk_id = ?
"""

_SUMMARY_ORIGIN = """
SELECT s.source_id, t.item_key, s.title, s.first_time_ms, s.last_time_ms,
       (SELECT c.locator
          FROM mem_tree_items AS i
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE i.source_id = s.source_id
           AND i.item_key = t.item_key
         ORDER BY c.order_key
         LIMIT 1)
  FROM mem_tree_summaries AS s
  JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
 WHERE s.summary_id = ?
"""


@dataclass(frozen=True)
class Parent:
    """A summary above a node."""

    node_id: str
    level: int
    title: str | None
    tree_id: str

    def as_json(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "kind": NodeKind.SUMMARY.value,
            "level": self.level,
            "title": self.title,
            "tree_id": self.tree_id,
        }


@dataclass(frozen=True)
class Origin:
    """Where a node comes from. ``path`` is absolute where the intent still names the source; ``locator`` says the
    place in it: lines (from 1) of a text, bytes of a mailbox. A summary has a path if it is one document's.
    """

    source_id: str
    source_name: str | None
    source_kind: str | None
    item_key: str | None
    path: str | None
    locator: dict[str, Any] | None
    author: str | None
    time: str | None  # ISO 8601 with offset
    last_time: str | None
    reference: str | None
    title: str | None
    heading_path: str | None

    def as_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def parents_of(connection: Connection, node_id: str) -> tuple[Parent, ...]:
    """Return the summaries above a node, the nearest first, up to the root of its source's tree."""
    chain: list[Parent] = []
    seen = {node_id}
    current = node_id
    while len(chain) < MAX_LEVELS:
        row = connection.one(PARENT, (current,))
        if row is None or row[0] in seen:
            break
        chain.append(Parent(*row))
        current = row[0]
        seen.add(current)
    return tuple(chain)


def chunk_origin(connection: Connection, chunk_id: str, intent: Intent | None = None) -> Origin | None:
    """Return where a chunk comes from, or ``None`` for an unknown one."""
    row = connection.one(_CHUNK_ORIGIN, (chunk_id,))
    if row is None:
        return None
    source_id, source_kind, item_key, locator, author, time_ms, reference, title, heading_path = row
    source = intent.source(source_id) if intent is not None else None
    place = read_locator(locator)
    return Origin(
        source_id=source_id,
        source_name=source.name if source is not None else None,
        source_kind=source_kind,
        item_key=item_key,
        path=resolve_path(place, source),
        locator=place,
        author=author,
        time=iso(time_ms),
        last_time=iso(time_ms),
        reference=reference,
        title=title,
        heading_path=heading_path,
    )


def summary_origin(connection: Connection, summary_id: str, intent: Intent | None = None) -> Origin | None:
    """Return what a summary covers, or ``None`` for an unknown one."""
    row = connection.one(_SUMMARY_ORIGIN, (summary_id,))
    if row is None:
        return None
    source_id, item_key, title, first_time_ms, last_time_ms, locator = row
    source = intent.source(source_id) if intent is not None else None
    return Origin(
        source_id=source_id,
        source_name=source.name if source is not None else None,
        source_kind=None,
        item_key=item_key,
        path=resolve_path(read_locator(locator), source),
        locator=None,
        author=None,
        time=iso(first_time_ms),
        last_time=iso(last_time_ms),
        reference=None,
        title=title,
        heading_path=None,
    )


def read_locator(text: str | None) -> dict[str, Any] | None:
    """Return a stored locator, or ``None`` where there is none that can be read."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def resolve_path(locator: dict[str, Any] | None, source: SourceIntent | None) -> str | None:
    """Return the path of a locator as the owner finds it: under the path of its source that has the file.

    Without a source, or where the file is gone, the path that is most likely to have been its own. Looks at the disk.
    """
    relative = _path_in(locator)
    if relative is None or source is None or not source.paths or Path(relative).is_absolute():
        return relative
    guesses = [candidate for root in source.paths for candidate in _under(Path(root), relative)]
    return str(next((guess for guess in guesses if guess.exists()), guesses[0]))


def _path_in(locator: dict[str, Any] | None) -> str | None:
    if locator is None:
        return None
    places = locator.get("places")
    first = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else {}
    path = locator.get("path", first.get("path"))
    return path if isinstance(path, str) else None


def _under(root: Path, relative: str) -> Iterable[Path]:
    # A source that is one file (a mailbox, a log) has its name as the path.
    if root.name == Path(relative).name and not root.is_dir():
        yield root
    yield root / relative
