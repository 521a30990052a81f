"""``sapwood _key``: the child that asks the keyring, and is ended where that blocks.

One question as a line of JSON on stdin, one answer as a line of JSON on stdout, then the end. Nothing but an answer
gets onto stdout, whatever a keyring's library prints; what it logs goes to stderr, which nobody keeps.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from agent.system.core_dumps import forbid_core_dumps
from agent.system.parent import die_with_parent
from agent.system.streams import ensure_streams

SERVICE = "sapwood"
USER = "keys"
USER_OF_ONE = "key"
_OVERDUE_S = 2.0
_LONGEST_REASON = 200
_REFUSED_MODULES = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
_NOT_ALLOWED_ON_MACOS = "-25308"  # errSecInteractionNotAllowed: it would have to ask, and may not

Answer = dict[str, Any]


def serve() -> int:
    """Answer the question on stdin and return the exit code."""
    ensure_streams()
    forbid_core_dumps()
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        question: Answer = json.loads(sys.stdin.readline())
    except ValueError:
        print("this is how sapwood asks the keyring; for you there is `sapwood key`", file=sys.stderr)  # noqa: T201
        return 2
    # The parent ends this process in time, unless it is gone itself.
    overdue = threading.Timer(float(question["limit_s"]) + _OVERDUE_S, os._exit, (1,))
    overdue.daemon = True
    overdue.start()
    die_with_parent(int(question["parent"]))
    said = json.dumps(answer(question)).encode() + b"\n"
    while said:
        said = said[os.write(answers, said) :]
    # No interpreter shutdown: it would wait for threads of a library.
    os._exit(0)


def answer(question: Answer, open_ring: Callable[[], Any] | None = None) -> Answer:
    """Return the answer to one question; whatever goes wrong is an answer. ``open_ring`` is for tests."""
    ring: Any = None
    try:
        ring = (open_ring or _open_ring)()
        return {"backend": _name_of(ring), **_carry_out(ring, question)}
    except Exception as error:
        state, reason = _told(error)
        if question.get("value"):
            # A library that quotes what it was given is no way out for a key.
            reason = reason.replace(question["value"], "[secret]")
        return {"backend": _name_of(ring), "state": state, "reason": reason[:_LONGEST_REASON]}


class Refused(Exception):
    """A keyring that is none: it keeps nothing, or keeps it for everybody to read."""


def _open_ring() -> Any:
    import keyring.backend
    import keyring.core

    with contextlib.suppress(ImportError):
        # A frozen build has no list of plugins; what is imported is found.
        if sys.platform == "win32":
            import keyring.backends.Windows
        elif sys.platform == "darwin":
            import keyring.backends.macOS
        else:
            import keyring.backends.SecretService
    # The chainer asks it too, so that no plaintext stands behind a good one.
    keyring.core.init_backend(lambda ring: not why_refused(ring))
    ring = keyring.core.get_keyring()
    refusal = why_refused(ring)
    if refusal:
        raise Refused(refusal)
    return ring


def why_refused(ring: object) -> str:
    """Return why a back end of the keyring library is not used, or nothing."""
    module, name = type(ring).__module__, type(ring).__qualname__
    if module.startswith("keyring.backends.fail"):
        return "this login has no keyring that could be used"
    if module.startswith("keyring.backends.null"):
        return "the keyring is switched off by the owner's own settings (null)"
    if module.startswith(_REFUSED_MODULES) or "plaintext" in name.lower():
        return f"the keyring that was chosen keeps keys in a file for everybody to read ({module}.{name})"
    if module.startswith("keyring.backends.chainer") and not _chained(ring):
        # It would take a key and keep it nowhere, without a word.
        return "this login has no keyring that could be used"
    return ""


def _chained(ring: Any) -> list[Any]:
    return list(getattr(ring, "backends", ()))


def _name_of(ring: object) -> str:
    if ring is None:
        return ""
    parts = _chained(ring) or [ring]
    return ", ".join(f"{type(part).__module__}.{type(part).__qualname__}" for part in parts)


def _carry_out(ring: Any, question: Answer) -> Answer:
    store = _PerName(ring) if question["per_name"] else _OneItem(ring)
    op = question["op"]
    if op == "read":
        value = store.read(question["name"])
        return {"state": "missing"} if value is None else {"state": "value", "value": value}
    if op == "write":
        store.write(question["name"], question["value"])
        # Said to be stored is only what can be had back.
        if store.read(question["name"]) != question["value"]:
            return {"state": "unavailable", "reason": "the keyring took the key and does not have it"}
        return {"state": "value"}
    if op == "remove":
        if store.read(question["name"]) is None:
            return {"state": "missing"}
        store.remove(question["name"])
        if store.read(question["name"]) is not None:
            return {"state": "unavailable", "reason": "the keyring still has the key"}
        return {"state": "value"}
    return {"state": "value", "names": store.names(question["names"])}


class _OneItem:
    """All keys in one item: a keyring that asks its owner for each asks once."""

    def __init__(self, ring: Any) -> None:
        self._ring = ring

    def read(self, name: str) -> str | None:
        return self._held().get(name)

    def write(self, name: str, value: str) -> None:
        self._ring.set_password(SERVICE, USER, json.dumps({**self._held(), name: value}))

    def remove(self, name: str) -> None:
        held = self._held()
        held.pop(name, None)
        if held:
            self._ring.set_password(SERVICE, USER, json.dumps(held))
        else:
            self._ring.delete_password(SERVICE, USER)

    def names(self, asked: list[str]) -> list[str]:
        return sorted(self._held())

    def _held(self) -> dict[str, str]:
        text = self._ring.get_password(SERVICE, USER)
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            # Not what we wrote; the next key that is set takes its place.
            return {}
        return {name: value for name, value in found.items() if isinstance(value, str)}


class _PerName:
    """One item for each key: those of Windows hold 1,280 letters."""

    def __init__(self, ring: Any) -> None:
        self._ring = ring

    def read(self, name: str) -> str | None:
        found: str | None = self._ring.get_password(f"{SERVICE}:{name}", USER_OF_ONE)
        return found

    def write(self, name: str, value: str) -> None:
        self._ring.set_password(f"{SERVICE}:{name}", USER_OF_ONE, value)

    def remove(self, name: str) -> None:
        self._ring.delete_password(f"{SERVICE}:{name}", USER_OF_ONE)

    def names(self, asked: list[str]) -> list[str]:
        return sorted(name for name in asked if self.read(name) is not None)


def _told(error: Exception) -> tuple[str, str]:
    """Return the state and the words for what a keyring raised; libraries beneath it raise what they like."""
    kind = type(error).__name__
    if kind in ("KeyringLocked", "LockedException", "PromptDismissedException") or _NOT_ALLOWED_ON_MACOS in str(error):
        return "locked", "the keyring is locked"
    if isinstance(error, Refused):
        return "unavailable", str(error)
    if kind == "NoKeyringError":
        return "unavailable", "this login has no keyring that could be used"
    if kind == "InitError":
        return "unavailable", f"the keyring could not be opened: {error}"
    if isinstance(error, ImportError):
        return "unavailable", f"the keyring that was chosen is not installed: {error}"
    return "unavailable", f"the keyring failed: {kind}: {error}"
