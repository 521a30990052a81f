"""Summaries by a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls
    from agent.models.protocol import SummaryRequest, SummaryText
    from agent.profile_intent import ProfileIntent


class ModelSummariser:
    """Summaries by a profile's chat model; ``calls`` is ``None`` where only the signature is wanted."""

    calls_model = True

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None) -> None:
        self._calls = calls
        self.signature = f"{profile.provider}:{profile.chat_model}"

    def summarise(self, request: SummaryRequest) -> SummaryText:
        """Return a summary of at most ``budget_tokens``; makes at most one call."""
        raise NotImplementedError
