"""Drill-down and the list of trees."""

from __future__ import annotations

import pytest

from agent.db import Connection
from agent.errors import UsageFault
from agent.recall.show import show
from agent.recall.trees import outline, outline_more, trees
from tests.recall.conftest import Memory


@pytest.fixture
def two_levels(memory: Memory) -> dict[str, str]:
    ids = {f"leaf{at}": memory.chunk(f"boiler part {at}", title=f"Part {at}") for at in range(5)}
    # The order of the tree is not that of the writing.
    ids["late"] = memory.summary("late half", [ids["leaf3"], ids["leaf4"]])
    ids["early"] = memory.summary("early half", [ids["leaf2"], ids["leaf0"], ids["leaf1"]])
    ids["root"] = memory.summary("all of it", [ids["early"], ids["late"]], level=2, title="Boiler")
    with memory.connection.write():
        memory.edge(memory.tree(), 2, ids["root"], "")
    return ids


def test_a_node_is_shown_with_its_children_in_the_order_of_the_tree(
    two_levels: dict[str, str], connection: Connection
) -> None:
    shown = show(connection, two_levels["early"]).as_json()
    assert set(shown) >= {"node", "children", "parents", "origin"}
    assert shown["node"]["node_id"] == two_levels["early"]
    assert (shown["node"]["kind"], shown["node"]["level"], shown["node"]["leaves"]) == ("summary", 1, 3)
    assert [child["node_id"] for child in shown["children"]] == [two_levels[f"leaf{at}"] for at in (2, 0, 1)]
    assert shown["children"][0]["text"] == "boiler part 2"
    assert [parent["node_id"] for parent in shown["parents"]] == [two_levels["root"]]
    assert shown["origin"]["source_id"] == "notes"


def test_depth_is_how_many_levels_are_shown(two_levels: dict[str, str], connection: Connection) -> None:
    root = two_levels["root"]
    assert show(connection, root, depth=0).children == ()
    assert [branch.children for branch in show(connection, root).children] == [(), ()]
    deep = show(connection, root, depth=2)
    assert [[leaf.node.title for leaf in branch.children] for branch in deep.children] == [
        ["Part 2", "Part 0", "Part 1"],
        ["Part 3", "Part 4"],
    ]
    with pytest.raises(UsageFault):
        show(connection, root, depth=-1)


def test_a_leaf_has_its_origin_and_no_children(two_levels: dict[str, str], connection: Connection) -> None:
    shown = show(connection, two_levels["leaf4"])
    assert shown.children == ()
    assert shown.node.lifecycle == "sealed"
    assert shown.node.tree_id == "document:notes:notes.md@1"
    assert shown.origin.locator == {"path": "notes.md", "line": 5, "end_line": 5}


def test_the_beginning_of_an_id_is_enough(two_levels: dict[str, str], connection: Connection) -> None:
    for node_id in two_levels.values():
        assert show(connection, node_id[:12]).node.node_id == node_id
        assert show(connection, f" {node_id[:12].upper()} ").node.node_id == node_id


def test_a_beginning_of_several_nodes_is_refused_with_their_names(memory: Memory, connection: Connection) -> None:
    one, two = memory.chunk("one"), memory.chunk("two")
    same = "abcdef0123456789"
    connection.run("UPDATE mem_tree_chunks SET chunk_id = ? WHERE chunk_id = ?", (same + one[16:], one))
    connection.run("UPDATE mem_tree_chunks SET chunk_id = ? WHERE chunk_id = ?", (same + two[16:], two))
    with pytest.raises(UsageFault) as caught:
        show(connection, same)
    assert same + one[16:20] in caught.value.detail
    assert show(connection, same + one[16:]).node.text == "one"


@pytest.mark.parametrize("unknown", ["f" * 32, "123456", "g" * 12, "%" * 8, "' OR 1=1 --"])
def test_an_unknown_node_is_an_error_with_a_hint(memory: Memory, connection: Connection, unknown: str) -> None:
    memory.chunk("one")
    with pytest.raises(UsageFault) as caught:
        show(connection, unknown)
    assert "sapwood search" in caught.value.hint
    assert "--json" not in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("short", ["", "abc", "12345"])
def test_a_beginning_of_less_than_six_characters_is_refused(connection: Connection, short: str) -> None:
    with pytest.raises(UsageFault):
        show(connection, short)


def test_a_node_that_went_up_as_itself_is_not_its_own_child(memory: Memory, connection: Connection) -> None:
    leaf = memory.chunk("alone")
    low = memory.summary("low", [leaf])
    with connection.write():
        memory.edge(memory.tree(), 1, low, low)
    high = memory.summary("high", [low], level=3)
    assert [branch.node.node_id for branch in show(connection, high).children] == [low]
    assert [branch.node.node_id for branch in show(connection, low).children] == [leaf]


def test_trees_have_the_keys_that_scripts_rely_on(two_levels: dict[str, str], connection: Connection) -> None:
    (tree,) = [tree.as_json() for tree in trees(connection)]
    assert set(tree) >= {"id", "kind", "scope", "max_level", "open_leaves", "summary_ids"}
    assert tree["id"] == "document:notes:notes.md@1"
    assert (tree["kind"], tree["scope"], tree["open_leaves"]) == ("document", "notes/notes.md", 0)
    assert tree["summary_ids"] == [two_levels["late"], two_levels["early"], two_levels["root"]]


def test_leaves_that_wait_are_counted_and_stale_summaries_are_not_live(memory: Memory, connection: Connection) -> None:
    leaf, waiting = memory.chunk("one"), memory.chunk("two")
    memory.summary("old", [leaf], stale=True, kind="source", item_key=None)
    tree_seq = memory.tree("source", item_key=None)
    connection.run(
        "INSERT INTO mem_tree_buffers (tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens,"
        " first_break, last_break, last_key, added_at_ms) VALUES (?, 0, x'09', ?, 'leaf', ?, ?, 1, 0, 0, x'09', 0)",
        (tree_seq, waiting, waiting, waiting),
    )
    memory.summary("elsewhere", [memory.chunk("m", source="mail")], source="mail", kind="source", item_key=None)
    (tree,) = trees(connection, "notes")
    assert (tree.open_leaves, tree.summary_ids) == (1, ())
    assert [tree.scope for tree in trees(connection)] == ["mail", "notes"]
    assert trees(connection, "nowhere") == ()


def test_an_outline_is_nested_and_bounded(two_levels: dict[str, str], connection: Connection) -> None:
    tree_id = "document:notes:notes.md@1"
    (root,) = outline(connection, tree_id, depth=3, breadth=2)
    assert (root.node_id, root.label, root.more) == (two_levels["root"], "Boiler", 0)
    early, late = root.children
    assert (early.label, early.more) == ("early half", 1)
    assert [leaf.label for leaf in early.children] == ["Part 2", "Part 0"]
    assert late.more == 0
    (flat,) = outline(connection, tree_id, depth=1)
    assert (flat.children, flat.more) == ((), 2)
    assert outline(connection, "source:nowhere@1") == ()


def test_the_outline_of_a_growing_tree_begins_with_all_that_has_no_parent(
    memory: Memory, connection: Connection
) -> None:
    leaf, waiting = memory.chunk("one", title="One"), memory.chunk("two", title="Two")
    summary = memory.summary("sum", [leaf], kind="source", item_key=None, title="Sum")
    tree_seq = memory.tree("source", item_key=None)
    for level, node_id, kind in ((1, summary, "summary"), (0, waiting, "leaf")):
        connection.run(
            "INSERT INTO mem_tree_buffers (tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens,"
            " first_break, last_break, last_key, added_at_ms) VALUES (?, ?, x'09', ?, ?, ?, ?, 1, 0, 0, x'09', 0)",
            (tree_seq, level, node_id, kind, node_id, node_id),
        )
    top = outline(connection, "source:notes@1")
    assert [node.label for node in top] == ["Sum", "Two"]
    assert [child.label for child in top[0].children] == ["One"]
    assert outline_more(connection, "source:notes@1", breadth=1) == 1
    assert outline_more(connection, "source:notes@1") == 0
