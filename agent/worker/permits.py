"""Which permit the active profile needs, if any: the permit comes before the claim (the queue's point 7)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent.errors import SapwoodError
from agent.gate import LlmGate, Permit, serve_waiting

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.models.protocol import Profile
    from agent.paths import Paths
    from agent.queue.registry import Registry

OpenProfile = Callable[["Intent", "dict[str, Any]"], "Profile"]


def load_opener(name: str) -> OpenProfile:
    """Return the function of a dotted name ``module:function``, imported at its first call: it may be heavy."""

    def open_profile(intent: Intent, shared: dict[str, Any]) -> Profile:
        module, _, attribute = name.partition(":")
        found: OpenProfile = getattr(importlib.import_module(module), attribute)
        return found(intent, shared)

    return open_profile


class Permits:
    """The permits of one worker, as its active profile asks for them. The profile is read for each job."""

    def __init__(
        self, paths: Paths, shared: dict[str, Any], open_profile: OpenProfile, on_release: Callable[[], None]
    ) -> None:
        self._paths = paths
        self._shared = shared
        self._open_profile = open_profile
        self._on_release = on_release
        self._gates: dict[tuple[str, int], LlmGate] = {}
        self.unbound: frozenset[str] = frozenset()
        """LLM-bound kinds for which the active profile calls no model."""
        self.packs = False
        """Whether the active profile asks about several rows of a batch in one call."""
        self.is_sure = False
        """Whether the last answer of ``gate`` holds for as long as the intent does: the profile could be opened."""

    def gate(self, intent: Intent) -> LlmGate | None:
        """Return the gate of the active profile's resource, or ``None`` where it needs no permit."""
        try:
            profile = self._open(intent)
        except SapwoodError:
            # The row's own handler will meet this error, and settles it where an owner can see it.
            self.is_sure = False
            return None
        self.is_sure = True
        if profile.resource is None:
            return None
        key = (profile.resource, profile.permits)
        gate = self._gates.get(key)
        if gate is None:
            gate = LlmGate(self._paths.permits, *key, on_release=self._on_release)
            self._gates[key] = gate
        return gate

    def bound(self, intent: Intent, registry: Registry) -> frozenset[str]:
        """Return the kinds that may call a model of the active profile."""
        try:
            self._open(intent)
        except SapwoodError:
            return frozenset()
        return frozenset(kind for kind, spec in registry.specs.items() if spec.llm_bound and kind not in self.unbound)

    def _open(self, intent: Intent) -> Profile:
        self.unbound, self.packs = frozenset(), False
        profile = self._open_profile(intent, self._shared)
        self.unbound, self.packs = profile.unbound, profile.packs
        return profile


class NoPermit:
    """Stands for the permit of a profile that needs none."""

    def release(self) -> None:
        """Do nothing."""


NO_PERMIT = NoPermit()
AnyPermit = Permit | NoPermit


def serve_unseen(paths: Paths, intent: Intent, is_due: Callable[[], bool], wake: Callable[[], None]) -> float | None:
    """Wake a worker where a permit's holder died unseen; return after how many seconds to look again.

    For the supervisor, which is given this by its dotted name. ``None``: not before there is work, or the active
    profile needs no permit. Does not block.
    """
    gate = _active_gate(paths, intent)
    return None if gate is None else serve_waiting(gate, is_due, wake)


def free_permits(paths: Paths, intent: Intent) -> int | None:
    """Return how many permits are free for LLM-bound rows, ``None`` where the active profile needs none.

    For the supervisor's pool, which is given this by its dotted name. Does not block.
    """
    gate = _active_gate(paths, intent)
    return None if gate is None else gate.count_free()


_open_active = load_opener("agent.models.profiles:open_profile")


def _active_gate(paths: Paths, intent: Intent) -> LlmGate | None:
    return _supervised(paths).gate(intent)


@lru_cache(maxsize=4)
def _supervised(paths: Paths) -> Permits:
    return Permits(paths, {}, lambda intent, shared: _open_active(intent, shared), lambda: None)
