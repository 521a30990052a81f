"""Which models the owner chose, opened once per process."""

from __future__ import annotations

from typing import Any

from agent.config import Intent
from agent.errors import JobFailure
from agent.models.protocol import Profile

BUILTIN = "builtin"
PROFILES = (BUILTIN,)  # those that this version can open
SHARED_KEY = "profile"


def open_profile(intent: Intent, shared: dict[str, Any]) -> Profile:
    """Return the active profile of an intent, kept in ``shared`` until another one is active.

    Loads nothing heavy: each model does so when first used. Raises an unrecoverable ``JobFailure``
    (``profile_not_built``) for a profile that this version does not have.
    """
    name = intent.models.active
    kept = shared.get(SHARED_KEY)
    if isinstance(kept, Profile) and kept.name == name:
        return kept
    profile = _open(name)
    shared[SHARED_KEY] = profile
    return profile


def _open(name: str) -> Profile:
    if name != BUILTIN:
        raise JobFailure.unrecoverable(
            "profile_not_built",
            title=f"the model profile '{name}' is not built yet",
            detail=f"models.active in config.toml; this version has: {', '.join(PROFILES)}",
            hint=f'set models.active = "{BUILTIN}" in config.toml',
        )
    from agent.models.builtin.embedding import BuiltinEmbedder
    from agent.models.builtin.entities import BuiltinExtractor
    from agent.models.builtin.summary import BuiltinSummariser

    return Profile(name, BuiltinEmbedder(), BuiltinSummariser(), BuiltinExtractor())
