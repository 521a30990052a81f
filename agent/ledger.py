"""The ledger: what must outlive the memory and stands in no source.

``ledger.jsonl`` beside the intent holds hashes of what was forgotten and the owner's answers, one JSON object a line,
fsynced before anybody is told. It holds no words: every hash is salted with a number of this home, so that lists of
common names cannot be tried against it by anyone who has only the hashes.

A line that a crash cut short is no line; the next append begins a new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.config import stamp_of
from agent.ids import content_id, random_id
from agent.states import Answer

if TYPE_CHECKING:
    from agent.paths import Paths

LONG_PIECE = 24
"""Pieces of at least so many characters are forgotten in all of their source, shorter ones in their item alone: a
"Thank you" that was forgotten with a mail is no reason to cut it out of every other."""

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Ledger:
    """The ledger as of one moment. ``stamp`` changes when it does; ``broken`` counts lines that cannot be read."""

    stamp: Stamp = (0, 0, 0)
    salt: str = ""
    """What this home hashes with."""
    other_salts: tuple[str, ...] = ()
    """What homes hashed with whose ledgers were united with this one: their hashes count as well."""
    items: frozenset[str] = frozenset()
    pieces: frozenset[str] = frozenset()
    answers: Mapping[str, Answer] = field(default_factory=dict)
    broken: int = 0
    forgotten_ms: int = 0
    """When something was forgotten last (UTC ms, to the second); 0 where nothing was, or nobody can tell."""

    @property
    def forgets_anything(self) -> bool:
        """Whether anything was ever forgotten; spares the hashing where not."""
        return bool(self.items or self.pieces)

    def item_hash(self, source_id: str, item_key: str) -> str:
        """Return the hash under which an item is forgotten whatever it holds."""
        return _item_hash(self.salt, source_id, item_key)

    def content_hash(self, source_id: str, held_hash: str) -> str:
        """Return the hash under which a content is forgotten in its source whatever it is called."""
        return _content_hash(self.salt, source_id, held_hash)

    def piece_hash(self, source_id: str, item_key: str, piece: str) -> str:
        """Return the hash of one piece of text; white space does not count."""
        return _piece_hash(self.salt, source_id, item_key, piece)

    def forgets_item(self, source_id: str, item_key: str, held_hash: str | None = None) -> bool:
        """Return whether an item was forgotten, by its name or (where given) by its content."""
        if not self.items:
            return False
        return any(
            _item_hash(salt, source_id, item_key) in self.items
            or (held_hash is not None and _content_hash(salt, source_id, held_hash) in self.items)
            for salt in (self.salt, *self.other_salts)
        )

    def forgets_piece(self, source_id: str, item_key: str, piece: str) -> bool:
        """Return whether a piece of text of an item was forgotten."""
        return bool(self.pieces) and any(
            _piece_hash(salt, source_id, item_key, piece) in self.pieces for salt in (self.salt, *self.other_salts)
        )


def _item_hash(salt: str, source_id: str, item_key: str) -> str:
    return content_id(salt, "item", source_id, item_key)


def _content_hash(salt: str, source_id: str, held_hash: str) -> str:
    return content_id(salt, "content", source_id, held_hash)


def _piece_hash(salt: str, source_id: str, item_key: str, piece: str) -> str:
    words = " ".join(piece.split())
    scope = "" if len(words) >= LONG_PIECE else item_key
    return content_id(salt, "piece", source_id, scope, words)


def read_ledger(paths: Paths) -> Ledger:
    """Return the ledger; an empty one where there is none. Raises ``OSError`` where it is there but cannot be read.

    It must not be taken for empty then: what was forgotten would come back.
    """
    stamp = stamp_of(paths.ledger)
    try:
        data = paths.ledger.read_bytes()
    except FileNotFoundError:
        return Ledger()
    salts, items, pieces, answers, broken = dict[str, None](), set[str](), set[str](), dict[str, Answer](), 0
    forgotten_ms = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            entry: dict[str, Any] = json.loads(line)
            if "salt" in entry:
                salts[str(entry["salt"])] = None
            items.update(entry.get("items", ()))
            pieces.update(entry.get("pieces", ()))
            if "forgotten" in entry:
                forgotten_ms = max(forgotten_ms, round(datetime.fromisoformat(entry["forgotten"]).timestamp() * 1000))
            if "question" in entry:
                answers[entry["question"]] = Answer(entry["answer"])
        except (ValueError, TypeError, AttributeError, KeyError):
            broken += 1
    salt, *others = salts or [""]
    return Ledger(stamp, salt, tuple(others), frozenset(items), frozenset(pieces), answers, broken, forgotten_ms)


class LedgerWatcher:
    """The ledger as of now: a ``stat`` on each look, read again only where it changed."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._file = str(paths.ledger)
        self._held: Ledger | None = None

    @property
    def current(self) -> Ledger:
        """The ledger, read again if the file changed. Raises ``OSError``."""
        held = self._held
        if held is None or stamp_of(self._file) != held.stamp:
            held = self._held = read_ledger(self._paths)
        return held


def prepare_ledger(paths: Paths) -> Ledger:
    """Return the ledger, made with its salt where it was missing: hashes are asked of it before they are appended."""
    with _locked(paths):
        held = read_ledger(paths)
        if not held.salt:
            _append(paths, [{"salt": random_id(), "version": 1}])
            held = read_ledger(paths)
    return held


def append_forgotten(paths: Paths, now_ms: int, *, items: Iterable[str] = (), pieces: Iterable[str] = ()) -> Ledger:
    """Write down hashes of what was forgotten (of a prepared ledger) and return the ledger with them.

    On the disk when it returns. Raises ``OSError``: then nothing may be called forgotten.
    """
    entry: dict[str, Any] = {"forgotten": iso(now_ms)}
    if found := sorted(set(items)):
        entry["items"] = found
    if found := sorted(set(pieces)):
        entry["pieces"] = found
    with _locked(paths):
        _append(paths, [entry])
    return read_ledger(paths)


def append_answer(paths: Paths, now_ms: int, question_id: str, answer: Answer, source_id: str) -> Ledger:
    """Write down the answer to a question and return the ledger with it. On the disk when it returns."""
    with _locked(paths):
        _append(paths, [{"question": question_id, "answer": str(answer), "source": source_id, "answered": iso(now_ms)}])
    return read_ledger(paths)


def unite_ledger(paths: Paths, other: bytes) -> int:
    """Append every line of another ledger that this one lacks (a restore) and return how many; nothing is taken out.

    On the disk when it returns. Lines that cannot be read stay out. Raises ``OSError``.
    """
    with _locked(paths):
        held: set[bytes] = set()
        if paths.ledger.exists():
            held = {line.strip() for line in paths.ledger.read_bytes().split(b"\n")}
        missing: list[dict[str, Any]] = []
        for line in other.split(b"\n"):
            if not line.strip() or line.strip() in held:
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                missing.append(entry)
        if missing:
            _append(paths, missing)
    return len(missing)


def _locked(paths: Paths) -> Any:
    from filelock import FileLock

    paths.config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(paths.config_dir / "ledger.lock", timeout=10, fallback_to_soft=False)


def _append(paths: Paths, entries: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries).encode()
    fresh = not paths.ledger.exists()
    descriptor = os.open(paths.ledger, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                text = b"\n" + text
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if fresh:
        from agent.config_edit import sync_folder

        sync_folder(paths.config_dir)
