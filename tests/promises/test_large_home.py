"""A vault and a mailbox of an ordinary size, by the real command. Speed is a figure of ``python -m tests.bench vault``,
which does the same at full size; here stands what must be right at any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.generated.living import Living, Run, make_living
from tests.generated.mailbox import Mail, as_mbox
from tests.generated.vault import edit_paragraph

pytestmark = pytest.mark.slow

NOTES, MAILS = 1_500, 2_000
HANGS_S = 60.0
"""A second look takes about a second; longer than this it reads or makes everything again."""


@dataclass(frozen=True)
class First:
    """The first look at both, and what was there after it."""

    living: Living
    run: Run
    items: dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    living = make_living(tmp_path_factory.mktemp("large"), notes=NOTES, messages=MAILS)
    living.add()
    ran = living.run_once()
    with living.memory() as memory:
        rows = memory.all("SELECT source_id, state, count(*) FROM mem_tree_items GROUP BY source_id, state")
    return First(living, ran, {(source, state): count for source, state, count in rows})


@pytest.fixture
def grown(first: First) -> Living:
    """A grown memory in step with its sources; whoever changes them leaves it so."""
    return first.living


def test_first_look_reads_each_item_once_however_the_exports_overlap(first: First) -> None:
    assert "everything is grown" in first.run.said
    assert first.items == {("vault", "current"): NOTES, ("mail", "current"): MAILS}


def test_first_look_says_how_far_it_is_and_how_long_it_will_take(first: First) -> None:
    told = first.run.lines_with_counts
    assert any("items to read" in line for line in told), first.run.lines
    # A pipe is told every five seconds, and a pace means something after six: a machine that is done by then says none.
    assert first.run.lines_with_time_left or first.run.wall_s < 13, first.run.lines
    assert all(len(line) <= 100 for line in told)


def test_second_look_makes_nothing_again(grown: Living) -> None:
    second = grown.run_once()
    assert second.made == {"chunks": 0, "summaries": 0, "embeddings": 0, "extractions": 0}
    assert second.wall_s < HANGS_S


def test_an_edited_paragraph_costs_three_chunks_at_most_and_one_path(grown: Living) -> None:
    note = max(grown.vault.rglob("*.md"), key=lambda path: path.stat().st_size)
    key = note.relative_to(grown.vault).as_posix()
    before = grown.chunk_ids(key)
    edit_paragraph(note, "The owner of the blue door changed this line.")
    made = grown.run_once().made
    after = grown.chunk_ids(key)
    assert len(after) > 5
    assert 1 <= len(after - before) <= 3
    assert made["chunks"] == len(after - before), "and none of another note"
    assert 1 <= made["summaries"] <= grown.depth(key) + 8
    assert made["embeddings"] <= made["chunks"] + made["summaries"]


def test_a_mail_at_the_end_of_a_mailbox_costs_itself(grown: Living) -> None:
    raw = b"From: new@club.example\nSubject: Gate\nMessage-ID: <one.more@club.example>\n\nThe gate is green now.\n"
    with grown.exports[-1].open("ab") as mailbox:
        mailbox.write(as_mbox(Mail("<one.more@club.example>", raw, "", datetime(2026, 1, 2, tzinfo=UTC))))
    assert grown.run_once().made["chunks"] == 1


def test_generated_homes_are_the_same_bytes_again(tmp_path: Path) -> None:
    one, two = (make_living(tmp_path / name, notes=40, messages=60, seed=3) for name in ("one", "two"))
    for living in (one, two):
        assert sum(1 for _ in living.vault.rglob("*.md")) == 40
    files = [path.relative_to(one.vault) for path in sorted(one.vault.rglob("*.md"))]
    assert [(one.vault / name).read_bytes() for name in files] == [(two.vault / name).read_bytes() for name in files]
    assert [path.read_bytes() for path in one.exports] == [path.read_bytes() for path in two.exports]
