"""What calls of models need to know of the process and the job that they are made in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent

OPENER_KEY, KEYS_KEY, MEMORY_KEY, FACTS_KEY = "open_provider", "model_keys", "memory_probe", "model_facts"
"""What stands in ``shared``: a test's way to a provider, to keys and to the memory; what servers said of models."""
SPARE_S = 15.0
"""A call ends so long before its job's limit of time: the supervisor's kill must never come first."""
SHORTEST_S = 5.0


class NoGuard:
    """Lets every call go on: somebody waits for it at the keyboard and ends it there."""

    def look(self, profile: ProfileIntent) -> Exception | None:
        """Return ``None``."""
        del profile
        return None


@dataclass(frozen=True)
class Surroundings:
    """What calls need to know. ``limit_s`` is counted from when the calls were made for a job; what a call gets of it
    is never less than ``shortest_s``. ``is_hasty``: it is how long somebody waits, no measure of a server.
    ``is_trial``: no hold counts, and none comes of it.
    """

    connection: Connection
    paths: Paths
    clock: Clock
    intent: Callable[[], Intent]
    shared: dict[str, Any]
    limit_s: float | None
    shortest_s: float = 0.5
    is_hasty: bool = False
    is_trial: bool = False
