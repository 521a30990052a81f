"""Which models the owner chose, opened once per process.

The built-in profile is always there; the others are those of the intent. Opening loads nothing heavy and asks no
server: each model does so when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.config import Intent
from agent.errors import JobFailure
from agent.models.protocol import Embedder, Profile
from agent.profile_intent import BUILTIN, LOCAL_RESOURCE, ProfileIntent
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls

SHARED_KEY = "profile"


def open_profile(intent: Intent, shared: dict[str, Any], calls: ModelCalls | None = None) -> Profile:
    """Return the active profile of an intent; the built-in parts are kept in ``shared``.

    Without ``calls`` the parts that call a model have their signature and nothing else. Raises an unrecoverable
    ``JobFailure``: ``no_such_profile``, or ``profile_incomplete`` where the intent does not say enough.
    """
    name = intent.models.active
    if name == BUILTIN:
        return open_builtin(shared)
    profile = intent.active_profile
    problem = intent.active_problem
    if profile is None or problem is not None:
        title, hint = problem or ("there is no such model profile", f"`sapwood model use {BUILTIN}`")
        code = "no_such_profile" if profile is None else "profile_incomplete"
        raise JobFailure.unrecoverable(code, title=title, detail="models.active in config.toml", hint=hint)
    return _open(intent, profile, shared, calls)


def open_builtin(shared: dict[str, Any]) -> Profile:
    """Return the built-in profile, which needs no network, no key and no permit."""
    kept = shared.get(SHARED_KEY)
    if isinstance(kept, Profile):
        return kept
    from agent.models.builtin.embedding import BuiltinEmbedder
    from agent.models.builtin.entities import BuiltinExtractor
    from agent.models.builtin.summary import BuiltinSummariser

    opened = shared[SHARED_KEY] = Profile(BUILTIN, BuiltinEmbedder(), BuiltinSummariser(), BuiltinExtractor())
    return opened


def _open(intent: Intent, profile: ProfileIntent, shared: dict[str, Any], calls: ModelCalls | None) -> Profile:
    from agent.models.extracting import ModelExtractor
    from agent.models.summarising import ModelSummariser

    embedder: Embedder = open_builtin(shared).embedder
    resource = profile.resource(intent.models.local_hosts)
    is_local = resource == LOCAL_RESOURCE
    if profile.embedding_model:
        from agent.models.embedding import ModelEmbedder

        embedder = ModelEmbedder(profile, calls, is_cloud=not is_local)
    return Profile(
        profile.name,
        embedder,
        ModelSummariser(profile, calls),
        ModelExtractor(profile, calls),
        resource,
        intent.models.local_permits if is_local else profile.max_concurrent,
        frozenset(str(kind) for kind in JobKind if kind.is_llm_bound() and not profile.calls_model_for(kind)),
        packs=True,
        is_cloud=not is_local,
    )
