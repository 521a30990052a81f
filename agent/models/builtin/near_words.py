"""Words that mean nearly the same, from the table that is shipped: *folder* is near *directory*, *photos* *pictures*.

Rows are compared as the integers they are stored as (the scale of a row does not turn it), so the cosines, and with
them the words, are the same on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOOR = 0.65  # a cosine under it is another meaning more often than not
MOST = 8  # of one word: most of them are its own inflections, which the full-text index knows already

_BLOCK = 4_096
_WORD = re.compile(r"[a-z]{3,}")


class NearWords:
    """The rows of whole English words. Takes 6 MB and 40 ms at the first use; then some 5 ms for a query's words.

    ``codes`` are the table's as it is stored: uint8, two numbers of four bits each, one row a line of the vocabulary.
    """

    def __init__(self, codes: NDArray[Any], vocabulary: Path) -> None:
        import numpy as np

        names = vocabulary.read_text("utf-8").rstrip("\n").split("\n")
        kept = [number for number, name in enumerate(names) if _WORD.fullmatch(name)]
        packed = codes[kept]
        rows = np.empty((len(kept), 2 * packed.shape[1]), np.int8)
        rows[:, 0::2] = packed >> 4
        rows[:, 1::2] = packed & 15
        rows -= 8
        self._names = [names[number] for number in kept]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._rows: Any = rows
        wide = rows.astype(np.float32)
        self._norms: Any = np.sqrt(np.einsum("ij,ij->i", wide, wide).astype(np.float64))
        self._norms[self._norms == 0] = 1
        self._known: dict[str, tuple[str, ...]] = {}

    def near(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return, for each word that has a row, those that are nearest to it, nearest first, at most eight."""
        wanted = {word: word.lower() for word in words if word.lower() in self._places}
        unknown = sorted(set(wanted.values()) - self._known.keys())
        if unknown:
            if len(self._known) > 20_000:
                self._known.clear()
            self._known.update(zip(unknown, self._look(unknown), strict=True))
        return {word: self._known[low] for word, low in wanted.items()}

    def _look(self, words: list[str]) -> list[tuple[str, ...]]:
        import numpy as np

        places = np.array([self._places[word] for word in words])
        asked = self._rows[places].astype(np.float32).T
        cosines = np.empty((len(self._rows), len(words)), np.float64)
        for start in range(0, len(self._rows), _BLOCK):
            # Whole numbers below 2**24: exact in float32, in whatever order they are added.
            cosines[start : start + _BLOCK] = self._rows[start : start + _BLOCK].astype(np.float32) @ asked
        cosines /= self._norms[:, None] * self._norms[places][None, :]
        cosines[places, np.arange(len(words))] = -1
        found = []
        for column in range(len(words)):
            near = np.flatnonzero(cosines[:, column] >= FLOOR)
            order = near[np.argsort(-cosines[near, column], kind="stable")][:MOST]
            found.append(tuple(self._names[place] for place in order))
        return found
