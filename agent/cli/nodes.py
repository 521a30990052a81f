"""How nodes of the memory are printed: hits with where they stand, one node, a tree, a path from leaf to root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.cli.output import clean, fitted, one_line

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.actions.memory import SourceOutline
    from agent.cli.output import Output
    from agent.recall.search import Hit, SearchResult
    from agent.recall.show import Branch, Shown
    from agent.recall.trees import Outline

SHORT_ID = 8
SNIPPET_LINES = 3
CHILDREN_SHOWN = 24


def print_hits(output: Output, home: Home, found: SearchResult, query: str) -> None:
    """Print each hit: what it is called, the piece that answers, where it stands."""
    from agent.actions.memory import place_words, snippet

    for number, hit in enumerate(found.hits, start=1):
        if number > 1:
            output.line()
        output.line(f"{number:2}  {fitted(hit.title or hit.source_id, output.width - 8)}", "bold")
        piece = snippet(home, hit.text, query, SNIPPET_LINES * (output.width - 6))
        before = "… " if piece.cut_before else ""
        text = f"{before}{piece.text}{' …' if piece.cut_after else ''}"
        # Where control characters were taken out of it the places of the words are no longer known.
        words = piece.spans if clean(piece.text) == piece.text else ()
        output.line(
            fitted(text, SNIPPET_LINES * (output.width - 5)),
            indent=4,
            bold=[(len(before) + start, len(before) + end) for start, end in words],
        )
        place = place_words(hit.path, hit.locator)
        if place:
            output.line(place, "dim", indent=4)
        output.line(origin_words(hit), "dim", indent=4)


def origin_words(hit: Hit) -> str:
    """Return what a hit is and where it comes from, beside its place: source, author, day, id."""
    what = f"summary, level {hit.level}" if hit.kind == "summary" else None
    parts = [f"in {hit.source_id}", what, hit.author, _day(hit.time), hit.node_id[:SHORT_ID]]
    return " · ".join(one_line(part) for part in parts if part)


def print_node(output: Output, found: Shown) -> None:
    """Print one node whole, with what is above and below it."""
    from agent.actions.memory import place_words

    node, origin = found.node, found.origin
    what = "passage" if node.kind == "leaf" else f"summary of {node.leaves} passages, level {node.level}"
    output.heading(fitted(node.title or node.node_id, output.width))
    output.facts(
        [
            ("id", node.node_id),
            ("is", what + ("" if node.lifecycle is None else f", {node.lifecycle}")),
            ("from", place_words(origin.path, origin.locator) or origin.source_name or origin.source_id),
            *((name, value) for name, value in _about(found) if value),
        ]
    )
    output.line()
    output.line(node.text)
    if found.parents:
        output.line()
        output.heading("Above it")
        for parent in found.parents:
            output.line(
                f"{parent.node_id[:SHORT_ID]}  level {parent.level}  {fitted(parent.title or '', output.width - 26)}",
                indent=2,
            )
    if found.children:
        output.line()
        output.heading("Below it")
        for child in found.children[:CHILDREN_SHOWN]:
            _print_branch(output, child, 2)
        left = found.left_out + max(0, len(found.children) - CHILDREN_SHOWN)
        if left:
            output.line(f"… and {left} more", indent=2)


def _about(found: Shown) -> list[tuple[str, str | None]]:
    node, origin = found.node, found.origin
    time = node.time if node.last_time in (None, node.time) else f"{node.time} to {node.last_time}"
    return [
        ("source", origin.source_id),
        ("section", origin.heading_path),
        ("author", origin.author),
        ("time", time),
        ("reference", origin.reference),
        ("made by", node.signature),
    ]


def _print_branch(output: Output, branch: Branch, indent: int) -> None:
    node = branch.node
    room = max(20, output.width - indent - SHORT_ID - 4)
    output.line(f"{node.node_id[:SHORT_ID]}  {fitted(node.title or node.text, room)}", indent=indent)
    for child in branch.children[:CHILDREN_SHOWN]:
        _print_branch(output, child, indent + 2)


def print_outlines(output: Output, found: Sequence[SourceOutline]) -> None:
    """Print the top of each source's tree."""
    for number, source in enumerate(found):
        if number:
            output.line()
        counts = (
            _counted(source.items, "item", "items"),
            _counted(source.chunks, "chunk", "chunks"),
            _counted(source.summaries, "summary", "summaries"),
        )
        output.heading(f"{source.source_id}  ({source.kind}: {', '.join(counts)})")
        if not source.tops:
            output.line("nothing has grown yet", "dim", indent=2)
        _print_tree(output, source.tops, source.more, "")


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _print_tree(output: Output, nodes: Sequence[Outline], more: int, stem: str) -> None:
    for at, node in enumerate(nodes):
        last = at == len(nodes) - 1 and not more
        output.verbatim(f"{stem}{'└─' if last else '├─'} {_label(node, output.width - len(stem) - 3)}")
        _print_tree(output, node.children, node.more, stem + ("   " if last else "│  "))
    if more:
        output.verbatim(f"{stem}└─ … {more} more")


def _label(node: Outline, room: int) -> str:
    mark = "▪" if node.kind == "leaf" else "◆"
    size = f" ({node.leaves})" if node.leaves else ""
    tail = f"{size}  {node.node_id[:SHORT_ID]}"
    return f"{mark} {fitted(node.label, max(10, room - len(tail) - 2))}{tail}"


def _day(time: str | None) -> str | None:
    return None if time is None else time[:10]
