"""A from-scratch builder, written from the design alone; it imports nothing of ``agent/tree`` and no ids either.

It reads the chunks, never the trees, and computes every level with plain loops.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.db import Connection
from agent.models.protocol import Summariser, SummaryInput, SummaryRequest
from agent.tokens import count_tokens


def _digest(parts: Iterable[str | bytes | int], size: int) -> bytes:
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(4, "big") + raw)
    return state.digest()


def _hex_id(*parts: str | bytes | int) -> str:
    return _digest(parts, 16).hex()


def _number(*parts: str | bytes | int) -> int:
    return int.from_bytes(_digest(parts, 8), "big") >> 1


@dataclass(frozen=True)
class Node:
    """A node of a level with everything that what is above it depends on."""

    node_id: str
    shape: str
    last_leaf: str
    shape_tokens: int
    first_break: int
    last_break: int
    shown: SummaryInput
    leaves: int = 1
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass
class Grown:
    """Summaries by id, and the root of each tree by the tree's id."""

    texts: dict[str, str] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    levels: dict[str, list[list[str]]] = field(default_factory=dict)

    def fingerprints(self) -> set[tuple[str, str]]:
        return {(summary, sha256(text)) for summary, text in self.texts.items()}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def cut(nodes: Sequence[Node], level: int) -> list[list[Node]]:
    """Cut one level into groups, its tail closed."""
    minimum, fanout, maximum = (4, 10, 24) if level == 0 else (3, 8, 16)
    found: list[list[Node]] = []
    open_group: list[Node] = []
    for at, node in enumerate(nodes):
        open_group.append(node)
        full = len(open_group) == maximum
        if level == 0 and sum(one.shape_tokens for one in open_group) >= 12_000:
            full = True
        chance = fanout
        if at + 1 < len(nodes) and nodes[at + 1].first_break != node.last_break:
            chance = fanout // 2
        hit = len(open_group) >= minimum and _number("boundary", node.last_leaf, level) % chance == 0
        if full or hit:
            found.append(open_group)
            open_group = []
    if open_group:
        found.append(open_group)
    return found


def summarise(
    tree_id: str, tree_kind: str, level: int, children: Sequence[Node], summariser: Summariser
) -> tuple[Node, str]:
    """Return the node above a group that stands on ``level``, and its text."""
    shape = _hex_id("shape", tree_id, level + 1, *[child.shape for child in children])
    shown = tuple(child.shown for child in children)
    total = sum(one.tokens for one in shown)
    budget = max(60, min(400, total // 5))
    titles = [one.title for one in shown if one.title]
    title: str | None = None
    if titles:
        first, last = titles[0].split(" … ")[0], titles[-1].split(" … ")[-1]
        title = first if first == last else f"{first} … {last}"
    if total <= budget:
        text = "\n\n".join(one.text for one in shown)
        tokens = count_tokens(text)
    else:
        said = summariser.summarise(SummaryRequest(shown, level + 1, tree_kind, budget))
        text, tokens, title = said.text, said.tokens, said.title or title
    firsts = [child.first_ms for child in children if child.first_ms is not None]
    lasts = [child.last_ms for child in children if child.last_ms is not None]
    first_ms, last_ms = (min(firsts) if firsts else None), (max(lasts) if lasts else None)
    node_id = _hex_id("summary", shape, summariser.signature)
    node = Node(
        node_id,
        shape,
        children[-1].last_leaf,
        0,
        children[0].first_break,
        children[-1].last_break,
        SummaryInput(node_id, text, tokens, title, time_ms=first_ms, last_time_ms=last_ms),
        sum(child.leaves for child in children),
        first_ms,
        last_ms,
    )
    return node, text


def grow_tree(
    grown: Grown, tree_id: str, tree_kind: str, leaves: Sequence[Node], summariser: Summariser
) -> Node | None:
    """Add a finished tree over these leaves, and return its root."""
    level, nodes = 0, list(leaves)
    grown.levels[tree_id] = [[node.node_id for node in nodes]]
    while len(nodes) > 1:
        above = []
        for group in cut(nodes, level):
            if len(group) == 1:
                above.append(group[0])
                continue
            node, text = summarise(tree_id, tree_kind, level, group, summariser)
            grown.texts[node.node_id] = text
            above.append(node)
        level, nodes = level + 1, above
        grown.levels[tree_id].append([node.node_id for node in nodes])
    if not nodes:
        return None
    grown.roots[tree_id] = nodes[0].node_id
    return nodes[0]


def grow_memory(connection: Connection, summariser: Summariser) -> Grown:
    """Return the finished trees over everything that a memory has admitted."""
    grown = Grown()
    sources: dict[str, list[tuple[bytes, Node]]] = {}
    for source_id, item_key, kind, sort_key, item_seq in connection.all(
        "SELECT source_id, item_key, source_kind, sort_key, item_seq FROM mem_tree_items"
    ):
        chunks = connection.all(
            """
            SELECT chunk_id, order_key, break_key, tokens, text, title, heading_path, author, time_ms
              FROM mem_tree_chunks
             WHERE item_seq = ? AND lifecycle NOT IN ('pending_extraction', 'dropped')
             ORDER BY order_key
            """,
            (item_seq,),
        )
        leaves = [(row[1].to_bytes(8, "big"), _leaf(row)) for row in chunks]
        if kind != "document":
            sources.setdefault(source_id, []).extend((sort_key + order, node) for order, node in leaves)
            continue
        tree_id = f"document:{source_id}:{item_key}@1"
        root = grow_tree(grown, tree_id, "document", [node for _, node in leaves], summariser)
        if root is not None:
            sources.setdefault(source_id, []).append((sort_key, _as_folder_leaf(root, tree_id, item_key)))
    for source_id, placed in sources.items():
        placed.sort(key=lambda pair: pair[0])
        grow_tree(grown, f"source:{source_id}@1", "source", [node for _, node in placed], summariser)
    return grown


def _leaf(row: Sequence[Any]) -> Node:
    chunk_id, _, break_key, tokens, text, title, heading, author, time_ms = row
    shown = SummaryInput(chunk_id, text, tokens, title, heading, author, time_ms)
    return Node(chunk_id, chunk_id, chunk_id, tokens, break_key, break_key, shown, 1, time_ms, time_ms)


def _as_folder_leaf(root: Node, tree_id: str, item_key: str) -> Node:
    """A document in its folder: its edits and its summaries' lengths move no boundary, a new folder is a break."""
    folder = _number("folder", item_key.rpartition("/")[0])
    return Node(
        root.node_id, root.shape, tree_id, 0, folder, folder, root.shown, root.leaves, root.first_ms, root.last_ms
    )
