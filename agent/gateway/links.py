"""One-time links: how a browser that knows nothing yet is let in, and the places that a link may lead to.

The command line and the tray ask for one with the bearer token, which only the owner's own processes can read. A link
serves once and for a minute; what is kept of it is a hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from enum import StrEnum

from agent.clock import SYSTEM_CLOCK, Clock

LINK_SECONDS = 60.0
LINKS_AT_ONCE = 32
SECRET_BYTES = 32
PLACE_LENGTH = 200

# Our own pages alone, by shape: words of letters, digits and a few marks between slashes. No scheme, no host, no query.
_PLACE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._~:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._~:@+-]*)*)?")


class Entered(StrEnum):
    """What became of a link that was followed."""

    WELCOME = "welcome"
    USED = "used"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class Links:
    """The links that are out. Safe for several threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[bytes, float] = {}
        """The hash of each link's secret and when it ends, the oldest first; used ones are in ``_used`` instead."""
        self._used: dict[bytes, float] = {}

    def mint(self) -> str:
        """Return the secret of a new link. The oldest one ends where too many are out."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with self._lock:
            while len(self._until) >= LINKS_AT_ONCE:
                self._until.pop(next(iter(self._until)))
            self._until[_hash(secret)] = self._clock.monotonic() + LINK_SECONDS
        return secret

    def enter(self, secret: str) -> Entered:
        """Use a link up and return what it was worth."""
        key, now = _hash(secret), self._clock.monotonic()
        with self._lock:
            until = self._until.pop(key, None)
            if until is None:
                return Entered.USED if key in self._used else Entered.UNKNOWN
            while len(self._used) >= LINKS_AT_ONCE:
                self._used.pop(next(iter(self._used)))
            if now > until:
                # Kept, so that a second try is told the same.
                self._until[key] = until
                return Entered.EXPIRED
            self._used[key] = now
            return Entered.WELCOME


def is_place(place: str) -> bool:
    """Return whether this is a place of ours, as ``tree`` or ``sources/add``; ``""`` is the first page."""
    return len(place) <= PLACE_LENGTH and _PLACE.fullmatch(place) is not None


def enter_path(secret: str, place: str) -> str:
    """Return the path of a link that leads to a place of ours."""
    return f"/enter/{secret}?to={place}" if place else f"/enter/{secret}"


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
