"""Entities and importance by a model, for the doubtful middle of the admission score alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls
    from agent.models.protocol import Extraction
    from agent.profile_intent import ProfileIntent


class ModelExtractor:
    """Extraction by a profile's chat model; ``calls`` is ``None`` where only the signature is wanted."""

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None) -> None:
        self._calls = calls
        self.signature = f"{profile.provider}:{profile.chat_model}"

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        """Return what the text names and how much it matters."""
        raise NotImplementedError
