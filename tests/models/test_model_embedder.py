"""Vectors of an embedding model: checked before anything is kept of them, and cut so that the model sees all."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from agent.errors import JobFailure
from agent.models.embedding import CLOUD_TEXTS, LOCAL_TEXTS, WINDOW_TOKENS, ModelEmbedder, WrongVectors
from agent.models.providers.protocol import EmbedAnswer
from agent.profile_intent import ProfileIntent
from agent.tokens import count_tokens

PROFILE = ProfileIntent("box", "ollama", "small", embedding_model="words:v1", embedding_dimensions=3)


@dataclass
class Answers:
    """Calls that answer every question with these vectors."""

    vectors: Sequence[Sequence[float]]
    sources: list[list[str]] = field(default_factory=list)

    def embed(self, texts: Sequence[str], sources: Iterable[str]) -> EmbedAnswer:
        self.sources.append(list(sources))
        return EmbedAnswer(self.vectors, 1)


def embedder(vectors: Sequence[Sequence[float]]) -> ModelEmbedder:
    calls: Any = Answers(vectors)
    return ModelEmbedder(PROFILE, calls)


def test_its_signature_is_provider_model_and_dimensions() -> None:
    assert ModelEmbedder(PROFILE, None).signature == "ollama:words:v1@3"


def test_vectors_are_normalised_to_signed_bytes() -> None:
    found = embedder([[3.0, 0.0, -4.0], [0.0, 1e-9, 0.0]]).embed(["one", "two"])
    assert found.dtype == np.int8
    assert found.tolist() == [[76, 0, -102], [0, 127, 0]]


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        ([[1.0, 2.0, 3.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0]] * 2, "2 dimensions in place of 3"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], "2, 3 dimensions in place of 3"),
        ([["a", "b", "c"]] * 2, "no numbers"),
        ([[0.0] * 3] * 2, "says anything"),
        ([[math.nan] * 3] * 2, "says anything"),
    ],
)
def test_an_answer_of_no_use_is_bad_output(vectors: Any, words: str) -> None:
    with pytest.raises(WrongVectors, match="usable") as raised:
        embedder(vectors).embed(["one", "two"])
    assert raised.value.code == "bad_output"
    assert not raised.value.is_unrecoverable()
    assert words in raised.value.detail


@pytest.mark.parametrize("nothing", [math.nan, math.inf, 0.0])
def test_one_text_without_a_vector_is_named_and_the_others_are_of_use(nothing: float) -> None:
    asked = embedder([[1.0, 0.0, 0.0], [nothing] * 3])
    vectors, silent = asked.embed_some(["one", "two"], ["notes"])
    assert (vectors.tolist(), silent) == ([[127, 0, 0], [0, 0, 0]], [1])
    with pytest.raises(JobFailure, match="usable"):
        asked.embed(["one", "two"])


def test_a_text_without_words_needs_no_vector() -> None:
    assert embedder([[0.0] * 3]).embed([" \n"]).tolist() == [[0, 0, 0]]


def test_nothing_is_asked_about_nothing() -> None:
    assert embedder([]).embed([]).shape == (0, 3)


def test_without_calls_it_says_so() -> None:
    with pytest.raises(JobFailure, match="not at hand"):
        ModelEmbedder(PROFILE, None).embed(["one"])


def test_windows_hold_everything_and_no_more_than_the_model_sees() -> None:
    paragraphs = [" ".join(f"word{at}x{n}" for n in range(size)) for at, size in enumerate([5, 30, 900, 60])]
    text = "\n\n".join(paragraphs)
    for profile, most in ((PROFILE, WINDOW_TOKENS), (replace(PROFILE, context_tokens=100), 60)):
        windows = ModelEmbedder(profile, None).windows(text)
        assert " ".join(windows).split() == text.split()
        assert max(map(count_tokens, windows)) <= most


def test_windows_of_a_language_without_spaces_are_cut_too() -> None:
    windows = ModelEmbedder(PROFILE, None).windows("温室の鍵は青い植木鉢の下にある。" * 60)
    assert max(map(count_tokens, windows)) <= WINDOW_TOKENS


def test_a_cloud_is_asked_about_more_at_once_than_a_small_machine() -> None:
    assert ModelEmbedder(PROFILE, None).most_texts == LOCAL_TEXTS
    assert ModelEmbedder(PROFILE, None, is_cloud=True).most_texts == CLOUD_TEXTS


def test_naming_a_model_loads_no_numpy_and_no_client() -> None:
    code = (
        "import sys\nfrom agent.models.embedding import ModelEmbedder\n"
        "from agent.profile_intent import ProfileIntent\n"
        "ModelEmbedder(ProfileIntent('a', 'ollama', 'b', 'c', 3), None)\n"
        "print([n for n in ('numpy', 'httpx', 'ollama', 'openai', 'asyncio') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
