"""The one way to a model: what tasks (summaries, extraction, embedding) may assume about the calls that they make.

``agent/models/calls.py`` is the real one: consent, private sources, holds, limits, keys, memory, masking and the meter
are all behind it, so that no task can forget them. A task asks ``find`` first, makes at most one call in a run, and
hands every answer to ``keep`` or ``refuse`` at once, before anything that may fail: it is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer
    from agent.models.results import WorkUnit
    from agent.profile_intent import ProfileIntent


TRY_COUNTS_MS = 12 * 3_600_000
"""How long an answer in vain counts: a fallback is made again after a day, and is then asked for afresh."""


@dataclass(frozen=True)
class Tries:
    """How often a unit was answered in vain in the last ``TRY_COUNTS_MS``, and which rule the last answer broke."""

    count: int = 0
    problem: str = ""


class CallGuard(Protocol):
    """Says whether a call that is under way may go on; asked before it and four times a second meanwhile."""

    def look(self, profile: ProfileIntent) -> Exception | None:
        """Return what is to be raised in its place (``Postponed``, ``LeaseLost``), or ``None``. Never blocks."""
        ...


class ModelCalls(Protocol):
    """Calls of one profile's models in one job. Everything here blocks the calling thread."""

    @property
    def profile(self) -> ProfileIntent:
        """The profile, as the intent was when the job started."""
        ...

    def now_ms(self) -> int:
        """Return the job's wall clock as UTC milliseconds: a task that puts itself off says until when."""
        ...

    def secret(self) -> bytes:
        """Return this installation's secret, made at the first call (``agent/models/fencing.py``)."""
        ...

    def context_tokens(self) -> int:
        """Return how many tokens the chat model takes in all, prompt and answer. May ask the server, once a process."""
        ...

    def chat(self, ask: ChatAsk, sources: Iterable[str]) -> ChatAnswer:
        """Return the answer. ``sources`` are the ids of all sources that words of it come from.

        Raises ``Postponed`` (nothing was spent), a typed ``JobFailure``, or ``LeaseLost``.
        """
        ...

    def embed(self, texts: Sequence[str], sources: Iterable[str]) -> EmbedAnswer:
        """Return vectors, metered already. Raises as ``chat``."""
        ...

    def find(self, unit: WorkUnit) -> str | None:
        """Return the stored answer to a unit, or ``None``."""
        ...

    def tries(self, unit: WorkUnit) -> Tries:
        """Return how often this unit was answered in vain; none where the last such answer is too old to count."""
        ...

    def keep(self, answer: ChatAnswer, results: Sequence[tuple[WorkUnit, Sequence[str], str]]) -> None:
        """Store validated results (unit, the ids of all nodes it was made from, JSON) and meter their call.

        One transaction that waits for the disk.
        """
        ...

    def refuse(self, answer: ChatAnswer | None, refused: Sequence[tuple[WorkUnit, str]]) -> None:
        """Meter a call whose answer was of no use for these units, each with the rule that it broke, and count a try.

        May be called beside ``keep`` for the same answer: the call is metered once. Without an answer (the call failed
        for what was asked) only the tries are counted.
        """
        ...
