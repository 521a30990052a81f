"""The owner's keys of model accounts: set, removed, and told where they are. A key is never shown, nor part of it."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import load_intent
from agent.errors import AgentFault, SapwoodError, UsageFault
from agent.models.key_file import read_key_file, write_key_file
from agent.models.keys import HINTS, changing_keys, mark_login
from agent.redact import mask_secrets
from agent.states import KeyState
from agent.system.keyring import Keyring, RingAnswer, SystemKeyring

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.paths import Paths

KEYRING, FILE = "keyring", "file"
USUAL = ("openai", "anthropic")
LONGEST_KEY = 1_200 if sys.platform == "win32" else 4_096  # an item of Windows takes 1,280 letters
LONGEST_NAME = 100
_KEY = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]*")


@dataclass(frozen=True)
class KeySet:
    """A key that was stored, and where: in the keyring or in the file. ``notice``: what its owner should know."""

    name: str
    place: str
    profiles: tuple[str, ...]
    notice: str = ""
    requeued: int = 0


@dataclass(frozen=True)
class KeyRemoved:
    """From where a key was taken out; nowhere: there was none. ``notice`` says where it could not be looked for."""

    name: str
    places: tuple[str, ...]
    notice: str = ""


@dataclass(frozen=True)
class KeyPlace:
    """One key: where it lies (``None``: nowhere that is known), and which profiles want it.

    ``state`` is ``stored``, ``missing``, or what the keyring said in the place of an answer.
    """

    name: str
    place: str | None
    state: str
    profiles: tuple[str, ...]
    is_active: bool

    @property
    def is_missing(self) -> bool:
        """Whether some profile wants it and it is known to be nowhere."""
        return bool(self.profiles) and self.state == KeyState.MISSING


@dataclass(frozen=True)
class KeyStatus:
    """All keys that are stored or wanted, and how the two places are. ``file_mode`` is there where the file is."""

    keys: tuple[KeyPlace, ...]
    ring: RingAnswer
    file_path: str
    file_mode: str | None
    file_problem: str = ""
    file_hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "stored": [
                {"name": key.name, "place": key.place, "state": key.state, "profiles": list(key.profiles)}
                for key in self.keys
            ],
            "keyring": {
                "state": "ready" if self.ring.state is KeyState.VALUE else str(self.ring.state),
                "backend": self.ring.backend,
                "reason": self.ring.reason,
            },
            "file": {"path": self.file_path, "mode": self.file_mode, "problem": self.file_problem},
        }


def set_key(
    paths: Paths,
    name: str,
    value: str,
    *,
    in_file: bool = False,
    ring: Keyring | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> KeySet:
    """Store a key, have what lacked it tried again, and return where it lies; blocks for at most some seconds.

    Raises ``UsageFault`` for what is no name or no key, ``AgentFault`` where the keyring does not take it.
    """
    name, value = checked_name(name), checked_key(value)
    with changing_keys(paths):
        file = read_key_file(paths)
        if in_file:
            write_key_file(paths, {**file.keys, name: value})
        else:
            answer = (ring or SystemKeyring()).write(name, value)
            if answer.state is not KeyState.VALUE:
                raise _not_stored(name, answer)
            if name in file.keys:
                # The file would come first, with the old one.
                write_key_file(paths, {other: held for other, held in file.keys.items() if other != name})
    intent = load_intent(paths).intent
    profiles = wanted_by(intent).get(name, ())
    return KeySet(name, FILE if in_file else KEYRING, profiles, _unwanted(name, intent), _mend(paths, name, clock))


def remove_key(paths: Paths, name: str, *, ring: Keyring | None = None) -> KeyRemoved:
    """Take a key out of the file and of the keyring. Raises ``UsageFault`` for what is no name.

    Raises ``AgentFault`` where it was in no file and the keyring does not let itself be asked.
    """
    name = checked_name(name)
    places: list[str] = []
    with changing_keys(paths):
        file = read_key_file(paths)
        if name in file.keys:
            write_key_file(paths, {other: held for other, held in file.keys.items() if other != name})
            places.append(FILE)
        answer = (ring or SystemKeyring()).remove(name)
    if answer.state is KeyState.VALUE:
        places.append(KEYRING)
    elif answer.state is not KeyState.MISSING:
        if not places:
            raise AgentFault(f"the key {name} could not be removed", answer.reason, HINTS[answer.state])
        return KeyRemoved(name, tuple(places), f"the keyring could not be asked whether it has one: {answer.reason}")
    return KeyRemoved(name, tuple(places), file.problem)


def key_status(paths: Paths, name: str | None = None, *, ring: Keyring | None = None) -> KeyStatus:
    """Return which keys are stored and wanted, or one of them alone; blocks for at most 5 s.

    Raises ``UsageFault`` for what is no name, ``ConfigBroken`` where no intent can be read.
    """
    asked = None if name is None else checked_name(name)
    intent = load_intent(paths).intent
    wanted = wanted_by(intent)
    file = read_key_file(paths)
    names = [asked] if asked else sorted({*wanted, *file.keys})
    answer = (ring or SystemKeyring()).look(tuple(names))
    if asked is None:
        names = sorted({*names, *answer.names})
    active = intent.active_profile
    keys = tuple(
        _place(each, wanted.get(each, ()), file.keys, answer, active is not None and active.key_name == each)
        for each in names
    )
    mode = None
    if os.path.lexists(file.path):
        mode = f"{stat.S_IMODE(os.lstat(file.path).st_mode):04o}"
    return KeyStatus(keys, answer, str(file.path), mode, file.problem, file.hint)


def _place(name: str, profiles: tuple[str, ...], in_file: dict[str, str], answer: RingAnswer, active: bool) -> KeyPlace:
    if name in in_file:
        return KeyPlace(name, FILE, "stored", profiles, active)
    if answer.state is not KeyState.VALUE:
        return KeyPlace(name, None, str(answer.state), profiles, active)
    if name in answer.names:
        return KeyPlace(name, KEYRING, "stored", profiles, active)
    return KeyPlace(name, None, str(KeyState.MISSING), profiles, active)


def wanted_by(intent: Intent) -> dict[str, tuple[str, ...]]:
    """Return the names of all keys that profiles want, each with those profiles."""
    found: dict[str, tuple[str, ...]] = {}
    for profile in intent.profiles:
        if profile.key_name:
            found[profile.key_name] = (*found.get(profile.key_name, ()), profile.name)
    return found


def known_names(paths: Paths, intent: Intent) -> list[str]:
    """Return the names that a shell completes; asks no keyring."""
    return sorted({*USUAL, *wanted_by(intent), *read_key_file(paths).keys})


def started_at_login(paths: Paths, clock: Clock = SYSTEM_CLOCK) -> None:
    """Note that the login starts the agent now: no keyring is asked in the next minute. Raises ``OSError``."""
    mark_login(paths, clock.now_ms())


def not_an_argument() -> UsageFault:
    """Return the refusal of a key that stands on the command line; it does not repeat it."""
    return UsageFault(
        "a key is not given on the command line",
        "every program can read it there, and it may be in your shell's history by now; nothing was stored. If it was "
        "a real key, take that line out of the history and make a new key at the provider",
        "`sapwood key set PROVIDER` asks for it without showing it, or takes it from a pipe",
    )


def checked_name(name: str) -> str:
    """Return the name of a key. Raises ``UsageFault``, which never repeats what may be a key itself."""
    if mask_secrets(name) != name or len(name) > LONGEST_NAME:
        raise not_an_argument()
    if not _NAME.fullmatch(name):
        raise UsageFault(
            "this is no name of a key", name, f"it is what a profile says, as {' or '.join(USUAL)}, or its host"
        )
    return name


def checked_key(text: str) -> str:
    """Return a key without the blanks around it. Raises ``UsageFault``, which says nothing of the key itself."""
    value = text.strip()
    if not value:
        raise UsageFault("no key was given", "nothing was stored", "paste it where it is asked for, or pipe it in")
    if len(value) > LONGEST_KEY:
        raise UsageFault(
            "this is too long for a key",
            f"it has more than {LONGEST_KEY} letters; nothing was stored",
            "copy the key alone, not the file or the page that it stands in",
        )
    if not _KEY.fullmatch(value):
        raise UsageFault(
            "this is no key",
            "it has blanks, control characters or letters that no key has; nothing was stored",
            "copy the key alone, without quotes or words around it",
        )
    return value


def _not_stored(name: str, answer: RingAnswer) -> AgentFault:
    return AgentFault(
        f"the key {name} could not be stored in the keyring",
        answer.reason,
        HINTS[answer.state]
        if answer.state is not KeyState.UNAVAILABLE
        else f"`sapwood key set {name} --in-file` keeps it in a file that only you can read, in plain text",
    )


def _unwanted(name: str, intent: Intent) -> str:
    wanted = wanted_by(intent)
    if name in wanted or not wanted:
        return ""
    return f"no profile wants a key of this name; there are profiles that want: {', '.join(sorted(wanted))}"


def _mend(paths: Paths, name: str, clock: Clock) -> int:
    """Have what failed for the lack of this key tried again, and return how many jobs that are."""
    if not paths.database.exists():
        return 0
    from agent.db.connection import connect
    from agent.db.faults import is_database_fault
    from agent.models.mending import mend
    from agent.states import Hold

    codes = [str(Hold.AUTH_FAILED), str(Hold.KEYS_NOT_YET)]
    profiles = [each.name for each in load_intent(paths).intent.profiles if each.key_name == name]
    try:
        connection = connect(paths.database, paths.write_turn, create=False)
        try:
            return mend(connection, clock.now_ms(), scopes=profiles, codes=codes)
        finally:
            connection.close()
    except Exception as error:
        # The key is set, whatever keeps the memory from being opened: the agent tries by itself, a bit later.
        if not isinstance(error, SapwoodError) and not is_database_fault(error):
            raise
        return 0
