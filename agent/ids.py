"""Identities: hashes of content, nothing random, nothing timed, nothing arrival-ordered (``tree.md``).

All ids of the memory are 32 hexadecimal characters (128 bits of BLAKE2b). Parts are length-prefixed, so that no two
different lists of parts hash alike.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b

SHAPE_VERSION = 1


def content_id(*parts: str | bytes | int) -> str:
    """Return the id of an ordered list of parts: 32 hexadecimal characters."""
    return _digest(parts, 16).hex()


def content_hash(data: bytes | str) -> str:
    """Return the hash of one body: 32 hexadecimal characters."""
    return blake2b(
        data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()


def stable_number(*parts: str | bytes | int) -> int:
    """Return a number in 0 … 2**63 − 1 that depends on the parts alone (fits an SQLite integer)."""
    return int.from_bytes(_digest(parts, 8), "big") >> 1


def _digest(parts: Sequence[str | bytes | int], size: int) -> bytes:
    state = blake2b(digest_size=size)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(4, "big"))
        state.update(raw)
    return state.digest()


def chunk_id(source_kind: str, source_id: str, item_key: str, position: int, body_hash: str) -> str:
    """Return the id of a chunk; ``position`` is the occurrence number of that body within its item, from 0."""
    return content_id("chunk", source_kind, f"{source_id}/{item_key}", position, body_hash)


def tree_id(kind: str, source_id: str, item_key: str | None = None) -> str:
    """Return the id of a tree, readable and fixed for its scope: ``kind:source_id[:item_key]@SHAPE_VERSION``."""
    scope = f"{source_id}:{item_key}" if item_key is not None else source_id
    return f"{kind}:{scope}@{SHAPE_VERSION}"


def shape_id(tree: str, level: int, children: Sequence[str]) -> str:
    """Return the id of a group of the shape: its tree, the level of its summary, its children's shape ids in order."""
    return content_id("shape", tree, level, *children)


def summary_id(shape: str, signature: str) -> str:
    """Return the id of a summary: its place in the shape and who made it."""
    return content_id("summary", shape, signature)


def random_id() -> str:
    """Return 32 random hexadecimal characters: process and lease identities, never the memory's."""
    return os.urandom(16).hex()


def slug(name: str) -> str:
    """Return a name as a source id: lower-case ASCII letters, digits and hyphens; ``source`` if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:48].rstrip("-") or "source"
