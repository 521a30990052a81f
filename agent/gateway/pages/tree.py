"""The tree: from the root of a source, summary by summary, down to the lines of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.gateway.pages.rendering import done, on_place, segment, show_page
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home
    from agent.recall.show import Node

PLACE = "/tree"
TOPS = 60
CHILDREN = 200
BEGINNING = 220
NEAR = 500
AROUND = 1
"""How many passages before and after one are shown with it."""


@on_place(PLACE)
async def show_trees(request: Request) -> Response:
    """Show the sources, each with how much has grown of it."""

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.memory import outlines

        return {"outlines": outlines(home, depth=1, breadth=1)}

    return await show_page(request, "trees.html", load, place=PLACE)


@on_place(PLACE)
async def show_tree(request: Request) -> Response:
    """Show what stands highest in one source's tree: its root, or while it grows all that has no summary above."""
    source_id = request.path_params["source_id"]

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.memory import outlines, show

        (outline,) = outlines(home, source_id, depth=1, breadth=TOPS)
        tops = tuple(show(home, top.node_id, depth=0).node for top in outline.tops)
        return {"outline": outline, "tops": tops, "is_open": len(tops) + outline.more > 1, "beginning": beginning}

    return await show_page(request, "tree.html", load, place=PLACE)


@on_place(PLACE)
async def show_node(request: Request) -> Response:
    """Show one node: its text, what is above and below it, where it comes from; a passage between its neighbours."""
    node_id = request.path_params["node_id"]

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.memory import place_words, show

        shown = show(home, node_id)
        before: tuple[Node, ...] = ()
        after: tuple[Node, ...] = ()
        if shown.node.kind == "leaf" and shown.parents:
            before, after = _neighbours(home, shown.parents[0].node_id, shown.node.node_id)
        return {
            "shown": shown,
            "children": tuple(branch.node for branch in shown.children[:CHILDREN]),
            "left_out": shown.left_out + max(0, len(shown.children) - CHILDREN),
            "before": tuple(nearest(each.text, end=True) for each in before),
            "after": tuple(nearest(each.text, end=False) for each in after),
            "where": place_words(shown.origin.path, shown.origin.locator),
            "beginning": beginning,
            "is_named": home.intent.source(shown.origin.source_id) is not None,
        }

    return await show_page(request, "node.html", load, place=PLACE)


@on_place(PLACE)
async def open_node(request: Request) -> Response:
    """Have the desktop open the file that a node comes from. Only nodes can be named, never a path."""
    from agent.actions.opening_source import open_source

    node_id = request.path_params["node_id"]
    opened = await with_home(request, lambda home: open_source(home, node_id))
    what = "the folder of this passage's file was opened" if opened.is_folder else "the file was opened"
    return await done(request, f"/node/{segment(node_id)}", f"{what}: {opened.path}")


def _neighbours(home: Home, parent_id: str, node_id: str) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    from agent.actions.memory import show

    siblings = [branch.node for branch in show(home, parent_id).children]
    at = next((index for index, each in enumerate(siblings) if each.node_id == node_id), None)
    if at is None:
        return (), ()
    near = [each if each.kind == "leaf" else None for each in siblings]
    before = tuple(each for each in near[max(0, at - AROUND) : at] if each is not None)
    after = tuple(each for each in near[at + 1 : at + 1 + AROUND] if each is not None)
    return before, after


def beginning(text: str) -> str:
    """Return how a text begins, in one line."""
    line = " ".join(text[: 4 * BEGINNING].split())
    return line if len(line) <= BEGINNING else f"{line[:BEGINNING].rsplit(' ', 1)[0]} …"


def nearest(text: str, *, end: bool) -> str:
    """Return what of a neighbour stands next to a passage: the end of the one before it, the beginning of the next."""
    if len(text) <= NEAR:
        return text
    return f"… {text[-NEAR:].partition(' ')[2]}" if end else f"{text[:NEAR].rpartition(' ')[0]} …"


ROUTES = [
    Route("/tree", show_trees, methods=["GET"]),
    Route("/tree/{source_id}", show_tree, methods=["GET"]),
    Route("/node/{node_id}", show_node, methods=["GET"]),
    Route("/node/{node_id}/open", open_node, methods=["POST"]),
]
