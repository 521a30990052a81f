"""Vectors by a profile's embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.models.calling import ModelCalls
    from agent.profile_intent import ProfileIntent


class ModelEmbedder:
    """Vectors by a profile's embedding model; ``calls`` is ``None`` where only the signature is wanted."""

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None) -> None:
        self._calls = calls
        self.dimensions = profile.embedding_dimensions or 0
        self.signature = f"{profile.provider}:{profile.embedding_model}@{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return an int8 array of shape (len(texts), dimensions)."""
        raise NotImplementedError

    def windows(self, text: str) -> list[str]:
        """Return a node's text cut into windows the model sees whole."""
        raise NotImplementedError

    def trusts(self, query: str) -> bool:
        """Return whether a query is in a language that these vectors are good for."""
        raise NotImplementedError
