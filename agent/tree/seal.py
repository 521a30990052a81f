"""``seal(tree, level)``: bring one level of one tree closer to its shape (lanes 4 and 6 of the pipeline).

Read the places that changed, make the texts outside any transaction, write all of it in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.ids import summary_id
from agent.queue.types import NOTHING_TO_DO, NewJob, Plan, StalePlan
from agent.states import TreeKind
from agent.tree.apply import Prepared, apply_groups, drop_lost
from agent.tree.degraded import is_due
from agent.tree.due import finish_flush, next_due_level
from agent.tree.regroup import Regrouping, Wanted, regroup
from agent.tree.request import (
    build_request,
    calls_model,
    input_hash,
    load_children,
    make_summary,
    passes_through,
)
from agent.tree.store import Tree, find_tree, summary_head

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.protocol import Summariser
    from agent.queue.registry import JobContext
    from agent.queue.types import SealPayload

SECONDS_A_RUN = 2.0
GONE = "gone"


def above_gap_ms(intent: Intent) -> int:
    """Return how much longer nodes above the leaves wait for a flush than leaves do (ms)."""
    return round((intent.tree.flush_above_seconds - intent.tree.flush_leaves_seconds) * 1000)


def plan_seal(
    context: JobContext, payload: SealPayload, summariser: Summariser, built_in: Summariser | None = None
) -> Plan:
    """Return the plan that brings a level closer to its shape; it follows up while there is more to do.

    Makes at most 64 groups or for 2 s, of these at most one through a summariser that calls a model (it says so by an
    attribute ``calls_model``), and that one first: what needs no model is written before one is asked, so that a call
    that is put off takes nothing with it. Tails are closed by ``built_in`` (by default the same summariser). Blocks on
    the model; raises what the summariser and the context's check raise.
    """
    connection = context.connection
    gap = above_gap_ms(context.intent)
    with connection.snapshot():
        tree = find_tree(connection, payload.tree_id)
        if tree is None or tree.kind == TreeKind.DOCUMENT:
            return NOTHING_TO_DO
        found = regroup(connection, tree, payload.level, above_gap_ms=gap, check=context.check)
    prepared, more = _prepare(context, tree, payload.level, found, summariser, built_in or summariser)

    def writes(settling: Connection) -> list[NewJob]:
        now = context.clock.now_ms()
        applied = apply_groups(settling, tree, payload.level, prepared, found.empty, now)
        lost = sum(drop_lost(settling, one.wanted.rows) for one in prepared if one.summary_id == GONE)
        if prepared and not (applied.written or lost or found.empty):
            raise StalePlan(f"{tree.kind} tree, level {payload.level}")
        finish_flush(settling, tree.tree_seq, now)
        if more or applied.skipped:
            return [NewJob.seal(tree.tree_id, payload.level)]
        above = next_due_level(settling, tree.tree_seq, payload.level + 1, gap)
        return [] if above is None else [NewJob.seal(tree.tree_id, above)]

    return Plan(writes)


def _prepare(
    context: JobContext,
    tree: Tree,
    level: int,
    found: Regrouping,
    summariser: Summariser,
    built_in: Summariser,
) -> tuple[Sequence[Prepared], bool]:
    """Make the texts that are missing; return the groups in order and whether some are left for another run."""
    prepared: list[Prepared] = []
    until = context.clock.monotonic() + SECONDS_A_RUN
    for wanted in found.wanted:
        context.check()
        if context.clock.monotonic() > until and prepared:
            return prepared, True
        if wanted.kind != "summary":
            prepared.append(Prepared(wanted))
            continue
        if wanted.adopt is not None and (not wanted.final or wanted.adopt.signature == summariser.signature):
            prepared.append(Prepared(wanted, wanted.adopt.summary_id))
            continue
        with_model = not prepared
        one = _make(context, tree, level, wanted, summariser if wanted.final else built_in, built_in, with_model)
        if one is None:
            return prepared, True
        prepared.append(one)
    return prepared, found.more


def _make(
    context: JobContext,
    tree: Tree,
    level: int,
    wanted: Wanted,
    summariser: Summariser,
    built_in: Summariser,
    with_model: bool,
) -> Prepared | None:
    """Return one group with its summary, ``None`` where it needs a model and it is not the first of this run."""
    children = load_children(context.connection, wanted.rows)
    if children is None:
        # Gone since it was read: its rows changed too, which the settle transaction sees.
        return Prepared(wanted, GONE)
    request = build_request(children, level + 1, tree.kind, tree.source_id)
    passing = passes_through(request)
    signature = built_in.signature if passing else summariser.signature
    wanted_id = summary_id(wanted.shape_id, signature)
    read = tuple(child.number for child in children)
    head = summary_head(context.connection, wanted_id)
    model = not passing and calls_model(summariser)
    again = head is not None and model and is_due(head.degraded, head.created_at_ms, context.clock.now_ms())
    if head is not None and head.input_hash == input_hash(request) and not again:
        # A child left and came back as it was.
        return Prepared(wanted, wanted_id, None, read)
    if model and not with_model:
        return None
    made = make_summary(
        summariser, request, children, summary_id=wanted_id, shape_id=wanted.shape_id, signature=signature
    )
    return Prepared(wanted, wanted_id, made, read)
