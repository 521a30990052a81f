"""Commands about what is remembered: search, show, tree."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.command import SapwoodCommand, output_of


@click.command(
    cls=SapwoodCommand,
    short_help="Find something again.",
    examples="""
    sapwood search spare key of the greenhouse
    sapwood search 'price of the glass' --source mail -k 3
    sapwood search hydrant --since 2025-06-01 --until 2025-06-30
    sapwood search budget --kind summary
    """,
)
@click.argument("query", nargs=-1, required=True)
@click.option("-k", "limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many hits.")
@click.option("--source", help="Only in this source.")
@click.option("--kind", type=click.Choice(["leaf", "summary"]), help="Only passages, or only summaries.")
@click.option("--since", metavar="WHEN", help="Not older than a date, or a span ago such as 30d.")
@click.option("--until", metavar="WHEN", help="Not newer than a date.")
@click.option("--entity", help="Only what mentions this person, place, address, ...")
@click.pass_context
def search(context: click.Context, /, query: tuple[str, ...], limit: int, **filters: Any) -> None:
    """Search passages and summaries, by word and by meaning. Each hit says where it stands in which file."""
    from agent.actions.home import open_home
    from agent.actions.memory import search as find
    from agent.cli.nodes import print_hits
    from agent.states import Searched

    output = output_of(context)
    words = " ".join(query)
    with open_home() as home:
        found = find(home, words, limit=limit, **filters)
        if output.as_json:
            output.document(found)
            return
        print_hits(output, home, found, words)
        if found.note is not None:
            output.note(f"searched by words alone: {found.note}")
        if found.searched == Searched.FULL:
            if not found.hits:
                output.line("nothing found")
            if not home.intent.sources:
                output.note("the memory is empty; name something to read with `sapwood add PATH`")
            return
        if found.searched == Searched.NOT_YET:
            output.note("not searched yet")
        else:
            much = "searched in part" if found.hits else "nothing found so far"
            output.note(f"{much}: some of the memory is still growing")
        if home.notice:
            output.note(home.notice)


@click.command(
    cls=SapwoodCommand,
    short_help="One node: its text, what is around it, its origin.",
    examples="""
    sapwood show 3f2a9c
    sapwood show 3f2a9c --depth 2
    """,
)
@click.argument("node")
@click.option("--depth", type=click.IntRange(0, 16), default=1, show_default=True, help="How far down.")
@click.pass_context
def show(context: click.Context, node: str, depth: int) -> None:
    """Show a passage or a summary with its children, its parents up to the root, and its origin.

    NODE is an id that `search` or `tree` printed, or its first characters (six or more).
    """
    from agent.actions.home import open_home
    from agent.actions.memory import show as look
    from agent.cli.nodes import print_node

    output = output_of(context)
    with open_home() as home:
        found = look(home, node, depth=depth)
    if output.as_json:
        output.document(found)
    else:
        print_node(output, found)


@click.command(
    cls=SapwoodCommand,
    short_help="The trees of the memory.",
    examples="""
    sapwood tree
    sapwood tree notes --depth 5
    """,
)
@click.argument("source", required=False)
@click.option("--depth", type=click.IntRange(1, 16), default=3, show_default=True, help="How far down.")
@click.pass_context
def tree(context: click.Context, source: str | None, depth: int) -> None:
    """Show the trees: one for each source; the documents of a folder have trees of their own below it."""
    from agent.actions.home import open_home
    from agent.actions.memory import outlines, trees
    from agent.cli.nodes import print_outlines

    output = output_of(context)
    with open_home() as home:
        if output.as_json:
            output.document(trees(home, source))
            return
        found = outlines(home, source, depth=depth)
        print_outlines(output, found)
        if not found:
            output.line("no sources yet; name one with `sapwood add PATH`")
