"""The lines between which content stands in a prompt, so that nothing in it can be taken for the prompt's own words.

A delimiter is HMAC(install secret, hash of the content): who writes a mail cannot know it, no content can hold its own,
and the same content is asked about in the same words again, so that a stored answer is found.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from agent.ids import content_hash, random_id

SECRET_NAME = "install.secret"
_BYTES = 32
_LOOKS, _LOOK_S = 10, 0.01
_DELIMITER = 24  # hexadecimal characters
_BROKEN = "[delimiter]"
_LIKE_ONE = re.compile(rf"<<<[0-9a-fA-F]{{{_DELIMITER}}}|[0-9a-fA-F]{{{_DELIMITER}}}>>>")


def install_secret(config_dir: Path) -> bytes:
    """Return the secret of this installation from its file beside ``config.toml``, making it (0600) at the first call.

    Two processes that make it at once end up with the same one: it is written and synced under a name of its own and
    linked into place, which only one can do. A file that holds none is replaced. Raises ``OSError``.
    """
    path = config_dir / SECRET_NAME
    for _ in range(8):
        held = _read(path)
        if held is not None:
            return held
        _make(path)
    raise OSError(f"{path} cannot be made or read")


def _read(path: Path) -> bytes | None:
    for _ in range(_LOOKS):
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        held = _decoded(text)
        if held is not None:
            return held
        time.sleep(_LOOK_S)  # where there are no links, another process may be writing it at this moment
    # Cut off, or written by hand: nothing depends on it but that stored answers are found again.
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{SECRET_NAME}.broken"))
    return None


def _decoded(text: bytes) -> bytes | None:
    try:
        held = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        return None
    return held if len(held) == _BYTES else None


def _make(path: Path) -> None:
    own = path.with_name(f"{SECRET_NAME}.{random_id()[:12]}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            os.write(handle, secrets.token_hex(_BYTES).encode("ascii") + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
        with suppress(FileExistsError):
            _put_in_place(own, path)
    finally:
        with suppress(FileNotFoundError):
            own.unlink()
    _sync_folder(path.parent)


def _put_in_place(own: Path, path: Path) -> None:
    """Give a finished file its name. Raises ``FileExistsError`` where another process was first."""
    try:
        os.link(own, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: whoever creates the name first writes it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, own.read_bytes())
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    # Windows has no handle for a folder, and no need of one.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def delimiter(secret: bytes, content: str) -> str:
    """Return the delimiter of a content: 24 hexadecimal characters, the same for the same content here."""
    return hmac.new(secret, content_hash(content).encode("ascii"), "sha256").hexdigest()[:_DELIMITER]


def fenced(secret: bytes, content: str) -> str:
    """Return a content between two lines that hold its delimiter; none stands in between, not that of another content.

    Who saw an older prompt may write one of its delimiters into what is asked about next.
    """
    mark = delimiter(secret, content)
    tame = _LIKE_ONE.sub(_BROKEN, content).replace(mark, _BROKEN)
    return f"<<<{mark}\n{tame}\n{mark}>>>"
