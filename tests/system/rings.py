"""Keyrings for tests, found by the child through PYTHON_KEYRING_BACKEND: in a file, or as bad as real ones get."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from keyring.backend import KeyringBackend

PLACE = "KEYRING_PROPERTY_PLACE"


class FileRing(KeyringBackend):
    """Keeps items in the JSON file that KEYRING_PROPERTY_PLACE names, and chatters on stdout as some libraries do."""

    priority = 1  # type: ignore[assignment]
    place = ""

    def _held(self) -> dict[str, str]:
        print("a library says hello on stdout", flush=True)
        os.write(1, b"and again, past every buffer\n")
        file = Path(self.place)
        return json.loads(file.read_text()) if file.exists() else {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._held().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        held = {**self._held(), f"{service}/{username}": password}
        if "sapwood" in service:
            # As long as a slow keyring takes: two writers are sure to meet.
            time.sleep(0.05)
        Path(self.place).write_text(json.dumps(held))

    def delete_password(self, service: str, username: str) -> None:
        held = self._held()
        del held[f"{service}/{username}"]
        Path(self.place).write_text(json.dumps(held))


class SilentRing(FileRing):
    """Asks its owner something that nobody answers; says in a file that it is at it."""

    def get_password(self, service: str, username: str) -> str | None:
        if self.place:
            Path(self.place).write_text(str(os.getpid()))
        time.sleep(600)
        return None


class QuotingRing(FileRing):
    """Quotes what it was given when it fails, on stderr and in its error."""

    def set_password(self, service: str, username: str, password: str) -> None:
        print(password, file=sys.stderr)
        raise RuntimeError(f"cannot store {json.loads(password).popitem()[1]}")


class ForgetfulRing(FileRing):
    """Takes everything and keeps nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        return


class DyingRing(FileRing):
    """Brings its process down."""

    def get_password(self, service: str, username: str) -> str | None:
        os._exit(9)
