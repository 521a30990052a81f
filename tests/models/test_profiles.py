from __future__ import annotations

from typing import Any

import pytest

from agent.config import Intent, ModelsIntent
from agent.errors import JobFailure
from agent.models.profiles import open_profile


def test_builtin_is_the_profile_of_an_empty_intent_and_needs_no_permit() -> None:
    profile = open_profile(Intent(), {})
    assert profile.name == "builtin"
    assert profile.resource is None
    assert profile.embedder.signature == "builtin:static256-i4-2@256"
    assert profile.summariser.signature == "builtin:extractive-2"
    assert profile.extractor.signature == "builtin:rules-1"


def test_a_profile_is_opened_once_per_process() -> None:
    shared: dict[str, Any] = {}
    assert open_profile(Intent(), shared) is open_profile(Intent(), shared)
    assert shared["profile"] is open_profile(Intent(), shared)


def test_a_profile_that_there_is_not_is_refused_by_name_and_the_kept_one_is_not_used() -> None:
    shared: dict[str, Any] = {}
    open_profile(Intent(), shared)
    with pytest.raises(JobFailure, match="ollama") as refused:
        open_profile(Intent(models=ModelsIntent(active="ollama")), shared)
    assert refused.value.is_unrecoverable()
    assert refused.value.code == "no_such_profile"
    assert "builtin" in refused.value.hint
    assert open_profile(Intent(), shared).name == "builtin"
