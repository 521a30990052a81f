"""The tray and the page as others are told of them: there, not wanted, not possible here, or ending again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.states import CompanionState


@dataclass(frozen=True)
class CompanionStatus:
    """One of them: ``reason`` says why it does not serve, ``detail`` how it does (a back end, an address)."""

    state: CompanionState
    reason: str = ""
    detail: str = ""
    pid: int | None = None

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self.state is CompanionState.UP

    @property
    def words(self) -> str:
        """What an owner is told: ``none: this desktop has no place for icons``."""
        if self.is_up:
            return f"up ({self.detail})" if self.detail else "up"
        said = {
            CompanionState.OFF: "none",
            CompanionState.IMPOSSIBLE: "none for now",
            CompanionState.STARTING: "starting",
            CompanionState.FAILED: "failed",
        }[self.state]
        return f"{said}: {self.reason}" if self.reason else said


def companion_of(answer: Mapping[str, Any], role: str) -> CompanionStatus | None:
    """Return what the agent's answer to ``status`` or ``open`` says of a role (``tray``, ``gateway``).

    ``None`` where it says nothing of it: an agent of another version, or one that is too busy to answer.
    """
    said = answer.get(role)
    if not isinstance(said, Mapping):
        return None
    try:
        state = CompanionState(said.get("state", ""))
    except ValueError:
        return None
    pid = said.get("pid")
    return CompanionStatus(
        state, str(said.get("reason") or ""), str(said.get("detail") or ""), pid if isinstance(pid, int) else None
    )
