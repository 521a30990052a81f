"""What share of a memory is sent to a model: little, and what is measured is what was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.model_share import model_share
from tests.conftest import REPOSITORY


def test_of_documents_next_to_nothing_is_asked_about() -> None:
    found = model_share([("docs", "folder", REPOSITORY / "docs")])
    assert found["chunks"] > 5
    assert found["asked_share"] <= 0.02
    assert found["summary_calls_per_1000"] > 0


@pytest.mark.slow
def test_of_chats_the_doubtful_middle_is_and_several_chunks_go_into_one_call(test_data: Callable[[str], Path]) -> None:
    found = model_share([("irc", "irc", test_data("irc"))])
    assert 0.01 <= found["asked_share"] <= 0.15
    assert found["chunks_a_call"] > 2
    assert found["extract_calls_per_1000"] < 25
