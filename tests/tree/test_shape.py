"""Properties of the shape for any leaves."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tree.shape import TOKEN_LIMIT, ShapeNode, ends_group, groups, sizes, whole_shape


@st.composite
def leaf_lists(draw: st.DrawFn, max_size: int = 160) -> list[ShapeNode]:
    seed = draw(st.integers(0, 10_000))
    count = draw(st.integers(0, max_size))
    breaks = draw(st.integers(1, 9))
    tokens = draw(st.sampled_from([1, 90, 450, 1_200, 13_000]))
    return [_leaf(f"{seed}-{at}", tokens if at % 3 else 5, at // breaks) for at in range(count)]


def _leaf(name: str, tokens: int = 90, broken: int = 0) -> ShapeNode:
    return ShapeNode(name, name, tokens, broken, broken)


@given(leaf_lists(), st.integers(0, 3))
def test_closed_groups_cover_each_node_once_in_order(nodes: list[ShapeNode], level: int) -> None:
    found = groups(nodes, level, closed=True)
    assert [at for group in found for at in range(group.start, group.end)] == list(range(len(nodes)))


@given(leaf_lists(), st.integers(0, 3))
def test_groups_keep_their_sizes(nodes: list[ShapeNode], level: int) -> None:
    size = sizes(level)
    for group in groups(nodes, level, closed=True):
        count = group.end - group.start
        tokens = sum(node.tokens for node in nodes[group.start : group.end])
        assert count <= size.maximum
        if group.final and not (level == 0 and tokens >= TOKEN_LIMIT):
            assert count >= size.minimum
        if level == 0 and count > 1:
            assert tokens - nodes[group.end - 1].tokens < TOKEN_LIMIT


@given(leaf_lists(), st.integers(0, 3))
def test_an_open_level_leaves_its_tail_undecided(nodes: list[ShapeNode], level: int) -> None:
    opened, closed = groups(nodes, level, closed=False), groups(nodes, level, closed=True)
    assert opened == [group for group in closed if group.final]
    assert len(closed) - len(opened) <= 1


@given(leaf_lists(), st.integers(0, 3))
def test_what_comes_later_never_moves_an_ended_group(nodes: list[ShapeNode], level: int) -> None:
    found = groups(nodes, level, closed=False)
    for length in range(0, len(nodes), 7):
        before = groups(nodes[:length], level, closed=False)
        assert before == found[: len(before)]


@given(st.integers(0, 2**40), st.integers(0, 3), st.integers(1, 24))
def test_a_natural_break_only_ever_adds_a_boundary(number: int, level: int, count: int) -> None:
    node = _leaf(f"leaf-{number}")
    if ends_group(node, node.last_break, level, count, 10):
        assert ends_group(node, node.last_break + 1, level, count, 10)


def test_a_natural_break_never_cuts_by_itself() -> None:
    nodes = [_leaf(f"n{at}", 90, at) for at in range(2_000)]
    found = groups(nodes, 0, closed=True)
    assert all(group.end - group.start >= 4 for group in found[:-1])
    assert 5 < len(nodes) / len(found) < 11


def test_fanouts_without_breaks_are_as_designed() -> None:
    nodes = [_leaf(f"n{at}") for at in range(4_000)]
    assert 9 < len(nodes) / len(groups(nodes, 0, closed=True)) < 13
    assert 6 < len(nodes) / len(groups(nodes, 1, closed=True)) < 10


@settings(max_examples=60)
@given(leaf_lists(max_size=400), st.integers(0, 400), st.sampled_from(["insert", "delete", "change"]))
def test_a_change_moves_boundaries_only_until_they_meet(nodes: list[ShapeNode], at: int, what: str) -> None:
    if not nodes:
        return
    at %= len(nodes)
    changed = list(nodes)
    if what == "insert":
        changed.insert(at, _leaf("new"))
    elif what == "delete":
        del changed[at]
    else:
        changed[at] = replace(_leaf("new"), tokens=changed[at].tokens)
    before = [nodes[group.end - 1].leaf_id for group in groups(nodes, 0, closed=False)]
    after = [changed[group.end - 1].leaf_id for group in groups(changed, 0, closed=False)]
    place = {node.leaf_id: number for number, node in enumerate(nodes)}
    # Boundaries before the group of the change, and all from the first one that both have behind it, are the same.
    meeting = next((leaf for leaf in after if leaf in before and place[leaf] > at), None)
    if meeting is not None:
        assert after[after.index(meeting) :] == before[before.index(meeting) :]
    untouched = [leaf for leaf in before if place[leaf] < at - 1]
    assert after[: len(untouched)] == untouched


@given(leaf_lists(max_size=300))
def test_the_root_is_the_first_level_with_one_node(leaves: list[ShapeNode]) -> None:
    shape = whole_shape("source:x@1", leaves)
    if not leaves:
        assert shape.root is None
        return
    assert [len(level) == 1 for level in shape.levels] == [False] * (len(shape.levels) - 1) + [True]
    assert shape.root is not None
    assert shape.root.leaf_id == leaves[-1].leaf_id
    for level, found in enumerate(shape.grouped):
        for node, group in zip(shape.levels[level + 1], found, strict=True):
            if group.end - group.start == 1:
                assert node == shape.levels[level][group.start]


def test_one_leaf_is_its_own_root() -> None:
    leaf = _leaf("only")
    assert whole_shape("document:x:y@1", [leaf]).levels == ((leaf,),)
