"""What a change to the trees must keep: the cost of an append, the reach of an edit, one shape whatever the order.

The document and folder figures use the real chunker; the summariser counts and costs nothing. ``append_rows`` are the
rows that a connection was handed, changed, or passed over in scans without an index; ``append_vm_steps`` show that
none hide in index walks. Kills and the emptied queue are not measured yet.
"""

from __future__ import annotations

from tests.bench.harness import Result, Setting
from tests.bench.tree_append import measure_append
from tests.bench.tree_edits import measure_edits
from tests.bench.tree_forget import measure_forgetting
from tests.bench.tree_orders import measure_orders

NOTES = """append_*: half of the appends at the end of the stream, half in between; claim included.
A wall time far above append_cpu_*: the machine was busy with something else.
edit_*: _doc the document's own tree, _source its folder's; _stream mails inserted, deleted, replaced (no bar).
forget_bytes_found: how often a word of the forgotten document stands in the file, its log or its shared memory.
forget_not_ancestor: summaries not above the forgotten document that were made again, or ancestors that stayed.
trees_differ: summaries that differ from those grown in order by one process, and broken invariants."""


def run(setting: Setting) -> Result:
    """Return the figures of trees (about eight minutes, two with ``quick``)."""
    result = Result(notes=NOTES.splitlines())
    samples = 200 if setting.quick else 1_000
    measure_append(result, 1_000, "1k", samples)
    measure_append(result, 100_000, "100k", samples)
    measure_edits(result, 150 if setting.quick else 1_000)
    measure_forgetting(result)
    measure_orders(result, setting.data, 1 if setting.quick else 3)
    return result
