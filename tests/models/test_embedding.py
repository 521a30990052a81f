from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agent.models.builtin.embedding import TABLE, BuiltinEmbedder
from agent.models.builtin.pieces import Pieces

TEXTS = [
    "The boiler in the cellar was replaced in March.",
    "",
    "Who signed the contract for the north gate?",
    "。。。 ??? ---",
    "a",
    "The central heating was renewed last spring. " * 60,
    "Größere Änderungen am Vertrag",
]

_HASH_IN_A_PROCESS = f"""
import hashlib
from agent.models.builtin.embedding import BuiltinEmbedder
print(hashlib.sha256(BuiltinEmbedder().embed({TEXTS!r}).tobytes()).hexdigest())
"""


def as_described(text: str) -> np.ndarray[Any, Any]:
    """The vector of a text, straight from the description of the table: floats, one piece after the other."""
    with np.load(TABLE) as stored:
        table, scale = stored["q"], stored["scale"].astype(np.float64)
    total = np.zeros(256)
    for piece in Pieces().ids(text):
        row = np.empty(256)
        row[0::2] = (table[piece] >> 4).astype(float) - 8
        row[1::2] = (table[piece] & 15).astype(float) - 8
        total += scale[piece] * row
    length = np.linalg.norm(total)
    return total / length if length else total


def test_rows_are_int8_of_length_127_and_zero_where_there_is_nothing_to_sum(embedder: BuiltinEmbedder) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.int8
    assert rows.shape == (len(TEXTS), embedder.dimensions)
    lengths = np.linalg.norm(rows.astype(float), axis=1)
    for text, length in zip(TEXTS, lengths, strict=True):
        if text:
            assert length == pytest.approx(127, abs=5), text
        else:
            assert length == 0


def test_no_texts_are_no_rows(embedder: BuiltinEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 256)
    assert not embedder.embed(["", " \n", "[MASK]"[:0]]).any()


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_a_row_is_the_sum_that_the_table_describes(text: str, embedder: BuiltinEmbedder) -> None:
    expected = np.rint(as_described(text) * 127)
    assert np.abs(embedder.embed([text])[0] - expected).max() <= 1


def test_a_long_text_is_summed_to_its_end(embedder: BuiltinEmbedder) -> None:
    """Past the number of pieces that 32 bits hold at the largest scale."""
    text = "plumbing " * 700 + "saxophone orchestra " * 700
    expected = np.rint(as_described(text) * 127)
    assert np.abs(embedder.embed([text])[0] - expected).max() <= 1


def test_a_text_has_the_same_vector_in_any_batch(embedder: BuiltinEmbedder) -> None:
    together = embedder.embed(TEXTS * 200)
    for number, text in enumerate(TEXTS):
        assert (together[number] == embedder.embed([text])[0]).all()
        assert (together[number + 700] == together[number]).all()


def test_vectors_are_the_same_in_every_process(
    embedder: BuiltinEmbedder, fresh_process: Callable[[str, str], str]
) -> None:
    expected = hashlib.sha256(embedder.embed(TEXTS).tobytes()).hexdigest()
    assert {fresh_process(_HASH_IN_A_PROCESS, seed).strip() for seed in ("1", "2")} == {expected}


def test_what_means_the_same_is_nearer_than_what_does_not(embedder: BuiltinEmbedder) -> None:
    rows = embedder.embed(
        ["the physician treated the patient", "a doctor in the hospital", "the violin concerto was performed"]
    ).astype(int)
    assert rows[0] @ rows[1] > 2 * (rows[0] @ rows[2])


def test_numpy_and_the_table_are_loaded_by_the_first_vector_and_not_before(
    fresh_process: Callable[[str, str], str],
) -> None:
    said = fresh_process(
        """
import sys
from agent.config import Intent
from agent.models.profiles import open_profile
from agent.models.protocol import SummaryInput, SummaryRequest
profile = open_profile(Intent(), {})
profile.extractor.extract("Ada Moss paid 40 EUR on 2026-03-04.")
text = "Ada Moss paid for the pump. " * 40
profile.summariser.summarise(SummaryRequest((SummaryInput("a", text, 280),), 1, "source", 60))
before = "numpy" in sys.modules
profile.embedder.embed(["now"])
print(before, "numpy" in sys.modules)
""",
        "0",
    )
    assert said.split() == ["False", "True"]


def test_the_table_costs_a_worker_no_more_than_forty_megabytes(fresh_process: Callable[[str, str], str]) -> None:
    said = fresh_process(
        """
import psutil
from agent.models.builtin.embedding import BuiltinEmbedder
own = psutil.Process()
embedder = BuiltinEmbedder()
before = own.memory_info().rss
for start in range(0, 30_000, 500):
    embedder.embed([f"word{n} and {n}th other thing in a sentence of its own" for n in range(start, start + 500)])
print(own.memory_info().rss - before)
""",
        "0",
    )
    assert int(said) < 40_000_000


@pytest.mark.slow
def test_dense_search_finds_what_the_table_was_measured_to_find(
    scifact: dict[str, Any], embedder: BuiltinEmbedder
) -> None:
    documents, queries, judged = scifact["documents"], scifact["queries"], scifact["qrels"]
    names = list(documents)
    rows = embedder.embed([f"{documents[name]['title']}. {documents[name]['text']}" for name in names])
    scores = embedder.embed(list(queries.values())).astype(np.int32) @ rows.astype(np.int32).T
    gains = []
    for number, query in enumerate(queries):
        relevant = judged.get(query, {})
        best = np.argsort(-scores[number], kind="stable")[:10]
        found = sum(1 / np.log2(rank + 2) for rank, place in enumerate(best) if relevant.get(names[place], 0) > 0)
        ideal = sum(1 / np.log2(rank + 2) for rank in range(min(10, len(relevant))))
        gains.append(found / ideal)
    assert np.mean(gains) == pytest.approx(0.511, abs=0.005)
