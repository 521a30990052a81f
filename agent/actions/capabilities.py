"""What this build can do, as menu, page and tools ask it: what is not built yet is absent there, not greyed."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """What an owner, or their assistant, may be offered."""

    SEARCH = "search"
    TREE = "tree"
    SOURCES = "sources"
    WORK = "work"
    MODELS = "models"
    SETTINGS = "settings"
    HELP = "help"
    REMEMBER = "remember"
    TOPICS = "topics"
    DIGEST = "digest"
    ASK = "ask"


BUILT: frozenset[Capability] = frozenset(Capability) - {Capability.TOPICS, Capability.DIGEST, Capability.ASK}
"""What there is. A part that is built adds itself here, and nowhere else."""
