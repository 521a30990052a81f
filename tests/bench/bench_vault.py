"""A vault of 16,000 notes and a mailbox of 20,000 mails, both generated: the first look, the second, and edits.

All by the real command. ``first_sync_s`` depends on the machine and has no bar; ``chunks_per_s`` is its pace. An edit
replaces half of a note's longest paragraph; ``edit_summaries_over_depth_*`` is how many summaries were made again
beyond the levels above the edited place. ``append_*``: one more mail at the end of a mailbox. ``--quick``: fewer edits.
"""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.harness import Result, Setting
from tests.generated.living import Living, make_living
from tests.generated.mailbox import Mail, as_mbox
from tests.generated.vault import edit_paragraph

NOTES, MAILS = 16_000, 20_000
EDITS, EDITS_QUICK = 40, 10


def run(setting: Setting) -> Result:
    """Grow, look again, edit. Raises ``RuntimeError`` where the command fails."""
    result = Result()
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        living = make_living(Path(folder), notes=NOTES, messages=MAILS)
        living.add()
        _first(living, result)
        _second(living, result)
        _edits(living, result, EDITS_QUICK if setting.quick else EDITS)
        _append(living, result)
    result.hold("items_missing", "==", 0)
    result.hold("time_left_lines", ">=", 1)
    result.hold("second_sync_s", "<=", 10)
    for name in ("second_sync_embeddings", "second_sync_summaries", "second_sync_chunks"):
        result.hold(name, "==", 0)
    result.hold("edit_chunks_max", "<=", 3)
    result.hold("edit_summaries_over_depth_mean", "<=", 1)
    result.hold("edit_summaries_over_depth_max", "<=", 8)
    result.hold("append_chunks", "<=", 2)
    return result


def _first(living: Living, result: Result) -> None:
    first = living.run_once()
    chunks = living.value("SELECT count(*) FROM mem_tree_chunks")
    items = living.value("SELECT count(*) FROM mem_tree_items WHERE state = 'current'")
    result.figures.update(
        chunks=chunks,
        summaries=living.value("SELECT count(*) FROM mem_tree_summaries"),
        items_missing=NOTES + MAILS - items,
        first_sync_s=round(first.wall_s, 1),
        first_sync_cpu_s=round(first.cpu_s, 1),
        chunks_per_s=round(chunks / first.wall_s, 1),
        chunks_per_cpu_s=round(chunks / first.cpu_s, 1),
        progress_lines=len(first.lines_with_counts),
        time_left_lines=len(first.lines_with_time_left),
    )
    result.notes.extend(first.lines_with_time_left[:: max(1, len(first.lines_with_time_left) // 4)])


def _second(living: Living, result: Result) -> None:
    second = living.run_once()
    result.figures.update(
        second_sync_s=round(second.wall_s, 2),
        second_sync_cpu_s=round(second.cpu_s, 2),
        **{f"second_sync_{what}": made for what, made in second.made.items()},
    )


def _edits(living: Living, result: Result, count: int) -> None:
    choose = random.Random(7)
    notes = choose.sample(sorted(living.vault.rglob("*.md")), count)
    chunks, over = [], []
    for number, note in enumerate(notes):
        edit_paragraph(note, f"An owner changed this on day {number}.")
        made = living.run_once().made
        chunks.append(made["chunks"])
        over.append(made["summaries"] - living.depth(note.relative_to(living.vault).as_posix()))
    result.figures.update(
        edit_chunks_max=max(chunks),
        edit_chunks_mean=round(sum(chunks) / count, 2),
        edit_summaries_over_depth_mean=round(sum(over) / count, 2),
        edit_summaries_over_depth_max=max(over),
    )


def _append(living: Living, result: Result) -> None:
    raw = b"From: new@club.example\nSubject: One more\nMessage-ID: <one.more@club.example>\n\nThe gate is green now.\n"
    with living.exports[-1].open("ab") as mailbox:
        mailbox.write(as_mbox(Mail("<one.more@club.example>", raw, "", datetime(2026, 1, 2, tzinfo=UTC))))
    run = living.run_once()
    result.figures.update(
        append_s=round(run.wall_s, 2), append_cpu_s=round(run.cpu_s, 2), append_chunks=run.made["chunks"]
    )
