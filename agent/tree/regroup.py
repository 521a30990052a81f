"""Where a level is not as its shape wants it: the reading half of a seal.

Only the places that changed are walked: from the group before a change until the boundaries meet the old ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.ids import shape_id
from agent.tree.shape import ends_group, groups
from agent.tree.store import (
    ROOT,
    NodeRow,
    SummaryHead,
    Tree,
    first_child_key,
    next_waiting,
    row_before,
    rows_between,
    stale_at,
    summary_head,
    walk_level,
)
from agent.tree.waiting import group_waits

if TYPE_CHECKING:
    from agent.db import Connection

GROUPS_A_RUN = 64
STALE_A_RUN = 1_000
ROWS_A_RUN = 8_192

WantedKind = Literal["summary", "promote", "root", "dissolve"]


@dataclass(frozen=True)
class Wanted:
    """What the shape wants of these neighbours and the rows do not show yet.

    ``final``: the group has ended by itself; else it is a tail that is closed for now. ``adopt`` is a live summary of
    exactly these children. ``dissolve``: no closed group holds them, they go back to the buffer.
    """

    kind: WantedKind
    rows: tuple[NodeRow, ...]
    final: bool = True
    shape_id: str = ""
    adopt: SummaryHead | None = None


@dataclass(frozen=True)
class Regrouping:
    """What to do on a level. ``empty``: summaries whose children are all gone. ``more``: a limit was reached."""

    wanted: tuple[Wanted, ...]
    empty: tuple[str, ...]
    more: bool

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do now (what waits for something pending is not)."""
        return bool(self.wanted or self.empty)


def regroup(
    connection: Connection,
    tree: Tree,
    level: int,
    *,
    above_gap_ms: int,
    limit: int = GROUPS_A_RUN,
    check: Callable[[], None] | None = None,
) -> Regrouping:
    """Return what brings a level closer to its shape, at most ``limit`` groups; call it inside a snapshot.

    ``above_gap_ms`` is how much longer nodes above the leaves wait in the buffer than leaves do. ``check`` is called
    in the loop and may raise.
    """
    return _Walk(connection, tree, level, above_gap_ms, limit, check).run()


@dataclass
class _Walk:
    connection: Connection
    tree: Tree
    level: int
    above_gap_ms: int
    limit: int
    check: Callable[[], None] | None
    wanted: list[Wanted] = field(default_factory=list)
    more: bool = False
    walked: int = 0
    held_up: bool = False
    _heads: dict[str, SummaryHead | None] = field(default_factory=dict)

    def run(self) -> Regrouping:
        stale = stale_at(self.connection, self.tree.tree_seq, self.level + 1, STALE_A_RUN)
        empty = [
            summary_id
            for _, summary_id in stale
            if first_child_key(self.connection, self.tree.tree_seq, self.level, summary_id) is None
        ]
        self.more = len(stale) == STALE_A_RUN
        self.stale_keys = [key for key, _ in stale]
        done: bytes | None = b""
        while done is not None:
            change = self._change_after(done)
            if change is None:
                break
            done = self._window(change)
        return Regrouping(tuple(self.wanted), tuple(empty), self.more and bool(self.wanted or empty))

    def _change_after(self, key: bytes) -> bytes | None:
        waiting = next_waiting(self.connection, self.tree.tree_seq, self.level, key)
        stale = next((stale for stale in self.stale_keys if stale > key), None)
        if waiting is None or stale is None:
            return waiting if stale is None else stale
        return min(waiting, stale)

    def _window(self, change: bytes) -> bytes | None:
        """Walk one window; return the key up to which the level is settled, ``None`` at the end of it all."""
        seq = self.tree.tree_seq
        start = b""
        self.held_up = False
        # What comes after a node decides whether it ends its group, so the group before the change is walked too.
        previous = row_before(self.connection, seq, self.level, change)
        if previous is not None and previous.parent_id != ROOT:
            start = previous.sort_key
            if previous.parent_id is not None and not previous.is_promoted:
                start = first_child_key(self.connection, seq, self.level, previous.parent_id) or start
        before = row_before(self.connection, seq, self.level, start) if start else None
        return self._walk(walk_level(self.connection, seq, self.level, start), before)

    def _walk(self, rows: Iterator[NodeRow], before: NodeRow | None) -> bytes | None:
        group: list[NodeRow] = []
        tokens = 0
        parent: str | None = None
        row = next(rows, None)
        while row is not None:
            self.walked += 1
            if self.check is not None and self.walked % 64 == 0:
                self.check()
            following = next(rows, None)
            group.append(row)
            tokens += row.tokens
            parent = parent if row.parent_id is None else row.parent_id
            after = None if following is None else following.first_break
            ended = ends_group(row, after, self.level, len(group), tokens)
            alone = before is None and following is None and len(group) == 1
            if row.provisional or alone or (following is None and not ended):
                rest = [] if following is None else [following, *rows]
                self._tail([*group, *rest], before)
                return None
            if ended:
                self._consider(group, before, final=True)
                if len(self.wanted) >= self.limit or self.walked >= ROWS_A_RUN:
                    self.more = True
                    return None
                if following is not None and self._meets_old_boundary(row, following, parent):
                    return row.sort_key
                before, group, tokens = row, [], 0
            row = following
        return None

    def _meets_old_boundary(self, row: NodeRow, following: NodeRow, parent: str | None) -> bool:
        above = following.parent_id
        if above is None or above in (ROOT, parent):
            return False
        if not following.is_promoted:
            head = self._head(above)
            if head is None or head.stale:
                return False
        change = self._change_after(row.sort_key)
        return change is None or change > following.sort_key

    def _consider(self, rows: Sequence[NodeRow], before: NodeRow | None, final: bool) -> None:
        """Note a group of the shape unless it stands already or waits for something."""
        if len(rows) == 1:
            if not self._stands_promoted(rows[0], final) and not self._waits(before, rows):
                self.wanted.append(Wanted("promote", tuple(rows), final))
            return
        shape = shape_id(self.tree.tree_id, self.level + 1, [row.shape_id for row in rows])
        head = self._common_parent(rows)
        if head is not None and (head.shape_id != shape or head.stale):
            head = None
        if head is not None and head.provisional != final:
            return
        if not self._waits(before, rows):
            self.wanted.append(Wanted("summary", tuple(rows), final, shape, head))

    def _tail(self, rows: Sequence[NodeRow], before: NodeRow | None) -> None:
        """Decide on what stands from the first node that may still change to the end of the level."""
        if before is None and len(rows) == 1:
            self._root(rows[0])
            return
        unsure = False
        for group in groups(rows, self.level, closed=True):
            members = rows[group.start : group.end]
            # What follows a node that is to be replaced is not decided for good.
            unsure = unsure or not group.final or any(row.provisional for row in members)
            if unsure and not self._closing(rows[group.start :]):
                self._dissolve(rows[group.start :], before)
                return
            self._consider(members, before, final=not unsure)
            before = members[-1]
            if len(self.wanted) >= self.limit:
                self.more = self.more or group.end < len(rows)
                return

    def _closing(self, tail: Sequence[NodeRow]) -> bool:
        """Return whether a tail is to be closed now although its group has not ended."""
        cutoff = self.tree.flush_before_ms
        if cutoff is not None:
            cutoff -= self.above_gap_ms if self.level else 0
            if any(row.parent_id is None and row.added_at_ms < cutoff for row in tail):
                return True
        if not self.tree.had_root:
            return False
        # A tree that was finished once keeps its root and loses no summary for an hour because a leaf went.
        return self.level > 0 or any(self._loses_its_group(row) for row in tail)

    def _loses_its_group(self, row: NodeRow) -> bool:
        if row.parent_id is None or row.parent_id == ROOT or row.is_promoted:
            return False
        head = self._head(row.parent_id)
        return head is None or head.stale or not head.provisional

    def _dissolve(self, tail: Sequence[NodeRow], before: NodeRow | None) -> None:
        lost = tuple(row for row in tail if self._loses_its_group(row))
        if lost and not self._waits(before, tail):
            self.wanted.append(Wanted("dissolve", lost, final=False))

    def _root(self, row: NodeRow) -> None:
        if row.parent_id == ROOT and self.tree.root_id == row.node_id:
            return
        below = self.level > 0 and any(
            next_waiting(self.connection, self.tree.tree_seq, level, b"") is not None for level in range(self.level)
        )
        if (self._closing([row]) or (self.level > 0 and not below)) and not self._waits(None, [row]):
            self.wanted.append(Wanted("root", (row,), final=not row.provisional))
        elif not self._closing([row]):
            self._dissolve([row], None)

    def _stands_promoted(self, row: NodeRow, final: bool) -> bool:
        if not row.is_promoted:
            return False
        above = rows_between(self.connection, self.tree.tree_seq, self.level + 1, row.sort_key, row.sort_key)
        return any(one.node_id == row.node_id and one.provisional != final for one in above)

    def _common_parent(self, rows: Sequence[NodeRow]) -> SummaryHead | None:
        above = rows[0].parent_id
        if not above or any(row.parent_id != above for row in rows):
            return None
        return self._head(above)

    def _head(self, summary_id: str) -> SummaryHead | None:
        if summary_id not in self._heads:
            self._heads[summary_id] = summary_head(self.connection, summary_id)
        return self._heads[summary_id]

    def _waits(self, before: NodeRow | None, rows: Sequence[NodeRow]) -> bool:
        # What is pending may move the boundaries behind it back to where they were: a group that stands there, under
        # whatever summary, is not made again before that is known.
        if self.held_up and any(row.parent_id for row in rows):
            return True
        waits = group_waits(self.connection, self.tree, self.level, before, rows)
        self.held_up = self.held_up or waits
        return waits
