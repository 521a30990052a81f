"""What the tree and the workers want from a model, whoever provides it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Entity:
    """Something named in a text.

    ``kind`` is one of person, organisation, place, product, email, url, handle, hashtag, date, amount.
    """

    kind: str
    name: str  # normalised: case-folded, white space collapsed; complete dates as ISO
    surface: str  # as it stands in the text
    start: int  # offset of the surface in the text, in characters
    mentions: int = 1


@dataclass(frozen=True)
class Extraction:
    """What an extractor found in one chunk: ``importance`` in 0 … 1, ``signals`` only those that were there."""

    entities: tuple[Entity, ...]
    importance: float
    signals: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SummaryInput:
    """One child of a group, whole: never a preview."""

    node_id: str
    text: str
    tokens: int
    title: str | None = None
    heading_path: str | None = None
    author: str | None = None
    time_ms: int | None = None
    last_time_ms: int | None = None


@dataclass(frozen=True)
class SummaryRequest:
    """Children in the order of the tree, the level of the summary to be made (1 and up) and its size.

    ``sources`` are the ids of the sources that the children's words come from.
    """

    children: tuple[SummaryInput, ...]
    level: int
    tree_kind: str
    budget_tokens: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class SummaryText:
    """A summary. ``degraded``: made by a fallback, to be made again when the model is back."""

    text: str
    title: str | None
    tokens: int
    degraded: bool = False


class Embedder(Protocol):
    """Texts to vectors. ``signature`` is ``provider:model@dim``."""

    signature: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return an int8 array of shape (len(texts), dimensions), each row L2-normalised and scaled by 127."""
        ...

    def windows(self, text: str) -> list[str]:
        """Return a node's text cut into windows the model sees whole (a turn, a paragraph; 200 pieces at most)."""
        ...

    def trusts(self, query: str) -> bool:
        """Return whether a query is in a language that these vectors are good for (the language gate)."""
        ...


@runtime_checkable
class AsksModel(Protocol):
    """What an embedder is besides where each ``embed`` is a call of a model: a run makes one, and has to bound it."""

    most_texts: int
    most_tokens: int

    def embed_some(self, texts: Sequence[str], sources: Iterable[str]) -> tuple[NDArray[Any], list[int]]:
        """Return what ``embed`` returns, and which texts the model has no vector for. ``sources`` are theirs."""
        ...


@runtime_checkable
class KnowsNearWords(Protocol):
    """What an embedder may be besides: one that can name words of nearly the same meaning, for the full-text side."""

    def near_words(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return, for each word it knows, others that mean nearly the same, nearest first. Deterministic."""
        ...


class Summariser(Protocol):
    """Children to one summary. ``signature`` names provider, model and prompt; it is part of every summary's id."""

    signature: str

    def summarise(self, request: SummaryRequest) -> SummaryText:
        """Return a summary of at most ``budget_tokens``. May block on a model; makes at most one call."""
        ...


class Extractor(Protocol):
    """A chunk to entities and importance."""

    signature: str

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        """Return what the text names and how much it matters. Each entity occurs in the text."""
        ...


@dataclass(frozen=True)
class Profile:
    """A set of models to work with. ``resource`` is what a permit is taken on; ``None`` needs none (built-in).

    ``unbound`` are LLM-bound kinds for which it calls no model (a built-in embedder's back-fill). ``packs``: one call
    asks about several chunks, so that rows of a batch are claimed together. ``is_cloud``: what it is asked leaves the
    machines that the owner named as local.
    """

    name: str
    embedder: Embedder
    summariser: Summariser
    extractor: Extractor
    resource: str | None = None
    permits: int = 1
    unbound: frozenset[str] = frozenset()
    packs: bool = False
    is_cloud: bool = False


def budget_tokens(input_tokens: int) -> int:
    """Return the size of a summary for an input of that size: a fifth, at least 60, at most 400 tokens.

    An input shorter than its budget passes through as it is.
    """
    return max(60, min(400, input_tokens // 5))
