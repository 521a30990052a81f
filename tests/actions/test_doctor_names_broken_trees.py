"""Each invariant of the trees: broken by hand, the deep doctor names it and says how to mend it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.actions.doctor import doctor
from agent.paths import Paths
from tests.actions.broken import DROPPED, FIRST, LAST, LONG, MAIL, NOTES, PART, POST, SUMMARY, SUMMARY_ROW, damage

# What is done to a sound memory, by what the doctor calls it: (check, promise, statements).
BROKEN: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("reach", "a leaf fell out of its tree", [f"DELETE FROM mem_tree_edges WHERE {FIRST}"]),
    (
        "reach",
        "a leaf stands in a tree twice",
        [
            "INSERT INTO mem_tree_edges SELECT tree_seq, level, CAST(sort_key || x'00' AS BLOB), node_id, node_kind,"
            " shape_id, leaf_id, tokens, first_break, last_break, last_key, provisional, parent_id"
            f" FROM mem_tree_edges WHERE {FIRST}"
        ],
    ),
    (
        "tree links",
        "a leaf stands on one level twice",
        [
            "INSERT INTO mem_tree_buffers SELECT tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id,"
            f" tokens, first_break, last_break, last_key, provisional, 0 FROM mem_tree_edges WHERE {FIRST}"
        ],
    ),
    ("reach", "a whole group hangs on nothing", ["UPDATE mem_tree_edges SET parent_id = 'x' WHERE level = 1"]),
    ("tree links", "a parent is not there", [f"UPDATE mem_tree_edges SET parent_id = 'x' WHERE {FIRST}"]),
    ("tree links", "a second root stands beside the first", [f"UPDATE mem_tree_edges SET parent_id = '' WHERE {LAST}"]),
    (
        "tree links",
        "a tree names a root that is none",
        ["UPDATE mem_tree_trees SET root_id = 'x' WHERE kind = 'source'"],
    ),
    (
        "tree links",
        "a summary stands above nothing",
        [f"DELETE FROM mem_tree_edges WHERE tree_seq = {POST} AND level = 0"],
    ),
    (
        "tree links",
        "a summary stands nowhere",
        [
            f"{SUMMARY_ROW} SELECT 'x', 'x', {POST}, 'mail', 1, x'00', '', 0, 0, signature, 0"
            " FROM mem_tree_summaries LIMIT 1"
        ],
    ),
    ("tree links", "a tree's document is gone", ["DELETE FROM mem_tree_items WHERE item_key = 'long.md'"]),
    ("tree links", "a tree is of an unknown kind", [f"UPDATE mem_tree_trees SET kind = 'odd' WHERE tree_seq = {LONG}"]),
    ("tree nodes", "a summary is gone under its place", [f"DELETE FROM mem_tree_summaries WHERE seq = {SUMMARY}"]),
    ("tree nodes", "a chunk is gone under its place", [f"DELETE FROM mem_tree_chunks WHERE seq = {MAIL}"]),
    (
        "tree nodes",
        "a place counts other tokens than its chunk",
        [f"UPDATE mem_tree_edges SET tokens = 9999 WHERE {LAST}"],
    ),
    (
        "tree nodes",
        "a place counts other tokens than its summary",
        [f"UPDATE mem_tree_edges SET tokens = 9999 WHERE tree_seq = {POST} AND level = 1"],
    ),
    (
        "tree nodes",
        "a chunk was moved and its place was not",
        [f"UPDATE mem_tree_chunks SET order_key = 7 WHERE seq = {MAIL}"],
    ),
    (
        "tree nodes",
        "a document's chunk was moved alone",
        [f"UPDATE mem_tree_chunks SET order_key = 7 WHERE seq = {PART}"],
    ),
    (
        "tree nodes",
        "a natural break was lost",
        [f"UPDATE mem_tree_edges SET first_break = first_break + 1 WHERE {LAST}"],
    ),
    (
        "tree shapes",
        "a leaf stands in the group beside its own",
        [
            f"UPDATE mem_tree_edges SET parent_id = (SELECT parent_id FROM mem_tree_edges WHERE {LAST}) WHERE {FIRST}",
        ],
    ),
    (
        "tree shapes",
        "a summary was made of other children",
        [
            f"UPDATE mem_tree_summaries SET shape_id = 'x' WHERE seq = {SUMMARY}",
            "UPDATE mem_tree_edges SET shape_id = 'x' WHERE node_id ="
            f" (SELECT summary_id FROM mem_tree_summaries WHERE seq = {SUMMARY})",
        ],
    ),
    (
        "tree shapes",
        "a summary counts other leaves",
        [f"UPDATE mem_tree_summaries SET leaves = 99 WHERE seq = {SUMMARY}"],
    ),
    (
        "tree shapes",
        "a place does not span its children",
        [f"UPDATE mem_tree_edges SET last_break = last_break + 1 WHERE tree_seq = {POST} AND level = 1"],
    ),
    ("tree shapes", "a tree says another height", [f"UPDATE mem_tree_trees SET max_level = 9 WHERE tree_seq = {POST}"]),
    (
        "tree ids",
        "a tree is named after another scope",
        [f"UPDATE mem_tree_trees SET tree_id = 'x' WHERE tree_seq = {POST}"],
    ),
    (
        "tree ids",
        "a summary names another source",
        [f"UPDATE mem_tree_summaries SET source_id = 'x' WHERE seq = {SUMMARY}"],
    ),
    (
        "documents",
        "a document's tree is of another version",
        [f"UPDATE mem_tree_trees SET version_hash = 'x' WHERE tree_seq = {LONG}"],
    ),
    (
        "documents",
        "a document has no place in its folder",
        [
            f"DELETE FROM mem_tree_edges WHERE tree_seq = {NOTES} AND level = 0"
            f" AND node_id = (SELECT root_id FROM mem_tree_trees WHERE tree_seq = {LONG})"
        ],
    ),
    ("documents", "a document's tree is gone", [f"DELETE FROM mem_tree_trees WHERE tree_seq = {LONG}"]),
    (
        "lifecycle",
        "a leaf is called admitted and stands in a tree",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'admitted' WHERE seq = {MAIL}"],
    ),
    (
        "lifecycle",
        "a leaf is called buffered and is in no buffer",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'buffered' WHERE seq = {MAIL}"],
    ),
    (
        "lifecycle",
        "a dropped chunk is called sealed",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'sealed' WHERE seq = {DROPPED}"],
    ),
    (
        "lifecycle",
        "a lifecycle is no word of ours",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'odd' WHERE seq = {MAIL}"],
    ),
    (
        "reach",
        "a document's chunk is called dropped",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'dropped' WHERE seq = {PART}"],
    ),
)


@pytest.mark.parametrize(
    ("check", "statements"), [pytest.param(check, sql, id=promise) for check, promise, sql in BROKEN]
)
def test_named(copy: Paths, check: str, statements: Sequence[str]) -> None:
    assert damage(copy, statements) > 0
    found = {one.name: one for one in doctor(copy, deep=True).checks}
    assert not found[check].ok, [one for one in found.values() if not one.ok]
    assert found[check].detail
    assert "sapwood" in found[check].remedy or "clock" in found[check].remedy or "time" in found[check].remedy
