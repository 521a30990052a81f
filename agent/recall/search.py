"""Search: words and meaning over leaves and summaries in one list (RAPTOR's lesson), with where each hit comes from.

The words are looked up by BM25, with words near them in meaning at half weight and a little for standing together; the
meaning is the best window of a node; ``fusion.py`` makes one order of both. Meaning, near words and pairs take part in
languages that the vectors are good for, and in no other.
"""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.errors import SapwoodError, UsageFault
from agent.models.protocol import KnowsNearWords
from agent.recall.coverage import coverage, has_chunks
from agent.recall.filters import Filters
from agent.recall.fulltext import best_pairs, best_texts, first_of
from agent.recall.fusion import Candidate, fuse
from agent.recall.latest import outdated_summaries
from agent.recall.provenance import Parent, parents_of, read_locator, resolve_path, summary_origin
from agent.recall.query import Query, parse_query, with_near_words, without_common_terms
from agent.states import Lifecycle, NodeKind, Searched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.config import Intent
    from agent.db.connection import Connection
    from agent.models.protocol import Profile
    from agent.recall.vectors import WindowIndex

log = logging.getLogger("sapwood.recall")

CANDIDATES = 200  # of each side
MAX_HITS = 1_000
SCORED = 400  # by words: what the meaning found is weighed by its words too, also where others have more of them
NEAR_WORDS_WEIGHT = 0.5  # of a word that is only near in meaning to one that was asked for
PAIRS_WEIGHT = 0.1  # of words that stand together in the query and in the text, besides their own

_LEAVES = """
SELECT c.seq, c.chunk_id, c.source_kind, c.time_ms, c.item_seq, c.lifecycle,
       NOT EXISTS (SELECT 1 FROM mem_tree_chunks AS p WHERE p.item_seq = c.item_seq AND p.order_key < c.order_key)
  FROM json_each(?) AS wanted
  CROSS JOIN mem_tree_chunks AS c ON c.seq = wanted.value
"""

_SUMMARIES = """
SELECT -s.seq, s.summary_id, s.last_time_ms
  FROM json_each(?) AS wanted
  CROSS JOIN mem_tree_summaries AS s ON s.seq = -wanted.value
 WHERE s.stale = 0
"""

_LEAF = """
SELECT text, title, source_id, locator, author
  FROM mem_tree_chunks
 WHERE chunk_id = ?
"""

_SUMMARY = """
SELECT text, title, level
  FROM mem_tree_summaries
 WHERE summary_id = ?
"""

_NODES = """
SELECT (SELECT coalesce(max(seq), 0) FROM mem_tree_chunks) + (SELECT coalesce(max(seq), 0) FROM mem_tree_summaries)
"""


@dataclass(frozen=True)
class Hit:
    """One node that was found. ``score`` is in 0 … 1 and only comparable within one search; ``text`` is whole;
    ``time`` is ISO 8601 with offset; ``parents`` go from the nearest up to the root.
    """

    node_id: str
    kind: str  # leaf | summary
    level: int  # 0: leaf
    score: float
    text: str
    title: str | None
    source_id: str
    path: str | None
    locator: dict[str, Any] | None
    author: str | None
    time: str | None
    parents: tuple[Parent, ...]
    dropped: bool = False  # kept for provenance: extraction found it of no weight

    def as_json(self) -> dict[str, Any]:
        """Return the keys that scripts rely on; ``dropped`` is there only where it is so."""
        found = {key: value for key, value in self.__dict__.items() if key not in ("parents", "dropped")}
        found["parents"] = [parent.as_json() for parent in self.parents]
        if self.dropped:
            found["dropped"] = True
        return found


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first, and how much of the memory was looked at. ``note``: why only words were, where that is so."""

    searched: Searched
    hits: tuple[Hit, ...]
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the keys that scripts rely on; ``note`` is there only where there is one."""
        found: dict[str, Any] = {"searched": self.searched.value, "hits": [hit.as_json() for hit in self.hits]}
        if self.note is not None:
            found["note"] = self.note
        return found


def search(
    connection: Connection,
    profile: Profile,
    query: str,
    *,
    limit: int = 10,
    source: str | None = None,
    kind: NodeKind | str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    entity: str | None = None,
    readable: tuple[str, ...] | None = None,
    intent: Intent | None = None,
) -> SearchResult:
    """Return the best nodes for a query, by score, then the newest, then by id.

    With ``readable`` nothing but these sources is looked at, so that as many hits are found in them as without.

    ``profile`` is that of the serving signature (``serving.py``); where its model cannot be asked, words alone are
    searched. Times are UTC milliseconds, both ends included. With ``intent`` paths are those of the owner's disk.
    Raises ``UsageFault`` for an impossible limit or kind. Blocks for some tens of milliseconds at 100,000 nodes
    (the first search of a process for some hundreds: the vectors are read then), and for the embedder where it is a
    remote one.
    """
    filters = _filters(limit, source, kind, since_ms, until_ms, entity, readable)
    searched = coverage(connection, profile.embedder.signature, source)
    asked = parse_query(query)
    if not has_chunks(connection):
        return SearchResult(searched, ())
    limit = min(limit, MAX_HITS)
    take = max(CANDIDATES, 4 * limit)
    meaning, note = _prepare_meaning(connection, profile, asked)
    if note is not None and searched is Searched.FULL:
        searched = Searched.PARTIAL
    nodes = int(connection.value(_NODES))
    near = _near_words(connection, profile, asked, nodes) if meaning is not None else None
    asked = without_common_terms(connection, asked, nodes)
    with nullcontext() if connection.in_transaction else connection.snapshot():
        words, found = _word_scores(connection, asked, near, filters, take, together=meaning is not None)
        close = _meaning_scores(connection, meaning, found, filters, take)
        candidates = _candidates(connection, [*found, *(close or ())])
        ranked = fuse(words, close, candidates)[:limit]
        hits = tuple(_hit(connection, candidate, score, intent) for candidate, score in ranked)
    return SearchResult(searched, hits, note)


def _filters(
    limit: int,
    source: str | None,
    kind: NodeKind | str | None,
    since_ms: int | None,
    until_ms: int | None,
    entity: str | None,
    readable: tuple[str, ...] | None,
) -> Filters:
    if limit < 1:
        raise UsageFault("a search needs room for one hit at least", f"limit {limit}", "leave the limit out")
    try:
        wanted = NodeKind(kind) if kind is not None else None
    except ValueError as error:
        raise UsageFault("there is no such kind of node", str(kind), "use leaf or summary") from error
    name = " ".join(entity.casefold().split()) if entity is not None else None
    return Filters(source, wanted, since_ms, until_ms, name, readable)


@dataclass(frozen=True)
class _Meaning:
    index: WindowIndex
    vector: NDArray[Any]


def _prepare_meaning(connection: Connection, profile: Profile, query: Query) -> tuple[_Meaning | None, str | None]:
    """Return what the meaning side needs, or ``None`` where it has nothing to say; and why its model was not asked."""
    embedder = profile.embedder
    try:
        if not query.terms or not embedder.trusts(query.text):
            return None, None
        from agent.recall.vectors import window_index  # numpy: only where vectors are looked at

        index = window_index(connection, embedder.signature, embedder.dimensions)
        if index is None:
            return None, None
        vector = embedder.embed([query.text])[0]
    except SapwoodError as error:
        log.warning("the query could not be embedded, words alone are searched: %s", error.title)
        return None, error.title
    return (_Meaning(index, vector) if vector.any() else None), None


def _near_words(connection: Connection, profile: Profile, query: Query, nodes: int) -> Query | None:
    embedder = profile.embedder
    if not isinstance(embedder, KnowsNearWords):
        return None
    return with_near_words(connection, query, embedder.near_words(query.terms), nodes)


def _word_scores(
    connection: Connection, query: Query, near: Query | None, filters: Filters, take: int, *, together: bool
) -> tuple[dict[int, float], set[int]]:
    """Return the scores of the best texts, and which of them are candidates by their words.

    BM25 adds up term by term, so that of near words and of pairs is added at its weight. ``together``: whether pairs
    are looked for; they are measured in the languages that the meaning side knows, and help there.
    """
    sides = [(1.0, best_texts(connection, query, filters, max(SCORED, take)))]
    if near is not None:
        sides.append((NEAR_WORDS_WEIGHT, best_texts(connection, near, filters, max(SCORED, take))))
    if together:
        sides.append((PAIRS_WEIGHT, best_pairs(connection, query, filters, max(SCORED, take))))
    scores: dict[int, float] = {}
    candidates: set[int] = set()
    for weight, found in sides:
        candidates.update(first_of(found, take))
        for node, score in found:
            scores[node] = scores.get(node, 0.0) + weight * score
    return scores, candidates


def _meaning_scores(
    connection: Connection, meaning: _Meaning | None, words: set[int], filters: Filters, take: int
) -> dict[int, float] | None:
    """Return the scores of the nearest nodes, and of those that the words found."""
    if meaning is None:
        return None
    from agent.recall.vectors import nearest, scores_of

    similarities = meaning.index.similarities(meaning.vector)
    scores = dict(nearest(connection, meaning.index, similarities, filters, take))
    scores.update(scores_of(meaning.index, similarities, words))
    return scores


def _candidates(connection: Connection, nodes: list[int]) -> list[Candidate]:
    wanted = json.dumps(sorted(set(nodes)))
    found = [
        Candidate(node, node_id, source_kind, time_ms, item, lifecycle == Lifecycle.DROPPED, bool(first))
        for node, node_id, source_kind, time_ms, item, lifecycle, first in connection.all(_LEAVES, (wanted,))
    ]
    outdated = outdated_summaries(connection)
    found += [
        Candidate(node, node_id, NodeKind.SUMMARY.value, time_ms)
        for node, node_id, time_ms in connection.all(_SUMMARIES, (wanted,))
        if node_id not in outdated
    ]
    return found


def _hit(connection: Connection, candidate: Candidate, score: float, intent: Intent | None) -> Hit:
    parents = parents_of(connection, candidate.node_id)
    if candidate.kind == NodeKind.SUMMARY.value:
        text, title, level = connection.all(_SUMMARY, (candidate.node_id,))[0]
        origin = summary_origin(connection, candidate.node_id, intent)
        return Hit(
            node_id=candidate.node_id,
            kind=NodeKind.SUMMARY.value,
            level=level,
            score=score,
            text=text,
            title=title,
            source_id=origin.source_id if origin is not None else "",
            path=origin.path if origin is not None else None,
            locator=None,
            author=None,
            time=iso(candidate.time_ms),
            parents=parents,
        )
    text, title, source_id, locator, author = connection.all(_LEAF, (candidate.node_id,))[0]
    place = read_locator(locator)
    return Hit(
        node_id=candidate.node_id,
        kind=NodeKind.LEAF.value,
        level=0,
        score=score,
        text=text,
        title=title,
        source_id=source_id,
        path=resolve_path(place, intent.source(source_id) if intent is not None else None),
        locator=place,
        author=author,
        time=iso(candidate.time_ms),
        parents=parents,
        dropped=candidate.dropped,
    )
