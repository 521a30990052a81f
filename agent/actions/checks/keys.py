"""The keys that model profiles want, and whether they can be had. No key is looked at, only where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.actions.checks.result import Check
from agent.actions.keys import FILE, key_status, wanted_by
from agent.config import load_intent
from agent.errors import ConfigBroken
from agent.models.key_file import read_key_file
from agent.models.keys import HINTS
from agent.states import KeyState

if TYPE_CHECKING:
    from agent.actions.keys import KeyStatus
    from agent.paths import Paths


def look_at_keys(paths: Paths) -> Iterator[Check]:
    """Yield whether the active profile's key can be had, and whether the key file is closed to others.

    Where no profile wants a key the keyring is not asked: it could ask its owner in turn. Blocks for at most 5 s.
    """
    try:
        intent = load_intent(paths).intent
    except ConfigBroken:
        yield Check("keys", True, "not compared: the settings cannot be read")
        return
    file = read_key_file(paths)
    if not wanted_by(intent) and not file.keys and not file.problem:
        yield Check("keys", True, "no profile wants one")
        return
    if file.problem:
        yield Check("key file", False, f"{file.problem}: it is not used", file.hint)
    yield _keys(key_status(paths))


def _keys(found: KeyStatus) -> Check:
    active = next((key for key in found.keys if key.is_active), None)
    if active is not None and active.place is None:
        if active.state == KeyState.MISSING:
            return Check(
                "keys",
                False,
                f"the active profile wants the key {active.name}: there is none",
                f"`sapwood key set {active.name}`",
            )
        return Check("keys", False, found.ring.reason, HINTS[found.ring.state])
    said = [f"{key.name} in {'keys.json' if key.place == FILE else 'the keyring'}" for key in found.keys if key.place]
    said += [f"{key.name} is missing, for {', '.join(key.profiles)}" for key in found.keys if key.is_missing]
    if found.ring.state is KeyState.VALUE:
        said.append(found.ring.backend)
    else:
        said.append(found.ring.reason)
    return Check("keys", True, "; ".join(said))
