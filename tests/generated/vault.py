"""A vault of Markdown notes: folders, front matter, wikilinks, headings, lists, several languages."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from tests.generated.words import Language, language_of, made_up, paragraph, rare_word, sentence

_AREAS = ("journal", "projects", "people", "reading", "kitchen", "garden", "travel", "work/meetings", "work/plans")
_MEDIAN_SENTENCES = 14
_MOST_SENTENCES = 600
_FIRST_DAY = date(2016, 1, 4)


@dataclass(frozen=True)
class Note:
    """One note: its path below the vault with forward slashes, and its text."""

    path: str
    text: str


def notes(count: int, seed: int = 1) -> Iterator[Note]:
    """Yield ``count`` notes. The first n of a larger vault of the same seed are those of a smaller one."""
    for number in range(count):
        yield _note(random.Random(f"note:{seed}:{number}"), number)


def write_vault(folder: Path, count: int, seed: int = 1) -> int:
    """Write a vault into a folder and return its size in bytes."""
    size = 0
    made: set[Path] = set()
    for note in notes(count, seed):
        path = folder / note.path
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        content = note.text.encode()
        path.write_bytes(content)
        size += len(content)
    return size


def edit_paragraph(path: Path, words: str) -> None:
    """Replace the second half of a note's longest paragraph, as an owner edits; a note without one gets one."""
    blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    prose = [at for at, block in enumerate(blocks) if block[:1] not in ("#", "-", "`", "")]
    if prose:
        longest = max(prose, key=lambda at: len(blocks[at]))
        blocks[longest] = f"{blocks[longest][: len(blocks[longest]) // 2]} {words}"
    else:
        blocks.append(words)
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _note(random: random.Random, number: int) -> Note:
    language = language_of(random)
    area = _AREAS[min(len(_AREAS) - 1, int(random.expovariate(0.4)))]
    title = f"{made_up(random.randrange(4096))} {rare_word(random)}".capitalize()
    day = _FIRST_DAY + timedelta(days=number % 3600)
    if area == "journal":
        path = f"journal/{day:%Y/%m}/{day.isoformat()} {number:05d}.md"
    else:
        path = f"{area}/{made_up(random.randrange(40))}/{title} {number:05d}.md"
    blocks = []
    if random.random() < 0.4:
        blocks.append(_front_matter(random, title, day))
    if random.random() < 0.6:
        blocks.append(f"# {title}")
    left = min(_MOST_SENTENCES, max(1, round(random.lognormvariate(math.log(_MEDIAN_SENTENCES), 0.9))))
    while left > 0:
        if blocks and random.random() < 0.12:
            blocks.append(f"{'#' * random.randint(2, 3)} {sentence(random, language)[:-1]}")
        size = min(left, random.randint(1, 7))
        blocks.append(_block(random, language, size))
        left -= size
    return Note(path, "\n\n".join(blocks) + "\n")


def _block(random: random.Random, language: Language, sentences: int) -> str:
    kind = random.random()
    if kind < 0.15:
        return "\n".join(f"- {sentence(random, language)}" for _ in range(sentences))
    if kind < 0.18:
        return f"```\nlet {rare_word(random)} = {random.randint(1, 99)}\n```"
    words = paragraph(random, language, sentences)
    if random.random() < 0.3:
        words += f" [[{made_up(random.randrange(400))}|{rare_word(random)}]]"
    return words


def _front_matter(random: random.Random, title: str, day: date) -> str:
    tags = "".join(f"\n  - {made_up(random.randrange(60))}" for _ in range(random.randint(0, 3)))
    aliases = f"\naliases: [{rare_word(random)}]" if random.random() < 0.3 else ""
    return f"---\ntitle: {title}\ndate: {day.isoformat()}{aliases}\ntags:{tags or ' []'}\n---"
