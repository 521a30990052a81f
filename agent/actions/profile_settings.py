"""What may be changed of a model profile as a setting, and what none of its values can be.

Keys are ``profiles.<name>.<key>``; a name may have dots in it, a key has none. A profile that cannot be used can still
be mended that way. Pure; asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from agent.config import key_problem
from agent.errors import UsageFault
from agent.profile_intent import DEFAULT_URLS, ProfileIntent, profile_problem

if TYPE_CHECKING:
    from agent.config import Intent, WrongProfile

PROFILES = "profiles"
FIXED = ("name", "provider")
CONSENT = "consent"
_TOGETHER = {"base_url": "allow_http", "allow_http": "base_url"}
_TYPES = {"base_url": str, "allow_http": bool}


def wrong_profile(intent: Intent, name: str) -> WrongProfile | None:
    """Return the table of this name that is no profile, ``None`` where there is none, or a sound one besides."""
    if intent.profile(name) is not None:
        return None
    return next((each for each in intent.wrong_profiles if each.name == name), None)


def profile_hint(name: str, field: str, intent: Intent) -> Any:
    """Return the type of what a key of a profile may be set to; ``None``: there is no such profile or key.

    Raises ``UsageFault`` for what is not changed as a setting.
    """
    if intent.profile(name) is None and wrong_profile(intent, name) is None:
        return None
    if field not in {each.name for each in fields(ProfileIntent)}:
        return None
    if field in FIXED:
        raise UsageFault(
            f"a profile's {field} cannot be changed",
            "what was done and spent with it is filed under that",
            f"remove it and add it anew: `sapwood model remove {name}`, then `sapwood model add`",
        )
    if field == CONSENT:
        raise UsageFault(
            "consent is not a setting",
            "what is sent where is said first, then you agree",
            f"say `sapwood model use {name}`; `sapwood model consent {name} --withdraw` takes it back",
        )
    return get_type_hints(ProfileIntent, include_extras=True)[field]


def check_profile_value(
    name: str, field: str, value: Any, written: Mapping[str, Any], local_hosts: Iterable[str]
) -> None:
    """Raise ``UsageFault`` where no profile can have this value.

    ``written`` is the file: only what concerns this very value is taken from it, so that the first of several slips
    can be mended. The refusal never repeats the value: it may be a key.
    """
    table = table_in(written, name)
    provider = table.get("provider")
    said: dict[str, Any] = {
        "name": name,
        "provider": provider if isinstance(provider, str) and provider in DEFAULT_URLS else "openai",
        "chat_model": "any",
        field: value,
    }
    other = _TOGETHER.get(field)
    if other is not None and isinstance(table.get(other), _TYPES[other]):
        said[other] = table[other]
    profile = ProfileIntent(**said)
    problem = key_problem(profile) or profile_problem(profile, local_hosts)
    if problem is not None:
        raise UsageFault(f"{PROFILES}.{name}.{field} cannot be this", *problem)


def table_in(written: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what the file says of a profile; empty where it says nothing."""
    for table in written.get(PROFILES, ()):
        if isinstance(table, Mapping) and table.get("name") == name:
            return table
    return {}
