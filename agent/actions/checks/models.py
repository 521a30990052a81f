"""The active profile: whether it can be used, what is held back for its sake, and whether a local server is up."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.actions.checks.result import Check
from agent.actions.held import NEEDS_OWNER, hold_of
from agent.actions.remedies import remedy_of
from agent.clock import SYSTEM_CLOCK, iso
from agent.config import load_intent
from agent.errors import ConfigBroken, SapwoodError

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent

PATIENCE_S = 2.0
SMALL_CONTEXT = 2_048
"""Below it a model hardly holds a question and its answer."""


def look_at_models(paths: Paths) -> Iterator[Check]:
    """Yield whether the active profile can be used, each profile that cannot, and what its models are kept from.

    No model is called and a cloud is not asked; whether a local server listens is looked at for 2 s at most.
    """
    try:
        intent = load_intent(paths).intent
    except ConfigBroken:
        yield Check("models", True, "not compared: the settings cannot be read")
        return
    profile, problem = intent.active_profile, intent.active_problem
    for wrong in intent.wrong_profiles:
        if wrong.name != intent.models.active or profile is not None:
            yield Check(f"profile {wrong.name}", False, wrong.problem, wrong.hint)
    if problem is not None:
        yield Check("models", False, *problem)
        return
    if profile is None:
        yield Check("models", True, "built-in: nothing is sent anywhere")
        return
    known = _known(intent, profile)
    yield known
    if not known.ok:
        return
    yield from _calls(paths, intent, profile)
    if intent.is_local(profile):
        yield _server(profile)


def _known(intent: Intent, profile: ProfileIntent) -> Check:
    is_local = intent.is_local(profile)
    said = f"{profile.name}: {profile.chat_model} at {profile.host}, {'local' if is_local else 'a cloud'}"
    if not is_local and not profile.has_consent():
        return Check(
            "models",
            False,
            f"{said}: nothing may be sent to {profile.host} before you agree",
            f"`sapwood model use {profile.name}` says what would be sent, and asks",
        )
    if profile.context_tokens is not None and profile.context_tokens < SMALL_CONTEXT:
        return Check(
            "models",
            False,
            f"{said} is said to take {profile.context_tokens:,} tokens at once, too few for a question and its answer",
            f"`sapwood config set profiles.{profile.name}.context_tokens N`, or another model",
        )
    return Check("models", True, said)


def _calls(paths: Paths, intent: Intent, profile: ProfileIntent) -> Iterator[Check]:
    """Yield what is held back and what failed for the profile; nothing where the memory cannot tell."""
    from agent.db.connection import connect
    from agent.db.faults import is_database_fault

    if not paths.database.exists():
        return
    try:
        connection = connect(paths.database, paths.write_turn, create=False)
        try:
            found = _held(connection, intent, profile)
        finally:
            connection.close()
    except Exception as error:
        if not isinstance(error, SapwoodError) and not is_database_fault(error):
            raise
        return  # `database` says so
    yield found


def _held(connection: Connection, intent: Intent, profile: ProfileIntent) -> Check:
    hold = hold_of(connection, intent, SYSTEM_CLOCK.now_ms())
    failed = connection.all(
        """
        SELECT job.failure_reason, count(*)
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 3
         WHERE job.failure_scope = ?
         GROUP BY job.failure_reason
         ORDER BY 2 DESC
        """,
        (profile.name,),
    )
    said = (
        []
        if hold is None
        else [hold.reason if hold.code in NEEDS_OWNER else f"{hold.reason}; until {iso(hold.until_ms)}"]
    )
    said += [f"{count} {'job' if count == 1 else 'jobs'} failed for this profile: {code}" for code, count in failed]
    if not said:
        return Check("model calls", True, "nothing is held back")
    codes = [str(hold.code)] if hold is not None and hold.code in NEEDS_OWNER else [code for code, _ in failed]
    key = profile.key_name
    helps = [
        remedy_of(code, profile.name).replace("key set NAME", f"key set {key}" if key else "key set NAME")
        for code in codes
    ]
    return Check("model calls", not codes, "; ".join(said), "; ".join(dict.fromkeys(helps)))


def _server(profile: ProfileIntent) -> Check:
    parts = urlsplit(profile.address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((profile.host, port), PATIENCE_S).close()
    except OSError as error:
        return Check(
            "model server",
            False,
            f"nothing answers at {profile.address}: {error.strerror or error}",
            f"start it, or name the right address: `sapwood config set profiles.{profile.name}.base_url URL`",
        )
    return Check(
        "model server", True, f"something listens at {profile.address}; `sapwood model test {profile.name}` asks it"
    )
