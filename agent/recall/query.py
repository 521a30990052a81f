"""What an owner typed, as the full-text index understands it.

Words are looked up one by one (OR), so that no character of FTS5's query language means anything; runs of CJK are cut
into the pairs that the index holds. Words that every text has are left out while others remain (``numbers.md``: 132 ms
for a sentence with them, 43 without, at 100,000 chunks).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent.db.text_index import index_text

if TYPE_CHECKING:
    from agent.db.connection import Connection

MAX_TERMS = 64  # of a pasted page only so many words are looked up

# A term in more nodes than both of these is left out. A fifth is the most that costs nothing measurable in nDCG
# (SciFact: 0.685 with all, 0.682 at a fifth, 0.675 at a tenth); below the floor no query is slow.
COMMON_SHARE = 0.2
COMMON_FLOOR = 10_000
FEWEST_TERMS = 2

MAX_PAIRS = 8
PAIR_WORDS = 4  # so many words may stand between two that are looked for together

NEAR_WORDS_A_TERM = 2
NEAR_WORDS_PLACES = 12_000

_STOP = (
    "a about all also am an and any are as at be because been being but by can could d did do does doing "
    "don for from get gets getting got had has have having he her here hers him his how i if in into is "
    "isn it its just ll m me my no nor not of on once only or other our ours out over own please re s "
    "same she should so some such t than that the their theirs them then there these they this those "
    "through to too up us ve very was we were what when where which while who whom whose why will with "
    "would you your yours"
)
STOP_WORDS = frozenset(_STOP.split())

TOKENIZER = ("porter", ("unicode61", "remove_diacritics", "2"))  # as mem_tree_text is declared


@dataclass(frozen=True)
class Query:
    """A query's terms in the order typed: single words, or digits that belong together (``3.8``, ``2018-02-27``)."""

    text: str
    terms: tuple[str, ...]

    def expression(self) -> str:
        """Return the terms as an FTS5 expression; empty where there are none."""
        return " OR ".join(f'"{term}"*' if _is_lone_cjk(term) else f'"{term}"' for term in self.terms)

    def pairs(self) -> str:
        """Return, as an FTS5 expression, neighbours among the terms as neighbours in a text; empty where none are."""
        following = zip(self.terms[:MAX_PAIRS], self.terms[1:], strict=False)
        return " OR ".join(f'NEAR("{term}" "{following_term}", {PAIR_WORDS})' for term, following_term in following)


def _is_lone_cjk(term: str) -> bool:
    # The index holds pairs: one character finds those that begin with it.
    return len(term) == 1 and index_text(term) != term


@lru_cache(maxsize=1)
def _pattern() -> Any:
    # Python's own \w drops Thai and Hindi vowel signs (numbers.md).
    import regex  # type: ignore[import-untyped]

    return regex.compile(r"\p{N}+(?:[.,:/-]\p{N}+)+|[\p{L}\p{M}\p{N}_]+")


def parse_query(text: str) -> Query:
    """Return a query's terms: distinct, without stop words unless nothing else was typed."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    words: dict[str, str] = {}
    for word in _pattern().findall(index_text(clean)):
        words.setdefault(word.casefold(), word)
    telling = [word for folded, word in words.items() if folded not in STOP_WORDS]
    return Query(clean, tuple((telling or list(words.values()))[:MAX_TERMS]))


def without_common_terms(connection: Connection, query: Query, nodes: int) -> Query:
    """Return the query without terms that a fifth of a large memory contains; its two rarest always stay."""
    ceiling = max(COMMON_FLOOR, nodes * COMMON_SHARE)
    if nodes <= ceiling or len(query.terms) <= FEWEST_TERMS:
        return query
    _prepare_terms(connection)
    counts = {term: _nodes_with(connection, term) for term in query.terms}
    kept = {term for term in query.terms if counts[term] <= ceiling}
    if len(kept) < FEWEST_TERMS:
        kept = set(sorted(query.terms, key=lambda term: (counts[term], term))[:FEWEST_TERMS])
    return Query(query.text, tuple(term for term in query.terms if term in kept))


def with_near_words(connection: Connection, query: Query, near: dict[str, tuple[str, ...]], nodes: int) -> Query | None:
    """Return a query for words near in meaning to those asked for, two a word at most; ``None`` where there are none.

    What has the same stem is found anyway. Rare words first, and no more than a few thousand places in the index: a
    near word may help, it must not make the search slow.
    """
    known = {stem for term in query.terms for stem in stem_words(connection, term)}
    found: list[str] = []
    for term in query.terms:
        taken = 0
        for word in near.get(term, ()):
            stems = set(stem_words(connection, word))
            if taken < NEAR_WORDS_A_TERM and not stems & known:
                known |= stems
                found.append(word)
                taken += 1
    if nodes > NEAR_WORDS_PLACES:
        _prepare_terms(connection)
        left = NEAR_WORDS_PLACES
        counted = sorted((_nodes_with(connection, word), word) for word in found)
        found = []
        for count, word in counted:
            if count <= left:
                left -= count
                found.append(word)
    return Query(query.text, tuple(found)) if found else None


def _prepare_terms(connection: Connection) -> None:
    # A table of this connection alone; it only reads the index's own list of terms.
    connection.run(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.mem_tree_terms USING fts5vocab ('main', 'mem_tree_text', 'row')"
    )


def _nodes_with(connection: Connection, term: str) -> int:
    stems = stem_words(connection, term)
    if len(stems) != 1:
        return 0  # digits that belong together are a phrase, far rarer than its parts
    found = connection.value("SELECT doc FROM temp.mem_tree_terms WHERE term = ?", (stems[0],))
    return int(found or 0)


def stem_words(connection: Connection, text: str) -> list[str]:
    """Return the words of a text as the index stores them."""
    return [word for _, _, word in stem_spans(connection, text)]


def stem_spans(connection: Connection, text: str) -> list[tuple[int, int, str]]:
    """Return ``(start, end, stored word)`` of each word of a text; offsets in bytes of its UTF-8."""
    import apsw

    name, arguments = TOKENIZER
    tokenizer = connection.raw.fts5_tokenizer(name, list(arguments))
    raw = text.encode("utf-8", "replace")
    # Typed by apsw for every mixture of options; with these it is offsets and a word.
    found: Any = tokenizer(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    return [(start, end, word) for start, end, word in found]
