"""Where to break a grown memory: rows of it by name, and the hand that breaks them."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from agent.paths import Paths

POST = "(SELECT tree_seq FROM mem_tree_trees WHERE tree_id = 'source:mail@1')"
NOTES = "(SELECT tree_seq FROM mem_tree_trees WHERE tree_id = 'source:notes@1')"
LONG = "(SELECT tree_seq FROM mem_tree_trees WHERE tree_id = 'document:notes:long.md@1')"
MAIL = "(SELECT min(seq) FROM mem_tree_chunks WHERE source_id = 'mail' AND lifecycle = 'sealed')"
OTHER_MAIL = "(SELECT max(seq) FROM mem_tree_chunks WHERE source_id = 'mail' AND lifecycle = 'sealed')"
PART = "(SELECT min(seq) FROM mem_tree_chunks WHERE item_key = 'long.md' AND lifecycle = 'sealed')"
DROPPED = "(SELECT min(seq) FROM mem_tree_chunks WHERE lifecycle = 'dropped')"
SUMMARY = "(SELECT min(seq) FROM mem_tree_summaries)"
FIRST_KEY = f"(SELECT min(sort_key) FROM mem_tree_edges WHERE tree_seq = {POST} AND level = 0)"
LAST_KEY = f"(SELECT max(sort_key) FROM mem_tree_edges WHERE tree_seq = {POST} AND level = 0)"
FIRST = f"tree_seq = {POST} AND level = 0 AND sort_key = {FIRST_KEY}"
LAST = f"tree_seq = {POST} AND level = 0 AND sort_key = {LAST_KEY}"
JOB = "INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, created_at_ms)"
SUMMARY_ROW = (
    "INSERT INTO mem_tree_summaries (summary_id, shape_id, tree_seq, source_id, level, sort_key, text, tokens, leaves,"
    " signature, created_at_ms)"
)


def damage(paths: Paths, statements: Sequence[str]) -> int:
    """Change rows behind everybody's back; return how many."""
    raw = apsw.Connection(str(paths.database))
    for statement in statements:
        raw.execute(statement).fetchall()
    changed = raw.total_changes()
    raw.close()
    return changed
