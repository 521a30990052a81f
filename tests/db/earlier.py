"""Memories that earlier versions wrote, as owners have them."""

from __future__ import annotations

import lzma
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
GROWN = ("notes", "club-chat")
WAITING = "club-mail.mbox"


def earlier_schemas() -> list[int]:
    """Return the schemas that there is a memory of."""
    return sorted(int(path.name.removeprefix("schema-").partition(".")[0]) for path in FIXTURES.glob("schema-*.db.xz"))


def unpack(schema: int, target: Path) -> None:
    """Write the memory of a schema to a path that nobody has opened."""
    target.write_bytes(lzma.decompress((FIXTURES / f"schema-{schema}.db.xz").read_bytes()))
