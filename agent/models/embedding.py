"""Vectors by a profile's embedding model, kept like those of the built-in table: int8, one for each window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agent.errors import JobFailure
from agent.models.builtin.windows import cut_windows
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.models.calling import ModelCalls
    from agent.profile_intent import ProfileIntent

WINDOW_TOKENS = 200
CONTEXT_SHARE = 0.6
"""Of a small context a window takes so much: a title stands above it, and tokenizers may count a fifth more."""
LOCAL_TEXTS, LOCAL_TOKENS = 64, 4_000
CLOUD_TEXTS, CLOUD_TOKENS = 256, 30_000
"""What one call takes at most: some seconds of a small machine, whose owner may be waiting for the next permit."""


class WrongVectors(JobFailure):
    """An answer that no text is to blame for: too few vectors, or of another size. Everything asked would meet it."""


class ModelEmbedder:
    """Vectors by a profile's embedding model; ``calls`` is ``None`` where only the signature is wanted."""

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None, *, is_cloud: bool = False) -> None:
        self._profile = profile
        self._calls = calls
        self.dimensions = profile.embedding_dimensions or 0
        self.signature = f"{profile.provider}:{profile.embedding_model}@{self.dimensions}"
        self.most_texts = CLOUD_TEXTS if is_cloud else LOCAL_TEXTS
        self.most_tokens = CLOUD_TOKENS if is_cloud else LOCAL_TOKENS

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return an int8 array of shape (len(texts), dimensions). One call, metered by then; blocks for it.

        Raises what ``ModelCalls.embed`` raises, and ``bad_output`` for vectors that say nothing about a text.
        """
        vectors, silent = self.embed_some(texts, ())
        if silent:
            raise self._wrong(f"{len(silent)} of {len(texts)} texts have a vector of nothing")
        return vectors

    def embed_some(self, texts: Sequence[str], sources: Iterable[str]) -> tuple[NDArray[Any], list[int]]:
        """Return the same array, and which texts the model has no vector for (not finite, or all zero): their rows are
        zero. A text without words needs none. ``sources`` are those that the texts come from.

        Raises ``WrongVectors`` where the answer as a whole is of no use.
        """
        import numpy as np

        out: NDArray[Any] = np.zeros((len(texts), self.dimensions), np.int8)
        if not texts:
            return out, []
        if self._calls is None:
            raise JobFailure.unrecoverable(
                "model_missing", title="this model is not at hand here", detail=self.signature, hint="try again later"
            )
        answer = self._calls.embed(texts, sources)
        if len(answer.vectors) != len(texts):
            raise self._wrong(f"{len(answer.vectors)} vectors for {len(texts)} texts")
        sizes = {len(vector) for vector in answer.vectors}
        if sizes != {self.dimensions}:
            found = ", ".join(str(size) for size in sorted(sizes))
            raise self._wrong(f"{found} dimensions in place of {self.dimensions}")
        try:
            rows = np.array(answer.vectors, np.float64)
        except (TypeError, ValueError) as error:
            raise self._wrong("what it sends are no numbers") from error
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        says = np.isfinite(norms) & (norms > 0)
        out[says] = np.rint(rows[says] / norms[says, None] * 127)
        silent = [at for at, text in enumerate(texts) if not says[at] and count_tokens(text)]
        if silent and not says.any() and len(texts) > 1:
            raise self._wrong("no vector of the whole answer says anything")
        return out, silent

    def windows(self, text: str) -> list[str]:
        """Return a node's text cut into windows of some 200 tokens, less where the model's context is small."""
        context = self._profile.context_tokens
        most = WINDOW_TOKENS if context is None else max(16, min(WINDOW_TOKENS, round(context * CONTEXT_SHARE)))
        return cut_windows(text, _counted, most)

    def trusts(self, query: str) -> bool:
        """Return ``True``: whoever chose the model knows which languages it is good for."""
        del query
        return True

    def _wrong(self, problem: str) -> WrongVectors:
        return WrongVectors.transient(  # type: ignore[return-value]
            "bad_output",
            title="the embedding model did not answer with usable vectors",
            detail=f"{self.signature}: {problem}",
            hint=f"`sapwood model test {self._profile.name}` finds out what it answers with",
        )


def _counted(text: str) -> range:
    return range(count_tokens(text))
