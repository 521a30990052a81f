"""Trying a profile: one small, made-up question to its models, metered like every other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.actions.models import find_profile, mend_for, table_of
from agent.actions.remedies import remedy_of
from agent.config_edit import edit_intent
from agent.errors import JobFailure, Postponed, SapwoodError, UsageFault
from agent.profile_intent import BUILTIN
from agent.states import Hold

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.models.calling import ModelCalls
    from agent.profile_intent import ProfileIntent

TRY = (
    "The text between the marks is a note. Say in one short sentence what it says. Answer with JSON alone: "
    '{"summary": "the sentence"}'
)
TRY_NOTE = "The greenhouse door is to be closed at seven in the evening."
TRY_TOKENS = 200
TRY_S = 60.0
PERMIT_S = 30.0


@dataclass(frozen=True)
class Tested:
    """A round trip to a model. ``error`` is empty where all went well, ``hint`` says what to do where it did not."""

    ok: bool
    profile: str
    model: str = ""
    latency_ms: int | None = None
    context_tokens: int | None = None
    size_bytes: int | None = None
    structured: bool | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    embedding_dimensions: int | None = None
    error: str = ""
    detail: str = ""
    hint: str = ""
    requeued: int = 0


def try_profile(home: Home, name: str | None = None, shared: dict[str, Any] | None = None) -> Tested:
    """Ask a profile's models one small, made-up question and return how that went; blocks for a minute at most.

    Writes the embedding's dimensions where they are found. A cloud without consent is sent nothing.
    """
    name = name or home.intent.models.active
    profile = find_profile(home, name)
    if profile is None:
        return Tested(True, BUILTIN, "part of Sapwood: nothing is sent anywhere")
    if not home.intent.is_local(profile) and not profile.has_consent():
        return _untold(
            Tested(False, name, profile.chat_model),
            UsageFault(
                f"nothing was sent to {profile.host}: you have not agreed to that",
                "",
                f"`sapwood model use {name}` says what would be sent, and asks",
            ),
        )
    from agent.gate import LlmGate
    from agent.models.calls import calls_for
    from agent.models.surroundings import FACTS_KEY

    intent = home.intent
    permits = intent.models.local_permits if intent.is_local(profile) else profile.max_concurrent
    kept: dict[str, Any] = {} if shared is None else shared
    found = Tested(False, name, profile.chat_model)
    try:
        with LlmGate(home.paths.permits, profile.resource(intent.models.local_hosts), permits).acquire(PERMIT_S):
            calls = calls_for(
                home.connection,
                home.paths,
                home.clock,
                intent,
                profile,
                "test",
                shared=kept,
                limit_s=TRY_S,
                is_trial=True,
            )
            found = _ask(calls, found)
            facts = kept.get(FACTS_KEY, {}).get((profile.address, profile.chat_model))
            found = replace(found, size_bytes=None if facts is None else facts.size_bytes)
            if profile.embedding_model:
                found = _embed(home, calls, profile, found)
    except SapwoodError as error:
        return _untold(found, error)
    # What it answered disproves every hold; a text that was too long for it is no shorter now.
    return replace(found, ok=True, requeued=mend_for(home, {name}, [str(code) for code in Hold]))


def _ask(calls: ModelCalls, found: Tested) -> Tested:
    from agent.models.answers import read_summary, summary_schema
    from agent.models.fencing import fenced
    from agent.models.providers.protocol import ChatAsk, Message

    context = calls.context_tokens()
    words = (Message("system", TRY), Message("user", fenced(calls.secret(), TRY_NOTE)))
    started = time.monotonic()
    answer = calls.chat(ChatAsk(words, 60, TRY_TOKENS, summary_schema(), "summary"), ())
    took_ms = round((time.monotonic() - started) * 1000)
    calls.keep(answer, ())  # metered, and nothing of it is stored
    return replace(
        found,
        latency_ms=took_ms,
        context_tokens=context,
        structured=not read_summary(answer)[1],
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
    )


def _embed(home: Home, calls: ModelCalls, profile: ProfileIntent, found: Tested) -> Tested:
    vectors = calls.embed([TRY_NOTE], ()).vectors
    dimensions = len(vectors[0]) if len(vectors) == 1 else 0
    if not dimensions:
        raise JobFailure.transient("bad_output", f"{profile.embedding_model} gave no vector", profile.host)
    if profile.embedding_dimensions != dimensions:
        edit_intent(
            home.paths, lambda document: table_of(document, profile.name).update(embedding_dimensions=dimensions)
        )
    return replace(found, embedding_dimensions=dimensions)


def _untold(found: Tested, error: SapwoodError) -> Tested:
    if isinstance(error, Postponed):
        return replace(found, error=error.reason, hint=remedy_of(error.code, found.profile))
    return replace(found, error=error.title, detail=error.detail, hint=error.hint)
