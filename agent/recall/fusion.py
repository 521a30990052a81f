"""One order out of two sides: words and meaning, by their scores, weighed by kind of node.

Each side is divided by its own best, so that how far a text is behind counts, not only its place. Measured, with the
words near in meaning, against reciprocal rank fusion (k = 10, 3 : 1): SciFact nDCG@10 0.693 → 0.702; over 500 pages of
documentation, mail and chats, from one-line descriptions to their page, reciprocal rank 0.868 → 0.890, and of 49
paraphrased questions the right text among the first five 20 → 28 times. Then with titles in the vectors, pairs,
squares, openings and more weight for the page: 0.708 → 0.712, 0.888 → 0.930, and 28 again (reciprocal rank 0.383 →
0.412). What did not help: at most two texts of a page in a list, neighbours' evidence, weights for titles in BM25,
relevance feedback.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.states import NodeKind, SourceKind

# The share of the meaning side by kind of node. On chunks of ten chat turns it hurts (0.750 against 0.758 for words
# alone: embeddings.md).
MEANING_SHARE = {
    SourceKind.DOCUMENT.value: 0.4,
    SourceKind.EMAIL.value: 0.4,
    SourceKind.CHAT.value: 0.1,
    NodeKind.SUMMARY.value: 0.4,
}

# What the best other text of its document adds to a text: a page that answers well elsewhere is the right page.
CONTEXT = 0.3

# What the first text of a document gets of the best of its page: it says what the page is about.
OPENING = 0.13

# The two sides are added as squares: a text that one of them is sure of comes before one that both find middling.
POWER = 2

# A summary repeats the words of all it covers; among equals the leaf is what was asked for.
SUMMARY_FACTOR = 0.8

# What extraction found to be of no weight is found, below what has some.
DROPPED_FACTOR = 0.5


@dataclass(frozen=True)
class Candidate:
    """A node that one of the sides found. ``node`` is the chunk's number, or minus the summary's."""

    node: int
    node_id: str
    kind: str  # document, email or chat of a leaf; summary
    time_ms: int | None
    item: int | None = None  # what a leaf is a part of
    dropped: bool = False
    first: bool = False  # of its item


def fuse(
    words: dict[int, float], meaning: dict[int, float] | None, candidates: list[Candidate]
) -> list[tuple[Candidate, float]]:
    """Return the candidates with their scores in 0 … 1, best first, then the newest, then by id.

    ``words`` and ``meaning`` are each side's scores by node, higher is better; ``meaning`` is ``None`` where that side
    has nothing to say about the query, and words are all there is.
    """
    best_words = max(words.values(), default=0.0) or 1.0
    best_meaning = max(meaning.values(), default=0.0) if meaning else 0.0
    own: dict[int, float] = {}
    for candidate in candidates:
        share = MEANING_SHARE.get(candidate.kind, 0.4) if meaning is not None else 0.0
        score = (1 - share) * (words.get(candidate.node, 0.0) / best_words) ** POWER
        if meaning and best_meaning > 0:
            score += share * (max(0.0, meaning.get(candidate.node, 0.0)) / best_meaning) ** POWER
        own[candidate.node] = score ** (1 / POWER)
    support = _support(own, candidates)
    scored = []
    for candidate in candidates:
        score = own[candidate.node]
        page = support.get(candidate.node, score / 2)
        opening = max(score, page) if candidate.first and candidate.kind == SourceKind.DOCUMENT.value else 0.0
        score = (score + CONTEXT * page) / (1 + CONTEXT)
        score = (score + OPENING * opening) / (1 + OPENING)
        if candidate.kind == NodeKind.SUMMARY.value:
            score *= SUMMARY_FACTOR
        if candidate.dropped:
            score *= DROPPED_FACTOR
        scored.append((candidate, round(score, 6)))
    return sorted(scored, key=_order)


def _support(own: dict[int, float], candidates: list[Candidate]) -> dict[int, float]:
    """Return, for each text of a document, the score of the best other text of the same document, or 0.

    A mail is one text mostly, and a chat's item is a whole day, whose turns say nothing about each other.
    """
    texts: dict[int, list[tuple[float, int]]] = {}
    for candidate in candidates:
        if candidate.kind == SourceKind.DOCUMENT.value and candidate.item is not None:
            texts.setdefault(candidate.item, []).append((own[candidate.node], candidate.node))
    support: dict[int, float] = {}
    for of_one in texts.values():
        of_one.sort(reverse=True)
        second = of_one[1][0] if len(of_one) > 1 else 0.0
        for at, (_, node) in enumerate(of_one):
            support[node] = second if at == 0 else of_one[0][0]
    return support


def _order(hit: tuple[Candidate, float]) -> tuple[float, int, str]:
    candidate, score = hit
    undated = -(1 << 62)
    return (-score, -(candidate.time_ms if candidate.time_ms is not None else undated), candidate.node_id)
