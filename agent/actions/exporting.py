"""The memory as linked Markdown: a note for every document, mail and day of chat, one for every summary, and one for
each source with its tree.

Everything is read in one snapshot, an item and a summary at a time, so the notes agree with each other however large
the memory is. What the notes are called depends on the memory alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.actions.export_folder import ExportFolder
from agent.actions.export_source import TOP_NOTE, ItemLists, SourceNotes
from agent.actions.note_text import (
    anchor,
    fenced,
    front_matter,
    inline,
    link,
    one_line,
    place_words,
)
from agent.clock import iso
from agent.errors import UsageFault
from agent.ids import tree_id
from agent.recall.provenance import PARENT
from agent.states import Lifecycle, NodeKind, SourceKind, TreeKind

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.db import Connection

PAGE = 200

_SOURCES = """
SELECT source_id FROM mem_tree_items WHERE held_hash IS NOT NULL GROUP BY source_id
"""

# Items of which the memory holds anything, in the order of the tree.
_ITEMS = """
SELECT i.item_seq, i.item_key, i.source_kind, i.title, i.time_ms, i.sort_key, i.masked
  FROM mem_tree_items AS i
 WHERE i.source_id = ?1
   AND (i.sort_key, i.item_seq) > (?2, ?3)
   AND EXISTS (SELECT 1 FROM mem_tree_chunks AS c WHERE c.item_seq = i.item_seq)
 ORDER BY i.sort_key, i.item_seq
 LIMIT ?4
"""

_CHUNKS = """
SELECT c.chunk_id, c.time_ms, c.author, c.title, c.heading_path, c.locator, c.text, c.lifecycle
  FROM mem_tree_chunks AS c
 WHERE c.item_seq = ?
 ORDER BY c.order_key, c.seq
"""

_SUMMARIES = """
SELECT s.seq, s.summary_id, s.level, s.title, s.text, s.leaves, s.first_time_ms, s.last_time_ms, s.signature
  FROM mem_tree_summaries AS s
 WHERE s.source_id = ?
   AND s.seq > ?
 ORDER BY s.seq
 LIMIT ?
"""

_NODE = """
SELECT coalesce(s.title, c.title), s.tree_seq, s.leaves, i.item_key, i.title, i.source_kind
  FROM (SELECT ?1 AS node_id) AS n
  LEFT JOIN mem_tree_summaries AS s ON s.summary_id = n.node_id
  LEFT JOIN mem_tree_chunks AS c ON c.chunk_id = n.node_id
  LEFT JOIN mem_tree_items AS i ON i.item_seq = c.item_seq
"""

_CHILDREN = """
SELECT e.node_id, e.node_kind
  FROM mem_tree_edges AS e
  JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
 WHERE e.parent_id = ?1
   AND e.node_id <> ?1
   AND t.kind IN ('document', 'source')
 ORDER BY e.tree_seq, e.level, e.sort_key
"""

_TOPS = """
SELECT node_id, node_kind, level, sort_key FROM mem_tree_edges WHERE tree_seq = ?1 AND parent_id = ''
 UNION ALL
SELECT node_id, node_kind, level, sort_key FROM mem_tree_buffers WHERE tree_seq = ?1
 ORDER BY level DESC, sort_key
"""

_COUNTS = """
SELECT (SELECT count(*) FROM mem_tree_items AS i
         WHERE EXISTS (SELECT 1 FROM mem_tree_chunks AS c WHERE c.item_seq = i.item_seq)),
       (SELECT count(*) FROM mem_tree_summaries)
"""

Said = Callable[[int, int], object]


@dataclass(frozen=True)
class Exported:
    """Where an export is, how many files it has, and of these what this run wrote; ``removed`` are gone now."""

    path: str
    files: int
    written: int
    removed: int
    passages: int


def export(home: Home, folder: str, said: Said = lambda done, total: None) -> Exported:
    """Write the memory into a folder as linked Markdown, in the place of an earlier export, and return what was done.

    ``said`` is told now and then how many notes are done of how many. Raises ``UsageFault`` for a folder that holds
    what no export wrote, ``AgentFault`` where such a file is in the way, ``OSError`` where nothing can be written.
    """
    root = _target(home, folder)
    with home.connection.snapshot():
        # Before the folder: a memory that cannot be read must not take the place of an export of a sound one.
        items, summaries = home.connection.all(_COUNTS)[0]
        target = ExportFolder(root)
        try:
            run = _Export(home, target, said, items + summaries)
            run.all_of_it()
            target.finish()
        finally:
            target.close()
    return Exported(str(root), target.files, target.written, target.removed, run.passages)


def _target(home: Home, folder: str) -> Path:
    root = Path(folder).expanduser().absolute()
    for own in (home.paths.config_dir, home.paths.data_dir, home.paths.log_dir, home.paths.runtime_dir):
        if root.resolve() == own.resolve() or own.resolve() in root.resolve().parents:
            raise UsageFault("this folder is Sapwood's own", str(root), "name one outside of it")
    return root


class _Export:
    def __init__(self, home: Home, target: ExportFolder, said: Said, total: int) -> None:
        self.passages = 0
        self._home = home
        self._connection: Connection = home.connection
        self._target = target
        self._said = said
        self._total = total
        self._done = 0

    def all_of_it(self) -> None:
        held = [row[0] for row in self._connection.all(_SOURCES)]
        ids = [*(source.id for source in self._home.intent.sources)]
        ids += sorted(set(held) - set(ids))
        lines = []
        for source_id in ids:
            note = SourceNotes(source_id, self._home.intent.source(source_id))
            self._source(note)
            lines.append(f"- {link(note.index, note.name)}")
        text = ["# The memory", "", *(lines or ["Nothing is remembered yet."]), ""]
        self._target.put(f"{TOP_NOTE}.md", "\n".join(text))

    def _step(self) -> None:
        self._done += 1
        self._said(self._done, self._total)

    def _source(self, source: SourceNotes) -> None:
        read = ItemLists(self._target, source)
        for item_seq, item_key, kind, title, time_ms, _, masked in self._items(source.id):
            name = source.item(item_key, title)
            self._target.put(
                f"{source.folder}/items/{name}.md",
                self._item(source, item_seq, item_key, kind, title or item_key, time_ms, masked),
            )
            read.add(f"- {link(name, title or item_key)}")
            self._step()
        count = 0
        for row in self._summaries(source.id):
            summary_id, title = row[1], row[3]
            text = self._summary(source, *row[1:])
            self._target.put(f"{source.folder}/summaries/{source.summary(summary_id, title)}.md", text)
            count += 1
            self._step()
        self._target.put(f"{source.folder}/{source.index}.md", self._index(source, read, count))

    def _items(self, source_id: str) -> Iterator[tuple[Any, ...]]:
        after: tuple[bytes, int] = (b"", -1)
        while rows := self._connection.all(_ITEMS, (source_id, *after, PAGE)):
            yield from rows
            after = (rows[-1][5], rows[-1][0])

    def _summaries(self, source_id: str) -> Iterator[tuple[Any, ...]]:
        after = 0
        while rows := self._connection.all(_SUMMARIES, (source_id, after, PAGE)):
            yield from rows
            after = rows[-1][0]

    def _item(
        self,
        source: SourceNotes,
        item_seq: int,
        item_key: str,
        kind: str,
        title: str,
        time_ms: int | None,
        masked: int,
    ) -> str:
        from agent.recall.provenance import read_locator, resolve_path

        chunks = self._connection.all(_CHUNKS, (item_seq,))
        path = resolve_path(read_locator(chunks[0][5]), source.intent)
        parts = [
            front_matter(
                {
                    "id": source.item_id(item_key),
                    "source": source.id,
                    "kind": kind,
                    "title": one_line(title),
                    "aliases": [one_line(title)],
                    "time": iso(time_ms),
                    "path": path,
                    "item": item_key,
                    "passages": len(chunks),
                    "masked": masked or None,
                }
            ),
            "",
            f"# {inline(title)}",
            "",
            f"Read from {link(source.index, source.name)}.",
        ]
        for number, (chunk_id, at_ms, author, chunk_title, heading, locator, text, lifecycle) in enumerate(chunks, 1):
            place = read_locator(locator)
            where = place_words(resolve_path(place, source.intent), place)
            about = [where, author, iso(at_ms) if kind != SourceKind.DOCUMENT else None]
            about += [part for part in (heading, chunk_title if chunk_title != title else None) if part]
            words = " · ".join(inline(part) for part in about if part)
            parts += [
                "",
                f"## Passage {number}",
                "",
                f"From {words or 'here'} · {self._above(source, chunk_id, lifecycle)} ^{anchor(chunk_id)}",
                "",
                fenced(text),
            ]
        self.passages += len(chunks)
        return "\n".join([*parts, ""])

    def _above(self, source: SourceNotes, node_id: str, lifecycle: str = "") -> str:
        row = self._connection.one(PARENT, (node_id,))
        if row is not None:
            return f"part of {link(source.summary(row[0], row[2]), row[2] or 'summary')}"
        return "in no summary" if lifecycle == Lifecycle.DROPPED else "under no summary yet"

    def _summary(
        self,
        source: SourceNotes,
        summary_id: str,
        level: int,
        title: str | None,
        text: str,
        leaves: int,
        first_ms: int | None,
        last_ms: int | None,
        signature: str,
    ) -> str:
        shown = one_line(title or "") or f"Summary of {leaves} passages"
        row = self._connection.one(PARENT, (summary_id,))
        above = link(source.summary(row[0], row[2]), row[2] or "summary") if row else link(source.index, source.name)
        parts = [
            front_matter(
                {
                    "id": summary_id,
                    "source": source.id,
                    "kind": "summary",
                    "title": shown,
                    "aliases": [shown],
                    "level": level,
                    "passages": leaves,
                    "time": iso(first_ms),
                    "last_time": iso(last_ms) if last_ms != first_ms else None,
                    "made_by": signature,
                }
            ),
            "",
            f"# {inline(shown)}",
            "",
            f"Above it: {above}",
            "",
            fenced(text),
            "",
            "## Below it",
            "",
        ]
        for node_id, node_kind in self._connection.all(_CHILDREN, (summary_id,)):
            parts.append(f"- {self._link(source, node_id, node_kind)}")
        return "\n".join([*parts, ""])

    def _link(self, source: SourceNotes, node_id: str, node_kind: str) -> str:
        title, within, _, item_key, item_title, _ = self._connection.all(_NODE, (node_id,))[0]
        if within is None and item_key is None:
            return "something that is being made again"
        if node_kind == NodeKind.SUMMARY:
            return link(source.summary(node_id, title), title or "summary")
        return link(source.item(item_key, item_title), title or item_title or item_key, anchor(node_id))

    def _index(self, source: SourceNotes, read: ItemLists, summaries: int) -> str:
        intent = source.intent
        head = front_matter(
            {
                "source": source.id,
                "kind": "source",
                "title": one_line(source.name),
                "reads": None if intent is None else [one_line(path) for path in intent.paths],
                "items": read.count,
                "summaries": summaries,
            }
        )
        parts = [head, "", f"# {inline(source.name)}", "", f"One of the sources of {link(TOP_NOTE, 'the memory')}.", ""]
        parts += ["## The tree", "", *(self._tree(source) or ["Nothing has grown yet."]), ""]
        parts += ["## What was read", "", *(read.finished() or ["Nothing yet."]), ""]
        return "\n".join(parts)

    def _tree(self, source: SourceNotes) -> list[str]:
        """Return the summaries of a source as nested lines, down to the tops of its documents."""
        tree = self._connection.value(
            "SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (tree_id(TreeKind.SOURCE, source.id),)
        )
        lines: list[str] = []
        if tree is not None:
            for node_id, node_kind, *_ in self._connection.all(_TOPS, (tree,)):
                self._branch(source, tree, node_id, node_kind, 0, lines)
        return lines

    def _branch(
        self, source: SourceNotes, tree: int, node_id: str, node_kind: str, depth: int, lines: list[str]
    ) -> None:
        """Add a node with what is below it. Passages of mails and chats are left to the notes of their summaries, as
        is what is below the top of a document.
        """
        _, within, leaves, _, _, kind = self._connection.all(_NODE, (node_id,))[0]
        if node_kind != NodeKind.SUMMARY and kind != SourceKind.DOCUMENT:
            return
        size = f" ({leaves})" if leaves else ""
        lines.append(f"{'  ' * depth}- {self._link(source, node_id, node_kind)}{size}")
        if within != tree:
            return
        for child_id, child_kind in self._connection.all(_CHILDREN, (node_id,)):
            self._branch(source, tree, child_id, child_kind, depth + 1, lines)
