"""Summaries without a model: the sentences of a group that carry most, as they stand, in order, under their dates.

A sentence is chosen for being central (it shares words with the rest of the group), for what it holds (numbers, names,
decisions) and for saying what is not said yet. Nothing depends on a clock or on any other text than the group's: the
same group gives the same bytes. A summary is made of lines, one sentence each, under header lines::

    — 2026-03-04 · Ada Moss · “Re: budget”
    We agreed on 4,200 EUR for the pump.

A header says only what changed since the one before; after a date the author is always said again. Summaries of
summaries read these lines back, so that a sentence keeps its date and its author at every level.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import log, sqrt

from agent.models.builtin.rules.cues import CAUSE, CHATTER, COMMITMENT, DEADLINE, DECISION
from agent.models.builtin.structure import blocks, sentences
from agent.models.builtin.terms import STOP, words
from agent.models.protocol import SummaryInput, SummaryRequest, SummaryText
from agent.tokens import count_tokens

_LONG = 48  # tokens; what is longer costs more than it says
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_NAME = re.compile(r"(?<=[^\s.!?:—] )[\"“(]?[A-ZÀ-ÖØ-Þ]\w+|[a-z]+[A-Z]\w+")
_SYMBOLS = re.compile(r"[{}<>=|\\^~`$;]|::|->|--")
_TITLE_LIMIT = 80  # characters
_SEAM = " · "
_REPLY = re.compile(r"(?:(?:re|fwd?|aw|wg|rv|sv|回复|转发)\s*[:：]\s*)+", re.IGNORECASE)

_UNDATED = "undated"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TOLD_ALREADY = 0.25  # a sentence with less that is new is a repetition

_HEADER = re.compile(
    r"— ?(?:(?P<date>\d{4}-\d\d-\d\d|undated)(?: · |$))?"
    r"(?:(?P<author>[^“\n][^\n]*?)(?: · |$))?(?:“(?P<title>[^\n]*)”)?$"
)


@dataclass(frozen=True, slots=True)
class _Origin:
    date: str | None
    author: str | None
    title: str | None


@dataclass(slots=True)
class _Sentence:
    text: str
    origin: _Origin
    child: int
    words: frozenset[str]
    terms: frozenset[str]
    tokens: int
    worth: float = 0.0


class BuiltinSummariser:
    """Extractive summaries: no sentence is written, only chosen. Blocks on nothing."""

    signature = "builtin:extractive-1"

    def summarise(self, request: SummaryRequest) -> SummaryText:
        """Return a summary of at most ``budget_tokens``; where the whole input fits into it, the whole input."""
        shared_title = _title(request.children)
        if sum(child.tokens for child in request.children) <= request.budget_tokens:
            whole = _whole(request.children, request.level, request.budget_tokens, shared_title)
            if whole is not None:
                return SummaryText(whole, shared_title, count_tokens(whole))
        read = [_read(child, number, request.level) for number, child in enumerate(request.children)]
        found = [sentence for child in read for sentence in child]
        if request.tree_kind != "document":
            found.sort(key=lambda sentence: sentence.origin.date or "")
        _weigh(found)
        text = _written(_choose(found, request.budget_tokens, shared_title), shared_title)
        return SummaryText(text, shared_title, count_tokens(text))


def _whole(children: Sequence[SummaryInput], level: int, budget: int, shared_title: str | None) -> str | None:
    """Return the children's texts as they are, under their headers, or without them; ``None`` if that is too long."""
    whole: list[_Sentence] = []
    for number, child in enumerate(children):
        if _is_summary(child, level):
            whole += _read_summary(child, number)
        elif child.text.strip():
            whole.append(_Sentence(child.text.strip(), _origin(child), number, frozenset(), frozenset(), child.tokens))
    for text in (_written(whole, shared_title), "\n\n".join(child.text.strip() for child in children)):
        if count_tokens(text) <= budget:
            return text
    return None


def _is_summary(child: SummaryInput, level: int) -> bool:
    return level > 1 and child.text.startswith("—") and _HEADER.match(child.text.partition("\n")[0]) is not None


def _read(child: SummaryInput, number: int, level: int) -> list[_Sentence]:
    """Return the sentences of a child: of a chunk by the marks of its language, of a summary by its lines."""
    if _is_summary(child, level):
        return _read_summary(child, number)
    origin = _origin(child)
    found: list[_Sentence] = []
    for who, run in blocks(child.text) or _lines(child.text):
        said = f"{who}: " if who and who != child.author else ""
        found += [_sentence(said + text, origin, number) for text in sentences(run)]
    return found


def _read_summary(child: SummaryInput, number: int) -> list[_Sentence]:
    title = child.title if child.title and _SEAM not in child.title else None
    origin = _Origin(None, None, title)
    found: list[_Sentence] = []
    for line in child.text.split("\n"):
        header = _HEADER.match(line) if line.startswith("—") else None
        if header is None:
            if line.strip():
                found.append(_sentence(line.strip(), origin, number))
            continue
        date, author, name = header["date"], header["author"], header["title"]
        if date is not None:
            origin = _Origin(None if date == _UNDATED else date, author, origin.title)
        elif author is not None:
            origin = _Origin(origin.date, author, origin.title)
        if name is not None:
            origin = _Origin(origin.date, origin.author, name or None)
    return found


def _lines(text: str) -> list[tuple[str | None, str]]:
    return [(None, line) for line in text.split("\n") if line.strip()]


def _origin(child: SummaryInput) -> _Origin:
    date = None
    if child.time_ms is not None:
        date = (_EPOCH + datetime.timedelta(milliseconds=child.time_ms)).date().isoformat()
    author = " ".join(child.author.replace("·", "-").split()).lstrip("“") if child.author else None
    return _Origin(date, author or None, _plain_title(_REPLY.sub("", child.title or "")))


def _sentence(text: str, origin: _Origin, child: int) -> _Sentence:
    # A line of a text that looks like a header of ours would be read back as one.
    text = text.lstrip("— ") if text.startswith("—") else text
    said = frozenset(words(text))
    return _Sentence(text, origin, child, said, said - STOP, count_tokens(text))


def _weigh(found: Sequence[_Sentence]) -> None:
    """Set the worth of each sentence: how central it is, and what it holds."""
    spread = Counter(term for sentence in found for term in sentence.terms)
    many = len(found)
    weight = {term: log(1.0 + many / count) for term, count in spread.items()}
    # The sum of a sentence's likeness to all the others, from the counts alone: linear in the words.
    pull = {term: weight[term] ** 2 * (count - 1) for term, count in spread.items()}
    central = [
        sum(pull[term] for term in sentence.terms) / sqrt(sum(weight[term] ** 2 for term in sentence.terms) or 1.0)
        for sentence in found
    ]
    most = max(central, default=0.0) or 1.0
    for sentence, pulled in zip(found, central, strict=True):
        sentence.worth = (0.3 * pulled / most + _held(sentence)) * _form(sentence)


def _held(sentence: _Sentence) -> float:
    """Return what a sentence holds, 0 … 1: numbers, names, what it does, and words that are not stop words."""
    text = sentence.text
    lowered = text.lower()
    held = 0.12 * min(3, len(_NUMBER.findall(text))) + 0.08 * min(4, len(_NAME.findall(text)))
    held += 0.22 if DECISION.is_in(sentence.words, lowered) else 0.0
    held += 0.12 if DEADLINE.is_in(sentence.words, lowered) or COMMITMENT.is_in(sentence.words, lowered) else 0.0
    held += 0.08 if CAUSE.is_in(sentence.words, lowered) else 0.0
    return min(1.0, held + 0.2 * min(1.0, len(sentence.terms) / 10))


def _form(sentence: _Sentence) -> float:
    """Return by how much the form of a sentence takes away from its worth."""
    text = sentence.text
    factor = 1.0
    if len(sentence.terms) < 4:
        factor *= 0.3 + 0.15 * len(sentence.terms)
    if sentence.tokens > _LONG:
        factor *= _LONG / sentence.tokens
    if text.endswith(("?", "？")):
        factor *= 0.6
    if CHATTER.match(text.lower()):
        factor *= 0.4
    if 8 * len(_SYMBOLS.findall(text)) > sentence.tokens:
        factor *= 0.4
    return factor


def _choose(found: Sequence[_Sentence], budget: int, shared_title: str | None) -> list[_Sentence]:
    """Return the sentences to keep, in their order: at each step the one that adds most for its length."""
    spread = Counter(term for sentence in found for term in sentence.terms)
    weight = {term: log(1.0 + len(found) / count) for term, count in spread.items()}
    said: set[str] = set()
    taken: Counter[int] = Counter()

    def gain(sentence: _Sentence) -> float:
        whole = sum(weight[term] for term in sentence.terms)
        new = sum(weight[term] for term in sentence.terms if term not in said)
        fresh = new / whole if whole else 0.0
        if fresh < _TOLD_ALREADY:
            return 0.0
        return sentence.worth * fresh / sqrt(sentence.tokens + 4) / (1.0 + 0.1 * taken[sentence.child])

    chosen: list[int] = []
    skipped = [(-gain(sentence), number) for number, sentence in enumerate(found)]
    for _ in range(2):  # headers turn out shorter than they were counted: what is left over is used as well
        used = count_tokens(_written([found[number] for number in sorted(chosen)], shared_title)) if chosen else 1
        origins = {found[number].origin for number in chosen}
        heap, skipped = skipped, []
        heapify(heap)
        while heap:
            known, number = heappop(heap)
            sentence = found[number]
            now = -gain(sentence)
            if now >= 0.0:
                continue
            if now > known and heap and (now, number) > heap[0]:
                heappush(heap, (now, number))
                continue
            header = (
                0 if sentence.origin in origins else count_tokens(_header(sentence.origin, None, shared_title) or "")
            )
            if used + header + sentence.tokens > budget:
                skipped.append((now, number))
                continue
            used += header + sentence.tokens
            origins.add(sentence.origin)
            chosen.append(number)
            said |= sentence.terms
            taken[sentence.child] += 1
    if not chosen and found:
        return [_cut(max(found, key=lambda sentence: sentence.worth), budget)]
    kept = sorted(chosen)
    # Headers were counted one by one; where another order of the origins made more of them, the least goes.
    while len(kept) > 1 and count_tokens(_written([found[number] for number in kept], shared_title)) > budget:
        kept.remove(min(kept, key=lambda number: found[number].worth))
    return [found[number] for number in kept]


def _cut(sentence: _Sentence, budget: int) -> _Sentence:
    """Return the beginning of a sentence that is longer than the whole summary may be."""
    text = sentence.text
    while text and count_tokens(text) > budget - 24:
        text = text[: len(text) * 3 // 4].rpartition(" ")[0] or text[: len(text) // 2]
    return _Sentence(
        text, _Origin(sentence.origin.date, None, None), sentence.child, frozenset(), frozenset(), count_tokens(text)
    )


def _written(chosen: Iterable[_Sentence], shared_title: str | None) -> str:
    lines: list[str] = []
    before: _Origin | None = None
    for sentence in chosen:
        if before is None or sentence.origin != before:
            header = _header(sentence.origin, before, shared_title)
            if header is not None:
                lines.append(header)
            before = sentence.origin
        lines.append(sentence.text)
    return "\n".join(lines)


def _header(origin: _Origin, before: _Origin | None, shared_title: str | None) -> str | None:
    """Return the header line that leads from one origin to the next, ``None`` where nothing that is said changes."""
    first = before is None
    before = before or _Origin(None, None, shared_title)
    parts: list[str] = []
    if origin.date != before.date or (before.author and not origin.author):
        parts = [origin.date or _UNDATED, *([origin.author] if origin.author else [])]
    elif origin.author != before.author:
        parts = [origin.author or ""]
    title = origin.title if origin.title != shared_title else None
    title_before = before.title if before.title != shared_title else None
    if title != title_before:
        parts.append(f"“{title or ''}”")
    if not parts and not first:
        return None
    return " ".join(("—", _SEAM.join(parts))).rstrip()


def _plain_title(title: str | None) -> str | None:
    if not title:
        return None
    plain = " ".join(title.replace("·", "-").replace("“", '"').replace("”", '"').split())
    return (plain if len(plain) <= _TITLE_LIMIT else plain[: _TITLE_LIMIT - 1].rstrip() + "…") or None


def _title(children: Sequence[SummaryInput]) -> str | None:
    """Return the title of a group: the one they share, else the commonest ones, as many as fit into a line."""
    counted: Counter[str] = Counter()
    for child in children:
        for part in (child.title or "").split(_SEAM):
            plain = _plain_title(_REPLY.sub("", part.strip()))
            if plain is not None:
                counted[plain] += 1
    title = ""
    for name, _ in sorted(counted.items(), key=lambda item: -item[1]):
        longer = f"{title}{_SEAM}{name}" if title else name
        if len(longer) > _TITLE_LIMIT and title:
            break
        title = longer
    return title or None
