"""From the children of a group to the text above them: what a summariser is asked, and what needs none.

A summary's text depends on its children alone, whole bodies and never previews, so the same children give the same
text whenever and wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.ids import content_id
from agent.models.protocol import SummaryInput, SummaryRequest, SummaryText, budget_tokens
from agent.states import NodeKind
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.models.protocol import Extractor, Summariser
    from agent.tree.store import NodeRow

BETWEEN = "\n\n"
"""What stands between the children of a group that passes through."""

FROM_TO = " … "


@dataclass(frozen=True)
class Child:
    """One child with all that the summary above it is made from. Times are UTC ms; ``leaves`` counts chunks.

    ``number`` is its row's: no row is ever changed in what is read here, another text comes with another number.
    """

    input: SummaryInput
    leaves: int
    first_time_ms: int | None
    last_time_ms: int | None
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class NewSummary:
    """A summary that was made and is not stored yet. ``level`` is the one it stands on."""

    summary_id: str
    shape_id: str
    level: int
    title: str | None
    text: str
    tokens: int
    leaves: int
    first_time_ms: int | None
    last_time_ms: int | None
    signature: str
    degraded: bool
    input_hash: str


def load_child(connection: Connection, node_kind: str, node_id: str) -> Child | None:
    """Return a chunk or a summary as a child; ``None`` where it is gone by now."""
    if node_kind == NodeKind.LEAF:
        row = connection.one(
            """
            SELECT seq, text, tokens, title, heading_path, author, time_ms
              FROM mem_tree_chunks
             WHERE chunk_id = ?
            """,
            (node_id,),
        )
        if row is None:
            return None
        number, text, tokens, title, heading_path, author, time_ms = row
        asked = SummaryInput(node_id, text, tokens, title, heading_path, author, time_ms)
        return Child(asked, 1, time_ms, time_ms, number)
    row = connection.one(
        """
        SELECT seq, text, tokens, title, leaves, first_time_ms, last_time_ms
          FROM mem_tree_summaries
         WHERE summary_id = ?
        """,
        (node_id,),
    )
    if row is None:
        return None
    number, text, tokens, title, leaves, first_ms, last_ms = row
    asked = SummaryInput(node_id, text, tokens, title, time_ms=first_ms, last_time_ms=last_ms)
    return Child(asked, leaves, first_ms, last_ms, number)


def load_children(connection: Connection, rows: Sequence[NodeRow]) -> list[Child] | None:
    """Return the children of a group in order; ``None`` where one is gone by now."""
    found = []
    for row in rows:
        child = load_child(connection, row.node_kind, row.node_id)
        if child is None:
            return None
        found.append(child)
    return found


def as_child(made: NewSummary) -> Child:
    """Return a summary that is not stored yet as a child of the next one."""
    asked = SummaryInput(
        made.summary_id,
        made.text,
        made.tokens,
        made.title,
        time_ms=made.first_time_ms,
        last_time_ms=made.last_time_ms,
    )
    return Child(asked, made.leaves, made.first_time_ms, made.last_time_ms)


def build_request(children: Sequence[Child], level: int, tree_kind: str, source_id: str) -> SummaryRequest:
    """Return what a summariser is asked for a summary that is to stand on ``level`` of a tree of that source."""
    inputs = tuple(child.input for child in children)
    budget = budget_tokens(sum(asked.tokens for asked in inputs))
    return SummaryRequest(inputs, level, tree_kind, budget, (source_id,))


def input_hash(request: SummaryRequest) -> str:
    """Return the hash of all that a summary's text is made from.

    The same children may say something else later: a title, a heading, an author or a date of theirs changed, or the
    text of one that is a summary itself.
    """
    parts: list[str | int] = [request.tree_kind, request.level]
    for asked in request.children:
        parts += [asked.node_id, asked.text, asked.tokens]
        for maybe in (asked.title, asked.heading_path, asked.author, asked.time_ms, asked.last_time_ms):
            parts.append("" if maybe is None else f"={maybe}")
    return content_id(*parts)


def passes_through(request: SummaryRequest) -> bool:
    """Return whether the input is no longer than its summary may be: it stands as it is, no summariser is asked."""
    return sum(asked.tokens for asked in request.children) <= request.budget_tokens


def as_it_is(request: SummaryRequest) -> SummaryText:
    """Return the children's texts in order, unchanged."""
    text = BETWEEN.join(asked.text for asked in request.children)
    return SummaryText(text, group_title(request.children), count_tokens(text))


def group_title(children: Sequence[SummaryInput]) -> str | None:
    """Return the one title that the children share, else from the first to the last; ``None`` if none has one."""
    titles = [asked.title for asked in children if asked.title]
    if not titles:
        return None
    first = titles[0].split(FROM_TO)[0]
    last = titles[-1].split(FROM_TO)[-1]
    return first if first == last else f"{first}{FROM_TO}{last}"


def calls_model(part: Summariser | Extractor) -> bool:
    """Return whether this part of a profile blocks on a model: one such call at most is made in a handler's run."""
    return bool(getattr(part, "calls_model", False))


def make_summary(
    summariser: Summariser,
    request: SummaryRequest,
    children: Sequence[Child],
    *,
    summary_id: str,
    shape_id: str,
    signature: str,
) -> NewSummary:
    """Return the summary of a group. May block on a model, once; raises what the summariser raises."""
    said = as_it_is(request) if passes_through(request) else summariser.summarise(request)
    firsts = [child.first_time_ms for child in children if child.first_time_ms is not None]
    lasts = [child.last_time_ms for child in children if child.last_time_ms is not None]
    return NewSummary(
        summary_id,
        shape_id,
        request.level,
        said.title or group_title(request.children),
        said.text,
        said.tokens,
        sum(child.leaves for child in children),
        min(firsts) if firsts else None,
        max(lasts) if lasts else None,
        signature,
        said.degraded,
        input_hash(request),
    )
