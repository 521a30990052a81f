"""Whose vectors a search compares with, and how its words become one: the signature that serves decides.

The built-in table is asked in this process. A model is asked like by everybody else, through its gate and with consent,
holds and limits before it; a person waits, so it gets three seconds. Where it cannot be asked, words alone are searched
and the answer says why. A query's vector is never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.db.serving import serving_signature
from agent.errors import Postponed, SapwoodError
from agent.models.profiles import open_builtin, open_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.clock import Clock
    from agent.config import Intent
    from agent.db.connection import Connection
    from agent.models.protocol import Embedder, Profile
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent

LIMIT_S = 3.0
SHORTEST_CALL_S = 0.5
KIND = "search"
"""What the meter files a query under."""


def serving_profile(
    connection: Connection,
    intent: Intent,
    paths: Paths,
    clock: Clock,
    *,
    is_intent_sure: bool = True,
    shared: dict[str, Any] | None = None,
) -> Profile:
    """Return a profile for searching: its embedder is that of the serving signature. Asks nobody yet.

    ``is_intent_sure`` is ``False`` while ``config.toml`` cannot be read: nothing goes to a cloud then. ``shared`` is
    what lives as long as the process.
    """
    shared = {} if shared is None else shared
    builtin = open_builtin(shared)
    try:
        wanted = open_profile(intent, shared).embedder.signature
    except SapwoodError:
        wanted = builtin.embedder.signature
    signature = serving_signature(connection, wanted)
    if signature == builtin.embedder.signature:
        return builtin
    profile = _profile_with(intent, signature)
    if profile is None:
        return replace(builtin, embedder=NoEmbedder(signature, _away(intent, signature)))
    if not intent.is_local(profile) and not is_intent_sure:
        why = "config.toml cannot be read: nothing goes to a cloud before that is mended"
        return replace(builtin, embedder=NoEmbedder(signature, why))
    embedder = QueryEmbedder(connection, intent, paths, clock, profile, shared)
    return replace(builtin, embedder=embedder)


def _profile_with(intent: Intent, signature: str) -> ProfileIntent | None:
    """Return the profile to ask for a signature: the active one, else a local one; no cloud that was left."""
    active = intent.active_profile
    if active is not None and _signature(active) == signature:
        return active
    return next(
        (each for each in intent.profiles if intent.is_local(each) and _signature(each) == signature),
        None,
    )


def _away(intent: Intent, signature: str) -> str:
    model = signature.partition(":")[2].rpartition("@")[0]
    if any(_signature(each) == signature for each in intent.profiles):
        return f"the vectors are those of {model}, a cloud's model that is not in use any more"
    return f"the vectors are those of {model}, which no model profile names any more"


def _signature(profile: ProfileIntent) -> str:
    from agent.models.embedding import ModelEmbedder

    return ModelEmbedder(profile, None).signature if profile.embedding_model else ""


class NoEmbedder:
    """Stands for a model that cannot be asked: every question raises why."""

    dimensions = 0

    def __init__(self, signature: str, reason: str) -> None:
        self.signature = signature
        self._reason = reason

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Raise ``SapwoodError``."""
        raise SapwoodError(self._reason)

    def windows(self, text: str) -> list[str]:
        """Return the text as it is: nothing is embedded here."""
        return [text]

    def trusts(self, query: str) -> bool:
        """Raise ``SapwoodError``: nothing need be read for a question that cannot be asked."""
        raise SapwoodError(self._reason)


class QueryEmbedder:
    """A model's vectors for what a person typed, in three seconds, the wait for a permit included."""

    def __init__(
        self,
        connection: Connection,
        intent: Intent,
        paths: Paths,
        clock: Clock,
        profile: ProfileIntent,
        shared: dict[str, Any],
    ) -> None:
        from agent.models.embedding import ModelEmbedder

        self._connection = connection
        self._intent = intent
        self._paths = paths
        self._clock = clock
        self._profile = profile
        self._shared = shared
        self._plain: Embedder = ModelEmbedder(profile, None)
        self.signature = self._plain.signature
        self.dimensions = self._plain.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return an int8 array of shape (len(texts), dimensions). Raises ``SapwoodError`` with what kept it."""
        from agent.gate import LlmGate
        from agent.models.calls import calls_for
        from agent.models.embedding import ModelEmbedder

        profile, intent = self._profile, self._intent
        resource = profile.resource(intent.models.local_hosts)
        permits = intent.models.local_permits if intent.is_local(profile) else profile.max_concurrent
        until = self._clock.monotonic() + LIMIT_S
        with LlmGate(self._paths.permits, resource, permits, clock=self._clock).acquire(LIMIT_S):
            left = max(SHORTEST_CALL_S, until - self._clock.monotonic())
            calls = calls_for(
                *(self._connection, self._paths, self._clock, intent, profile, KIND), shared=self._shared, limit_s=left
            )
            try:
                return ModelEmbedder(profile, calls).embed(texts)
            except Postponed as later:
                raise SapwoodError(later.reason) from later

    def windows(self, text: str) -> list[str]:
        """Return a node's text cut as the model's windows."""
        return self._plain.windows(text)

    def trusts(self, query: str) -> bool:
        """Return whether the model is asked about a query."""
        return self._plain.trusts(query)
