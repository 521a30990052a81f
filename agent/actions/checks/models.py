"""The model profiles: whether the active one can be used, whether its server has the model, and what holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.actions.checks.result import Check
from agent.actions.held import NEEDS_OWNER, hold_of
from agent.actions.remedies import remedy_of
from agent.clock import SYSTEM_CLOCK, iso
from agent.config import load_intent
from agent.errors import ConfigBroken, JobFailure

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.providers.protocol import ModelFacts
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent

PATIENCE_S = 2.0
SMALL_CONTEXT = 4_096


def look_at_models(paths: Paths) -> Iterator[Check]:
    """Yield whether the active profile can be used, and each profile that cannot.

    A local server is asked what it has, for 2 s at most and besides the moment that its client takes to load; no model
    is called, and a cloud is not asked at all.
    """
    try:
        intent = load_intent(paths).intent
    except ConfigBroken:
        yield Check("models", True, "not compared: the settings cannot be read")
        return
    active, profile, problem = intent.models.active, intent.active_profile, intent.active_problem
    for wrong in intent.wrong_profiles:
        if wrong.name != active or profile is not None:
            yield Check(f"profile {wrong.name}", False, wrong.problem, wrong.hint)
    if problem is not None:
        yield Check("models", False, problem[0], problem[1])
    elif profile is None:
        yield Check("models", True, f"{active}: part of this program, nothing is sent anywhere")
    elif intent.is_local(profile):
        yield _local(intent, profile)
    else:
        yield _cloud(profile)


def _cloud(profile: ProfileIntent) -> Check:
    said = f"{profile.name}: {profile.chat_model} at {profile.host}, a cloud"
    if not profile.has_consent():
        return Check(
            "models", False, f"{said}; nothing is sent there before you agree", f"`sapwood model use {profile.name}`"
        )
    return Check("models", True, f"{said}; not asked now, `sapwood model test {profile.name}` does")


def _local(intent: Intent, profile: ProfileIntent) -> Check:
    said = f"{profile.name}: {profile.chat_model} at {profile.host}"
    try:
        facts = _ask(intent, profile)
    except JobFailure as failure:
        if failure.code == "auth_failed":
            # It answers, and wants a key: `keys` says which there is.
            return Check("models", True, f"{said}; it wants a key, `sapwood model test {profile.name}` uses it")
        return Check(
            "models", False, f"{profile.name}: {failure}", failure.hint or remedy_of(failure.code, profile.name)
        )
    context = profile.context_tokens or facts.context_tokens
    if context is not None and context < SMALL_CONTEXT:
        return Check(
            "models",
            False,
            f"{said} takes {context:,} tokens at once, less than {SMALL_CONTEXT:,}: it reads everything in small parts",
            f"give it a larger context at its server, then `sapwood config set profiles.{profile.name}.context_tokens N`",
        )
    return Check("models", True, f"{said}, takes {context:,} tokens" if context else said)


def _ask(intent: Intent, profile: ProfileIntent) -> ModelFacts:
    from agent.models.providers.opening import load_sdk, open_provider
    from agent.models.providers.protocol import Endpoint
    from agent.models.sending import send

    endpoint = Endpoint(
        provider=profile.provider,
        base_url=profile.address,
        chat_model=profile.chat_model,
        local_hosts=intent.models.local_hosts,
        connect_s=PATIENCE_S,
        read_s=PATIENCE_S,
        total_s=PATIENCE_S,
    )
    load_sdk(profile.provider)
    return send(lambda: open_provider(endpoint), lambda provider: provider.facts(), lambda: None, PATIENCE_S)


def look_at_holds(paths: Paths, connection: Connection) -> Iterator[Check]:
    """Yield what keeps the active profile's models from being asked. That one ends by itself is no fault."""
    try:
        intent = load_intent(paths).intent
    except ConfigBroken:
        return
    hold = hold_of(connection, intent, SYSTEM_CLOCK.now_ms())
    if hold is None:
        yield Check("model holds", True, "none")
        return
    words = f"{hold.scope}: {hold.reason}"
    if hold.code in NEEDS_OWNER:
        yield Check("model holds", False, words, remedy_of(str(hold.code), hold.scope))
    else:
        yield Check("model holds", True, f"{words}; until {iso(hold.until_ms)}")
