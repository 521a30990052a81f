"""How much a chunk is worth, cheaply, and whether it is admitted.

A signal that is not there is left out of the mean, not counted as a half: elsewhere that made every score the same and
the admission unable to refuse anything. Admission is conservative: only noise is dropped, prose never is.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.ingest.canonical import BlockKind
from agent.states import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.ingest.chunker import Chunk
    from agent.models.protocol import Extraction

SCORE_VERSION = 1

_WEIGHTS = {"length": 1.0, "prose": 1.5, "variety": 1.0, "structure": 0.5, "voices": 0.5, "own_words": 1.0}
NOISE = ("empty", "blob", "repeated", "quoted_only", "signature_only")
"""Signals that are there only where they hold: a chunk with one of them is noise."""

DOUBT_FROM, DOUBT_TO = 0.4, 0.57
"""The doubtful middle of the deep score. Below it stands noise (0) and what is too little to ask about: a word alone.

Above it the rules found names, dates, decisions, or enough said to be kept whatever a model would say. Of 889 chunks
that were no noise 8 % are in it: 47 % of the mails (most of them test mail programs: "Hello", an attachment), 5 % of
the IRC logs, less than 1 % of READMEs and abstracts of papers (``tests/bench/model_share.py``).
"""
DROP_BELOW = 0.15
"""Of a model's importance, for a doubtful chunk. Its words stay in the full text."""

_ENOUGH_TOKENS = 120
_MANY_WORDS = 20
_ADDRESS_LINES = re.compile(r"(?:(?:From|To|Cc): [^\n]*\n?)+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_BLOB = re.compile(r"[A-Za-z0-9+/=_\-]{48,}|\b[0-9a-fA-F]{32,}\b")
_LONG_RUN = 32
_SAMPLE = 300  # characters at each end
_FEW_LETTERS = 12


@dataclass(frozen=True, slots=True)
class FastScore:
    """A score in 0 … 1 and the signals it came from."""

    score: float
    signals: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeepScore:
    """The score after extraction and the decision."""

    score: float
    admitted: bool


def is_doubtful(score: DeepScore) -> bool:
    """Return whether the rules' deep score leaves it open how much a chunk is worth, so that a model is asked."""
    return score.admitted and DOUBT_FROM <= score.score < DOUBT_TO


def fast_score(chunk: Chunk) -> FastScore:
    """Return the score of a chunk from its text alone: no model, no clock, no counts over the corpus. Pure."""
    text = chunk.text
    kinds = chunk.kinds
    if BlockKind.ADDRESSES in kinds:
        match = _ADDRESS_LINES.match(text)
        text = text[match.end() :] if match is not None else text
    signals: dict[str, float] = {"length": round(min(1.0, chunk.tokens / _ENOUGH_TOKENS), 4)}
    # A look at both ends tells as much as all of it, at a fraction of the cost.
    sample = text if len(text) <= 2 * _SAMPLE else f"{text[:_SAMPLE]} {text[-_SAMPLE:]}"
    runs = sample.split()
    words = _WORD.findall(sample)
    if runs:
        signals["prose"] = round(sum(map(len, words)) / sum(map(len, runs)), 4)
    if len(words) >= _MANY_WORDS:
        signals["variety"] = round(min(1.0, 2 * len(set(runs)) / len(runs)), 4)
    if chunk.heading_path:
        signals["structure"] = 1.0
    if chunk.source_kind is SourceKind.CHAT and chunk.turns:
        signals["voices"] = round(min(1.0, chunk.authors / 3), 4)
    if chunk.source_kind is SourceKind.EMAIL and runs:
        lines = [line for line in text.split("\n") if line.strip()]
        signals["own_words"] = round(1 - sum(line.startswith(">") for line in lines) / len(lines), 4)
    for name in _noise(text, runs, words, kinds):
        signals[name] = 1.0
    return FastScore(_mean(signals), signals)


def score_chunks_fast(chunks: Sequence[Chunk]) -> list[FastScore]:
    """Return the fast score of each chunk (lane 1's step of that name)."""
    return [fast_score(chunk) for chunk in chunks]


def _noise(text: str, runs: Sequence[str], words: Sequence[str], kinds: frozenset[BlockKind]) -> list[str]:
    found: list[str] = []
    said = kinds - {BlockKind.ADDRESSES}
    if said and said <= {BlockKind.SIGNATURE}:
        found.append("signature_only")
    elif BlockKind.QUOTE in said and said <= {BlockKind.QUOTE, BlockKind.SIGNATURE}:
        found.append("quoted_only")
    if not words and sum(map(str.isalnum, text)) < 2:
        found.append("empty")
        return found
    longest = max(map(len, runs))
    if longest >= _LONG_RUN:
        blob = sum(map(len, _BLOB.findall(text)))
        if blob > 0.8 * _dense(text) and len(_WORD.findall(_BLOB.sub(" ", text))) < 8:
            found.append("blob")
    if (not words or longest >= _LONG_RUN) and len(set(text[:200])) <= _FEW_LETTERS and len(text) >= 24:
        # One or two letters over and over: rules, padding, a key that was held down.
        common = sum(count for _, count in Counter("".join(text.split())).most_common(2))
        if common > 0.9 * _dense(text):
            found.append("repeated")
    return found


def _dense(text: str) -> int:
    return sum(map(len, text.split()))


def _mean(signals: Mapping[str, float]) -> float:
    if any(name in signals for name in NOISE):
        return 0.0
    present = [(value, _WEIGHTS[name]) for name, value in signals.items() if name in _WEIGHTS]
    total = sum(weight for _, weight in present)
    return round(sum(value * weight for value, weight in present) / total, 4) if total else 0.0


def deep_score(
    fast: float, signals: Mapping[str, float], extraction: Extraction | None, *, judged: bool = False
) -> DeepScore:
    """Return the final score and whether the chunk is admitted. Pure.

    ``extraction`` is ``None`` where the extractor could not be asked (a parked job): the fast score decides alone.
    ``judged``: its importance is a model's. Only then something that is no noise may be left out, and only what the
    model gives next to no importance: the rules' own word never drops prose.
    """
    admitted = not any(name in signals for name in NOISE)
    if extraction is None:
        return DeepScore(fast, admitted)
    if judged and extraction.importance < DROP_BELOW:
        admitted = False
    return DeepScore(round((fast + extraction.importance) / 2, 4), admitted)
