"""The owner's model profiles: which there are, which is used, adding one, agreeing to one.

A switch is a word in the intent: the next claimed job obeys it, and a call under way ends within a second. What the
profile before could not do is brought back at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from agent.actions.consent import Backlog, Sending, estimate_backlog, what_is_sent
from agent.config import WrongProfile
from agent.config_edit import edit_intent
from agent.errors import AgentFault, JobFailure, UsageFault
from agent.profile_intent import BUILTIN, ProfileIntent, profile_problem

if TYPE_CHECKING:
    from agent.actions.home import Home


@dataclass(frozen=True)
class ProfileRow:
    """One profile as its owner chooses by it. ``hold`` says why its models cannot be had, where that is known."""

    name: str
    provider: str
    model: str
    embedding: str
    address: str
    where: str
    active: bool
    consent: bool
    key: str
    daily_tokens: int | None
    hold: str = ""


@dataclass(frozen=True)
class Profiles:
    """All profiles that can be used, the built-in one first. ``problem``: why the active one cannot, and what helps.

    ``wrong`` are the others that stand in ``config.toml`` and cannot be used.
    """

    active: str
    profiles: tuple[ProfileRow, ...]
    problem: str = ""
    wrong: tuple[WrongProfile, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What using a profile would mean, to be said before it is done."""

    name: str
    is_cloud: bool
    needs_consent: bool
    sending: Sending | None
    backlog: Backlog | None
    embeds_again: int
    """So many passages and summaries get new vectors, because another model embeds."""
    key: str = ""


@dataclass(frozen=True)
class Used:
    """A profile that is active now, and how many jobs were brought back by that."""

    active: str
    requeued: int
    notice: str | None = None
    problem: str = ""
    """Why it cannot work yet, and what helps."""


def profiles(home: Home) -> Profiles:
    """Return the profiles of the intent, the built-in one first. Asks no server and no keyring."""
    from agent.queue.holds import all_holds

    intent, now_ms = home.intent, home.clock.now_ms()
    held = {hold.scope: hold.reason for hold in all_holds(home.connection) if hold.openings and hold.is_on(now_ms)}
    rows = [ProfileRow(BUILTIN, BUILTIN, "", "", "", "here", intent.models.active == BUILTIN, True, "", None)]
    for each in intent.profiles:
        is_local = intent.is_local(each)
        rows.append(
            ProfileRow(
                each.name,
                each.provider,
                each.chat_model,
                each.embedding_model,
                each.address,
                "local" if is_local else "cloud",
                each.name == intent.models.active,
                is_local or each.has_consent(),
                each.key_name,
                each.daily_tokens,
                held.get(each.name, ""),
            )
        )
    problem = intent.active_problem
    told = "" if problem is None else f"{problem[0]}: {problem[1]}"
    wrong = tuple(each for each in intent.wrong_profiles if each.name != intent.models.active or problem is None)
    return Profiles(intent.models.active, tuple(rows), told, wrong)


def plan_use(home: Home, name: str) -> Plan:
    """Return what using a profile would mean. Raises ``UsageFault`` where there is none of this name."""
    profile = find_profile(home, name)
    if profile is None:
        return Plan(BUILTIN, False, False, None, None, _embeds_again(home, name))
    is_cloud = not home.intent.is_local(profile)
    return Plan(
        name,
        is_cloud,
        is_cloud and not profile.has_consent(),
        what_is_sent(home.intent, profile) if is_cloud else None,
        estimate_backlog(home.connection, home.intent, profile) if is_cloud else None,
        _embeds_again(home, name),
        profile.key_name,
    )


def use_model(home: Home, name: str, *, consent: bool = False) -> Used:
    """Make a profile the active one and bring back what the one before could not do.

    ``consent``: the owner agreed that text is sent to this profile's host. Raises ``UsageFault`` where a cloud profile
    has no consent, or there is no such profile.
    """
    profile = find_profile(home, name)
    is_cloud = profile is not None and not home.intent.is_local(profile)
    if profile is not None and is_cloud and not (consent or profile.has_consent()):
        raise UsageFault(
            f"text may not be sent to {profile.host} before you agree",
            f"the profile '{name}' is a cloud's",
            f"`sapwood model use {name}` on a terminal asks; `sapwood model use {name} --yes` agrees",
        )
    before = home.intent.models.active

    def change(document: Any) -> None:
        _section(document, "models")["active"] = name
        if profile is not None and is_cloud and consent:
            table_of(document, name)["consent"] = profile.host

    problem = edit_intent(home.paths, change).active_problem
    requeued = mend_for(home, {before, name} - {BUILTIN})
    return Used(name, requeued, home.notice, "" if problem is None else f"{problem[0]}: {problem[1]}")


def give_consent(home: Home, name: str) -> None:
    """Keep the owner's word that text may be sent to a profile's host, and bring back what waited for it."""
    profile = find_profile(home, name)
    if profile is None:
        return
    host = profile.host
    edit_intent(home.paths, lambda document: table_of(document, name).update(consent=host))
    mend_for(home, {name})


def withdraw_consent(home: Home, name: str) -> bool:
    """Take back the consent to send text to a profile's host; return whether there was one. Calls end in a second."""
    profile = find_profile(home, name)
    if profile is None or not profile.consent:
        return False
    edit_intent(home.paths, lambda document: table_of(document, name).pop("consent", None))
    return True


def profile_of(said: Mapping[str, Any]) -> ProfileIntent:
    """Return the profile that these words make, those that are ``None`` left out. Raises ``UsageFault``."""
    try:
        return msgspec.convert({key: value for key, value in said.items() if value is not None}, ProfileIntent)
    except msgspec.ValidationError as error:
        raise UsageFault(
            "this cannot be a profile", str(error), "a name has small letters, digits, dots and dashes"
        ) from error


def add_profile(home: Home, profile: ProfileIntent) -> ProfileRow:
    """Write a new profile into the intent. Raises ``UsageFault`` for what cannot be one."""
    _check(home, profile)
    default = ProfileIntent("x", profile.provider, "x")
    said = {
        name: value
        for name, value in msgspec.to_builtins(profile).items()
        if name in ("name", "provider", "chat_model") or value != getattr(default, name)
    }

    def change(document: Any) -> None:
        import tomlkit

        listed = document.get("profiles")
        if not listed:
            document.pop("profiles", None)
            listed = document["profiles"] = tomlkit.aot()
        table = tomlkit.table() if isinstance(listed, tomlkit.items.AoT) else tomlkit.inline_table()
        for key, value in said.items():
            table.add(key, value)
        listed.append(table)

    intent = edit_intent(home.paths, change)
    # A name that was used before may have left rows behind: they are tried with the new one.
    mend_for(home, {profile.name})
    is_local = intent.is_local(profile)
    return ProfileRow(
        *(profile.name, profile.provider, profile.chat_model, profile.embedding_model, profile.address),
        *("local" if is_local else "cloud", False, is_local, profile.key_name, profile.daily_tokens),
    )


def remove_profile(home: Home, name: str) -> str:
    """Take a profile out of the intent and return which one is active then: the built-in one where it was this."""
    is_wrong = any(each.name == name for each in home.intent.wrong_profiles)
    if not is_wrong and find_profile(home, name) is None:
        raise UsageFault("the built-in profile stays", "it is part of Sapwood", "name another one to remove")
    active = home.intent.models.active

    def change(document: Any) -> None:
        listed = document.get("profiles", [])
        for at in reversed(range(len(listed))):
            if listed[at].get("name") == name:
                del listed[at]
        if not listed:
            document.pop("profiles", None)
        if active == name:
            _section(document, "models")["active"] = BUILTIN

    edit_intent(home.paths, change)
    mend_for(home, {name})
    return BUILTIN if active == name else active


def find_profile(home: Home, name: str) -> ProfileIntent | None:
    """Return a profile, ``None`` for the built-in one. Raises ``UsageFault`` with those that there are."""
    if name == BUILTIN:
        return None
    profile = home.intent.profile(name)
    wrong = next((each for each in home.intent.wrong_profiles if each.name == name), None)
    if profile is None and wrong is not None:
        raise UsageFault(f"the model profile '{name}' cannot be used", wrong.problem, wrong.hint)
    if profile is None:
        known = ", ".join([BUILTIN, *(each.name for each in home.intent.profiles)])
        raise UsageFault("there is no such model profile", name, f"there are: {known}; `sapwood model add` makes one")
    return profile


def served_models(home: Home, profile: ProfileIntent) -> tuple[str, ...]:
    """Return the names of the models that a local server has; blocks for 5 s at most.

    Raises ``SapwoodError`` with what is wrong. A cloud is not asked.
    """
    from agent.models.providers.opening import load_sdk, open_provider
    from agent.models.providers.protocol import Endpoint
    from agent.models.sending import send

    if not home.intent.is_local(profile):
        return ()
    endpoint = Endpoint(
        profile.provider, profile.address, profile.chat_model, local_hosts=home.intent.models.local_hosts,
        connect_s=3.0, read_s=5.0, total_s=5.0,
    )  # fmt: skip
    load_sdk(profile.provider)
    found = send(lambda: open_provider(endpoint), lambda provider: provider.models(), lambda: None, 5.0)
    return tuple(each.name for each in found)


def _check(home: Home, profile: ProfileIntent) -> None:
    taken = {BUILTIN, *(each.name for each in home.intent.profiles)}
    if profile.name in taken:
        raise UsageFault("a profile with this name exists", profile.name, "give it another name, or remove that one")
    problem = profile_problem(profile, home.intent.models.local_hosts)
    if problem is not None:
        raise UsageFault(f"{profile.name} cannot be a profile", *problem)


def _embeds_again(home: Home, name: str) -> int:
    """Return how many nodes get new vectors where another model embeds from now on, 0 where it is the same."""
    from agent.models.profiles import open_profile

    intent = home.intent
    try:
        now = open_profile(intent, {}).embedder.signature
        then = open_profile(replace(intent, models=replace(intent.models, active=name)), {}).embedder.signature
    except JobFailure:
        return 0
    if now == then:
        return 0
    return int(
        home.connection.value(
            """
            SELECT (SELECT count(*) FROM mem_tree_chunks WHERE lifecycle <> 'dropped')
                   + (SELECT count(*) FROM mem_tree_summaries)
            """
        )
    )


def mend_for(home: Home, scopes: set[str], codes: Sequence[str] | None = None) -> int:
    """Bring back what these profiles' causes (``None``: whichever) had parked or put off; return how many jobs."""
    from agent.models.mending import mend

    return mend(home.connection, home.clock.now_ms(), scopes=sorted(scopes), codes=codes)


def _section(document: Any, name: str) -> Any:
    import tomlkit

    if name not in document:
        document[name] = tomlkit.table()
    return document[name]


def table_of(document: Any, name: str) -> Any:
    """Return the table of a profile in the intent's document. Raises ``AgentFault`` where it is gone."""
    for table in document.get("profiles", []):
        if table.get("name") == name:
            return table
    raise AgentFault("config.toml was changed by another program meanwhile", name, "look at it, then try again")
