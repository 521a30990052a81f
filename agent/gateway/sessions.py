"""Who has been let in: browsers that came through a one-time link, for as long as this process lives.

Nothing of a session is written anywhere. What is kept of its secret is a hash, so that no memory dump lets anybody in.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass, field

from agent.clock import SYSTEM_CLOCK, Clock

SESSION_SECONDS = 30 * 24 * 3600.0
SESSIONS_AT_ONCE = 64
SECRET_BYTES = 32


@dataclass(frozen=True)
class Session:
    """A browser that was let in. ``csrf`` goes into its forms; ``until`` is on the monotonic clock, in seconds."""

    until: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)


class Sessions:
    """The sessions there are. Safe for several threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[bytes, Session] = {}

    def begin(self) -> tuple[str, Session]:
        """Return the secret of a new session and the session. The oldest one ends where there are too many."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        session = Session(self._clock.monotonic() + SESSION_SECONDS)
        with self._lock:
            while len(self._held) >= SESSIONS_AT_ONCE:
                self._held.pop(next(iter(self._held)))
            self._held[_hash(secret)] = session
        return secret, session

    def find(self, secret: str | None) -> Session | None:
        """Return the session of a secret, ``None`` where there is none, or none any more."""
        if not secret:
            return None
        key = _hash(secret)
        with self._lock:
            found = self._held.get(key)
            if found is not None and self._clock.monotonic() >= found.until:
                del self._held[key]
                return None
            return found


def cookie_name(port: int) -> str:
    """Return the name of the cookie: browsers keep cookies by host alone, and two agents may run on one machine."""
    return f"sapwood_session_{port}"


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
