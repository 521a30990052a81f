"""What ``sapwood demo`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.nodes import print_hits, print_outlines
from agent.cli.output import fitted, one_line

if TYPE_CHECKING:
    from agent.actions.demo import DemoResult, Grown
    from agent.cli.output import Output


def print_demo(output: Output, grown: Grown, result: DemoResult) -> None:
    """Print the trees, one path from leaf to root, two searches, and how to go on."""
    passages = sum(outline.chunks for outline in result.outlines)
    summaries = sum(outline.summaries for outline in result.outlines)
    output.line(f"grown in {result.seconds} s: {passages} passages, {summaries} summaries")
    _rule(output, "The trees: documents and passages below, summaries above")
    print_outlines(output, result.outlines)
    _rule(output, "One path, from a leaf to the root")
    print_path(output, result)
    for question, found in result.searches.items():
        _rule(output, f"sapwood search {question}")
        print_hits(output, grown.home, found, question)


def print_path(output: Output, result: DemoResult) -> None:
    """Print the nodes from a leaf up, each with how it begins."""
    from agent.actions.memory import place_words

    for step, shown in enumerate(result.path):
        node = shown.node
        what = "passage" if node.kind == "leaf" else f"summary of {node.leaves} passages"
        if step:
            output.line("↑", indent=2 * step)
        title = fitted(node.title or shown.origin.source_id, output.width - 2 * step - len(what) - 4)
        output.line(f"{title} ({what})", "bold", indent=2 * step)
        output.line(one_line(node.text, 2 * (output.width - 2 * step - 4)), indent=2 * step)
        if node.kind == "leaf":
            output.line(place_words(shown.origin.path, shown.origin.locator), "dim", indent=2 * step)


def print_farewell(output: Output) -> None:
    """Say that nothing is left, and how to go on with one's own."""
    output.line()
    output.heading("Now with your own")
    output.line("sapwood add ~/Notes         name a folder, a mailbox (mbox, eml) or a chat log", indent=2)
    output.line("sapwood run                 grow it; Ctrl-C ends it", indent=2)
    output.line("sapwood search some words   in a second terminal, at any time", indent=2)
    output.line("The demo's home is removed; nothing of it is left.", "dim")


def _rule(output: Output, title: str) -> None:
    output.line()
    output.heading(title)
    output.line()
