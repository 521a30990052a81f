"""Summaries without a model: the sentences of a group that carry most, as they stand, in order, under their dates.

A sentence is chosen for being central (it shares words with the rest of the group), for what it holds (numbers, names,
decisions) and for saying what is not said yet. From the third level on almost every sentence is a statement that was
chosen twice: there it counts how many fit, and a sentence is left out only for its length or for being a repetition.
Nothing depends on a clock or on any other text than the group's: the same group gives the same bytes, in every process.
Words are in sets, whose order is another one in each process, so their weights are added by ``fsum``, which rounds once
whatever the order: a last digit that differs is enough to choose another sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import fsum, log, sqrt

from agent.models.builtin.lines import Origin, Sentence, header_line, in_periods, read, read_whole, title_of, written
from agent.models.builtin.rules.cues import CAUSE, CHATTER, COMMITMENT, DEADLINE, DECISION
from agent.models.protocol import SummaryRequest, SummaryText
from agent.tokens import count_tokens

_LONG = 48  # tokens; what is longer costs more than it says
_TOLD_ALREADY = 0.2  # a sentence with less that is new is a repetition
_CENTRAL = 0.15  # what being central weighs against what a sentence holds (0 … 1)
_DEAR = 0.7  # how much tokens count against what they say
_SCRAP = 0.02  # what a sentence of a word or two is worth: something where there is nothing else
_OFTEN = 0.1  # how much each sentence taken from a child takes away from its others
_HIGH = 3  # the level from which on what comes in was chosen twice: as much of it as can be is kept

_NUMBER = re.compile(r"\d[\d.,:/-]*")
_CAPITAL = re.compile(r"[A-ZÀ-ÖØ-Þ]\w")
_ONE_CAPITAL = re.compile(r"\W*[A-ZÀ-ÖØ-Þ]\w*\W+[^\WA-ZÀ-ÖØ-Þ]")  # the first word alone has one: it begins a sentence
_SYMBOLS = re.compile(r"[{}<>=|\\^~`$;]")


class BuiltinSummariser:
    """Extractive summaries: no sentence is written, only chosen. Blocks on nothing."""

    signature = "builtin:extractive-2"

    def summarise(self, request: SummaryRequest) -> SummaryText:
        """Return a summary of at most ``budget_tokens``; where the whole input fits into it, the whole input."""
        title = title_of(request.children)
        text = _whole(request, title)
        if text is None:
            found = [
                sentence
                for number, child in enumerate(request.children)
                for sentence in read(child, number, request.level)
            ]
            if request.level >= _HIGH:
                in_periods(found, request.budget_tokens)
            if request.tree_kind != "document":
                found.sort(key=lambda sentence: sentence.origin.date or "")
            text = written(_Choice(found, request, title).made(), title)
        return SummaryText(text, title, count_tokens(text))


def _whole(request: SummaryRequest, title: str | None) -> str | None:
    """Return the children's texts as they are, under headers if there is room; ``None`` where they are too long."""
    if sum(child.tokens for child in request.children) > request.budget_tokens:
        return None
    whole = [each for number, child in enumerate(request.children) for each in read_whole(child, number, request.level)]
    for text in (written(whole, title), "\n\n".join(child.text.strip() for child in request.children)):
        if count_tokens(text) <= request.budget_tokens:
            return text
    return None


class _Choice:
    """The sentences of a group with their worth, and the greedy choice among them."""

    def __init__(self, found: Sequence[Sentence], request: SummaryRequest, title: str | None) -> None:
        self._found = found
        self._budget = request.budget_tokens
        self._high = request.level >= _HIGH
        self._title = title
        spread = Counter(term for sentence in found for term in sentence.terms)
        self._weight = {term: log(1.0 + len(found) / count) for term, count in spread.items()}
        self._whole = [fsum(map(self._weight.__getitem__, sentence.terms)) for sentence in found]
        self._weigh(spread)
        self._said: set[str] = set()
        self._taken: Counter[int] = Counter()
        self._beside: dict[Origin, list[int]] = {}
        for number, sentence in enumerate(found):
            self._beside.setdefault(sentence.origin, []).append(number)
        # What a sentence adds in tokens, with its header where that is not there yet, and what that counts for.
        headers = {origin: count_tokens(header_line(origin, None, title) or "") for origin in self._beside}
        self._cost = [sentence.tokens + headers[sentence.origin] for sentence in found]
        self._price = [self._priced(cost) for cost in self._cost]

    def _weigh(self, spread: Counter[str]) -> None:
        """Set the worth of each sentence: how central it is, and what it holds."""
        # A sentence's likeness to all the others is a sum over its words: linear, no matrix of sentences.
        pull = {term: self._weight[term] * log(count) for term, count in spread.items()}
        central = [fsum(map(pull.__getitem__, each.terms)) / sqrt(len(each.terms) + 1.0) for each in self._found]
        most = max(central, default=0.0) or 1.0
        repeated = Counter(sentence.text for sentence in self._found)
        for sentence, pulled in zip(self._found, central, strict=True):
            lowered = sentence.text.lower()
            worth = (_CENTRAL * pulled / most + _held(sentence, lowered)) * _form(sentence, lowered)
            sentence.worth = worth / repeated[sentence.text]  # what stands in every mail is a footer

    def made(self) -> list[Sentence]:
        """Return the sentences to keep, in their order: at each step the one that adds most for its length."""
        chosen: set[int] = set()
        heap = [(-self._gain(number), number) for number in range(len(self._found))]
        for _ in range(3):  # headers turn out shorter than they were counted: what is left over is used as well
            heap = self._fill(heap, chosen)
        if not chosen and self._found:
            return [self._beginning()]
        kept = sorted(chosen)
        # Headers were counted one by one; where the order of the origins made more of them, the least goes.
        while len(kept) > 1 and count_tokens(self._text(kept)) > self._budget:
            kept.remove(min(kept, key=lambda number: self._found[number].worth))
        return [self._found[number] for number in kept]

    def _fill(self, heap: list[tuple[float, int]], chosen: set[int]) -> list[tuple[float, int]]:
        """Take sentences while they fit; return those that did not."""
        used = count_tokens(self._text(sorted(chosen))) if chosen else 1
        skipped: list[tuple[float, int]] = []
        heapify(heap)
        while heap:
            known, number = heappop(heap)
            if number in chosen:
                continue
            if used + self._cost[number] > self._budget:
                skipped.append((known, number))
                continue
            now = -self._gain(number)
            if now >= 0.0:
                continue
            # Gains only fall while others are taken, so one that is still the best needs no look at the rest.
            if now > known and heap and (now, number) > heap[0]:
                heappush(heap, (now, number))
                continue
            used += self._cost[number]
            self._take(number, chosen, heap)
        return skipped

    def _take(self, number: int, chosen: set[int], heap: list[tuple[float, int]]) -> None:
        sentence = self._found[number]
        chosen.add(number)
        self._said |= sentence.terms
        self._taken[sentence.child] += 1
        # Under a header that is there its other sentences come cheaper: the one case where gains rise.
        for near in self._beside.pop(sentence.origin, ()):
            self._cost[near] = self._found[near].tokens
            self._price[near] = self._priced(self._cost[near])
            if near not in chosen:
                heappush(heap, (-self._gain(near), near))

    def _gain(self, number: int) -> float:
        sentence = self._found[number]
        whole = self._whole[number]
        if not whole:
            return 0.0
        fresh = 1.0
        if not self._said.isdisjoint(sentence.terms):
            fresh -= fsum(map(self._weight.__getitem__, sentence.terms & self._said)) / whole
            if fresh < _TOLD_ALREADY:
                return 0.0
        worth = sqrt(sentence.worth) if self._high else sentence.worth * fresh
        return worth / (self._price[number] * (1.0 + _OFTEN * self._taken[sentence.child]))

    def _priced(self, tokens: int) -> float:
        return float(tokens) if self._high else float((tokens + 4.0) ** _DEAR)

    def _text(self, kept: Sequence[int]) -> str:
        return written([self._found[number] for number in kept], self._title)

    def _beginning(self) -> Sentence:
        """Return the beginning of the best sentence, for a group whose every sentence is longer than the budget."""
        best = max(self._found, key=lambda sentence: sentence.worth)
        text = best.text
        room = max(1, self._budget - 8)  # the header is a date alone
        while text and count_tokens(text) > room:
            shorter = text[: len(text) * 3 // 4]
            text = shorter.rpartition(" ")[0] or shorter
        return Sentence(
            text, Origin(best.origin.date, None, None), best.child, best.words, best.terms, count_tokens(text)
        )


def _held(sentence: Sentence, lowered: str) -> float:
    """Return what a sentence holds, 0 … 1: numbers, names, what it does, and words that are not stop words."""
    text = sentence.text
    said = sentence.words
    capitals = len(_CAPITAL.findall(text)) - (_ONE_CAPITAL.match(text) is not None)
    held = 0.12 * min(3, len(_NUMBER.findall(text))) + 0.08 * min(4, capitals)
    held += 0.22 if DECISION.is_in(said, lowered) else 0.0
    held += 0.12 if DEADLINE.is_in(said, lowered) or COMMITMENT.is_in(said, lowered) else 0.0
    held += 0.08 if CAUSE.is_in(said, lowered) else 0.0
    return min(1.0, held + 0.2 * min(1.0, len(sentence.terms) / 10))


def _form(sentence: Sentence, lowered: str) -> float:
    """Return by how much the form of a sentence takes away from its worth: a factor, 1 for nothing."""
    if len(sentence.terms) < 3:
        return _SCRAP
    factor = 1.0
    if sentence.tokens > _LONG:
        factor *= _LONG / sentence.tokens
    if lowered.endswith(("?", "？")):
        factor *= 0.6
    if CHATTER.match(lowered):
        factor *= 0.4
    if 8 * len(_SYMBOLS.findall(lowered)) > sentence.tokens:
        factor *= 0.4
    return factor
