"""How a summary is written, and read back by the summary above it.

A summary is made of lines, one sentence each, under header lines::

    — 2026-03-04 Ada Moss “Budget”
    We agreed on 4,200 EUR for the pump.

A header says only what changed since the one before; after a date the author is always said again. A title stands
there where it is not that of the whole summary. Summaries of summaries read these lines back, so that a sentence keeps
its date and its author (or its title, where it has no author), and headers do not pile up.

From the third level on a header names a period (a day, a month or a year, by how long the group lasted), and an
author only where a sentence needs one. Day and author of every sentence took a quarter of the budget there, more than
being chosen well could win back; they stand one level below, over the same sentence.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.models.builtin.rules.words import listed
from agent.models.builtin.structure import blocks, sentences
from agent.models.builtin.terms import STOP, words
from agent.models.protocol import SummaryInput
from agent.tokens import count_tokens

_SEAM = " · "
_TITLE_LIMIT = 80  # characters
_UNDATED = "undated"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_REPLY = re.compile(r"\A(?:(?:re|fwd?|aw|wg|rv|sv|回复|转发)\s*[:：]\s*)+", re.IGNORECASE)
_HEADER = re.compile(
    r"—(?: (?P<date>\d{4}(?:-\d\d(?:-\d\d)?)?|undated))?(?: (?P<author>[^“\s][^“\n]*?))?(?: “(?P<title>[^\n]*)”)?\Z"
)
_TOKENS_PER_PERIOD = 40  # the header of a period costs about four: a tenth of the summary
_MONTH, _YEAR = 7, 4  # characters of an ISO date

# Who says "I" or "you" is part of what is said. Subjects are left out in some languages, so a sentence stands without
# its author only where it has words of a language that needs them.
_SOMEBODY = listed("""
i me my mine myself we us our ours ourselves you your yours let ll
ich mir mich mein meine meinem meinen meiner wir uns unser unsere unserem unseren unserer du dir dich dein deine
ihr euch euer eure bitte je j moi mon ma mes nous notre nos tu toi ton ta tes vous votre vos
""")
_FULL = listed("""
the is was are were will of and der die das ist war sind wird wurde hat und est sont était
""")
_STATED = re.compile(r"[A-ZÀ-ÖØ-Þ\d].*[.!…][\"'”’»)\]]{0,2}\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sentence comes from: the UTC day (or month, or year) as ISO, who wrote it, what it is titled."""

    date: str | None
    author: str | None
    title: str | None


@dataclass(slots=True)
class Sentence:
    """One sentence of a group; ``terms`` are its words without stop words, ``worth`` is for the summariser to set."""

    text: str
    origin: Origin
    child: int
    words: frozenset[str]
    terms: frozenset[str]
    tokens: int
    worth: float = 0.0


def read(child: SummaryInput, number: int, level: int) -> list[Sentence]:
    """Return the sentences of a child: of a chunk by the marks of its language, of a summary by its lines."""
    if _is_summary(child, level):
        return _read_summary(child, number)
    origin = _origin(child)
    found: list[Sentence] = []
    for who, run in blocks(child.text) or [(None, line) for line in child.text.split("\n") if line.strip()]:
        said = f"{who}: " if who and who != child.author else ""
        found += [_sentence(said + text, origin, number) for text in sentences(run)]
    return found


def read_whole(child: SummaryInput, number: int, level: int) -> list[Sentence]:
    """Return a child that is kept whole: a chunk's text as it is, a summary's lines."""
    if _is_summary(child, level):
        return _read_summary(child, number)
    text = child.text.strip()
    return [Sentence(text, _origin(child), number, frozenset(), frozenset(), child.tokens)] if text else []


def _is_summary(child: SummaryInput, level: int) -> bool:
    return level > 1 and child.text.startswith("—") and _HEADER.match(child.text.partition("\n")[0]) is not None


def _read_summary(child: SummaryInput, number: int) -> list[Sentence]:
    # A title that a whole summary shares is in no header; one made of several titles is nobody's.
    origin = Origin(None, None, child.title if child.title and _SEAM not in child.title else None)
    kept = origin
    found: list[Sentence] = []
    for line in child.text.split("\n"):
        parts = _HEADER.match(line) if line.startswith("—") else None
        if parts is None:
            if line.strip():
                found.append(_sentence(line.strip(), kept, number))
            continue
        date, author, title = parts["date"], parts["author"], parts["title"]
        if date is not None:
            origin = Origin(None if date == _UNDATED else date, author, origin.title)
        elif author is not None:
            origin = Origin(origin.date, author, origin.title)
        if title is not None:
            origin = Origin(origin.date, origin.author, title or None)
        # Above the first level a sentence has its author or its title: with both, headers took half of the budget.
        kept = Origin(origin.date, origin.author, None) if origin.author else origin
    return found


def in_periods(found: Sequence[Sentence], budget: int) -> None:
    """Give sentences of a high level the period they are from, and leave out the author of what stands without one."""
    dates = {sentence.origin.date for sentence in found if sentence.origin.date}
    length = next(
        (size for size in (None, _MONTH) if len({date[:size] for date in dates}) * _TOKENS_PER_PERIOD <= budget), _YEAR
    )
    for sentence in found:
        origin = sentence.origin
        date = origin.date[:length] if origin.date else None
        author = None if _stands_alone(sentence) else origin.author
        sentence.origin = replace(origin, date=date, author=author)


def _stands_alone(sentence: Sentence) -> bool:
    return (
        _SOMEBODY.isdisjoint(sentence.words)
        and not _FULL.isdisjoint(sentence.words)
        and _STATED.match(sentence.text) is not None
    )


def _sentence(text: str, origin: Origin, child: int) -> Sentence:
    if text.startswith("—"):
        text = text.lstrip("— ")  # a line that looks like a header of ours would be read back as one
    said = frozenset(words(text))
    return Sentence(text, origin, child, said, said - STOP, count_tokens(text))


def _origin(child: SummaryInput) -> Origin:
    date = None
    if child.time_ms is not None:
        try:
            date = (_EPOCH + datetime.timedelta(milliseconds=child.time_ms)).date().isoformat()
        except OverflowError:  # a broken Date header can name any year
            date = None
    author = " ".join((child.author or "").replace("“", '"').split())
    return Origin(date, author or None, _plain_title(child.title))


def written(chosen: Iterable[Sentence], shared_title: str | None) -> str:
    """Return the text of a summary: its sentences in the order given, under headers."""
    lines: list[str] = []
    before: Origin | None = None
    for sentence in chosen:
        if sentence.origin != before:
            header = header_line(sentence.origin, before, shared_title)
            if header is not None:
                lines.append(header)
            before = sentence.origin
        lines.append(sentence.text)
    return "\n".join(lines)


def header_line(origin: Origin, before: Origin | None, shared_title: str | None) -> str | None:
    """Return the header that leads from one origin to the next, ``None`` where nothing that is said changes.

    The first one of a summary is always there, even if it says nothing: it marks the text as lines to be read back.
    """
    known = before or Origin(None, None, shared_title)
    parts: list[str] = []
    if origin.date != known.date or (known.author and not origin.author):
        parts.append(origin.date or _UNDATED)
        if origin.author:
            parts.append(origin.author)
    elif origin.author and origin.author != known.author:
        if origin.author[0].isdigit():
            parts.append(origin.date or _UNDATED)  # a name such as "2026" would be read back as a date
        parts.append(origin.author)
    title = _shown_title(origin, shared_title)
    if title != _shown_title(known, shared_title):
        parts.append(f"“{title or ''}”")
    if not parts and before is not None:
        return None
    return " ".join(("—", *parts))


def _shown_title(origin: Origin, shared_title: str | None) -> str | None:
    return None if origin.title == shared_title else origin.title


def _plain_title(title: str | None) -> str | None:
    plain = _REPLY.sub("", (title or "").strip(), count=1)
    plain = " ".join(plain.replace("·", "-").replace("“", '"').replace("”", '"').split())
    return (plain if len(plain) <= _TITLE_LIMIT else plain[: _TITLE_LIMIT - 1].rstrip() + "…") or None


def title_of(children: Sequence[SummaryInput]) -> str | None:
    """Return the title of a group: the one they share, else the commonest ones, as many as fit into a line."""
    counted: Counter[str] = Counter()
    for child in children:
        for part in (child.title or "").split(_SEAM):
            plain = _plain_title(part)
            if plain is not None:
                counted[plain] += 1
    title = ""
    for name, _ in sorted(counted.items(), key=lambda item: -item[1]):
        longer = f"{title}{_SEAM}{name}" if title else name
        if len(longer) > _TITLE_LIMIT and title:
            break
        title = longer
    return title or None
