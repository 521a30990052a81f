"""Vectors from the table that is shipped with the program (design, embeddings).

The sums are made in integers, so a text's vector does not depend on the batch it is in, on the processor or on how
numpy was built: the same text gives the same bytes on every machine.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.models.builtin.pieces import VOCABULARY, Pieces
from agent.models.builtin.windows import cut_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.models.builtin.near_words import NearWords

TABLE = Path(__file__).with_name("static256_i4.npz")
DIMENSIONS = 256

_BATCH = 512  # texts summed at once: their rows stay in the processor's cache
_RUN = 256  # pieces: a sum of so many cannot overflow 32 bits (largest scale 14.11 × 2**16 × 8 × 256 < 2**31)
_FIXED_POINT = 1 << 16  # float16 scales as integers; exact but for the rows that weigh next to nothing


class BuiltinEmbedder:
    """Static word-piece vectors, 256 dimensions, English. Loads numpy and the table when first used, not before."""

    # 2: windows are embedded under their title and headings; vectors made without them are not mixed in.
    signature = f"builtin:static256-i4-2@{DIMENSIONS}"
    dimensions = DIMENSIONS

    def __init__(self, table: Path = TABLE, vocabulary: Path = VOCABULARY) -> None:
        self._table = table
        self._vocabulary = vocabulary
        self._pieces: Pieces | None = None
        self._rows: NDArray[Any] | None = None
        self._scales: NDArray[Any] | None = None
        self._near: NearWords | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return an int8 array (len(texts), 256): the normalised sums of the pieces' rows × 127; zeros for no sum."""
        import numpy as np

        out = np.zeros((len(texts), DIMENSIONS), dtype=np.int8)
        ids_of = self._splitter().ids
        for first in range(0, len(texts), _BATCH):
            sums = self._sums([ids_of(text) for text in texts[first : first + _BATCH]])
            norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
            norms[norms == 0.0] = 1.0
            sums *= (127.0 / norms)[:, None]
            out[first : first + len(sums)] = np.rint(sums)
        return out

    def windows(self, text: str) -> list[str]:
        """Return a text cut into windows of at most 200 pieces; joined by white space they are the whole text."""
        return cut_windows(text, self._splitter().ids)

    def trusts(self, query: str) -> bool:
        """Return whether at least half of a query's words are one whole piece each: the language gate.

        A word of a script other than Latin never counts as whole, nor do numbers alone make a language.
        """
        words = [word for word in self._splitter().words(query) if word[0].isalpha()]
        whole = sum(1 for word in words if self._splitter().is_whole(word) and _is_latin(word))
        return bool(words) and 2 * whole >= len(words)

    def near_words(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return, for each word that has a vector of its own, other words that mean nearly the same."""
        if self._near is None:
            from agent.models.builtin.near_words import NearWords

            self._near = NearWords(self._load()[0], self._vocabulary)
        return self._near.near(words)

    def _splitter(self) -> Pieces:
        if self._pieces is None:
            self._pieces = Pieces(self._vocabulary)
        return self._pieces

    def _load(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._rows is None or self._scales is None:
            import numpy as np

            with np.load(self._table, allow_pickle=False) as stored:
                self._rows = stored["q"]
                self._scales = np.rint(stored["scale"].astype(np.float64) * _FIXED_POINT).astype(np.int32)
        return self._rows, self._scales

    def _sums(self, texts: list[list[int]]) -> NDArray[Any]:
        """Return the sums of the rows of each text's pieces as float64 (len(texts), 256), exact integers."""
        import numpy as np

        runs = [text[first : first + _RUN] for text in texts for first in range(0, len(text), _RUN)]
        owners = np.array([n for n, text in enumerate(texts) for _ in range(0, len(text), _RUN)], dtype=np.intp)
        sums = np.zeros((len(texts), DIMENSIONS), dtype=np.float64)
        if not runs:
            return sums
        lengths = np.array([len(run) for run in runs], dtype=np.intp)
        order = np.argsort(-lengths, kind="stable")
        ids = np.array([piece for n in order for piece in runs[n]], dtype=np.intp)
        lengths = lengths[order]
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        rows, places = self._dequantised(ids)
        added = np.zeros((len(runs), DIMENSIONS), dtype=np.int32)
        # The n-th piece of every run at once, longest runs first: whole rows are added, nothing is strided.
        for position in range(int(lengths[0])):
            many = int(np.searchsorted(-lengths, -position, side="left"))
            added[:many] += rows[places[starts[:many] + position]]
        np.add.at(sums, owners[order], added)
        return sums

    def _dequantised(self, ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows of the pieces that occur, as int32, and for each piece the place of its row among them."""
        import numpy as np

        table, scales = self._load()
        occurs = np.zeros(len(table), dtype=bool)
        occurs[ids] = True
        used = np.flatnonzero(occurs)
        place = np.empty(len(table), dtype=np.intp)
        place[used] = np.arange(len(used))
        packed = table[used]
        rows = np.empty((len(used), DIMENSIONS), dtype=np.int32)
        rows[:, 0::2] = packed >> 4
        rows[:, 1::2] = packed & 15
        rows -= 8
        rows *= scales[used][:, None]
        return rows, place[ids]


def _is_latin(word: str) -> bool:
    return all(char.isascii() or unicodedata.name(char, "").startswith("LATIN") for char in word if char.isalpha())
