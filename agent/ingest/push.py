"""Items that are handed in: the in-process form of the pipeline's entry point.

No source can give a pushed item again, so it is written to ``inbox/<source>/`` and fsynced before it is acknowledged;
from there it is read like any source. The database is not touched here: losing it loses nothing that was pushed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from agent.config import SourceIntent
from agent.config_edit import sync_folder, write_atomically
from agent.errors import UsageFault
from agent.ids import content_hash, content_id
from agent.ingest.charsets import clean
from agent.ingest.forgotten import text_left
from agent.ingest.readers.inbox import (
    MAX_PUSHED_BYTES,
    ChatContent,
    ChatMessage,
    Content,
    DocumentContent,
    EmailContent,
    Envelope,
    is_possible,
    keys_of,
    kind_of,
)
from agent.ingest.readers.protocol import Unreadable
from agent.masking.mask import mask_secrets
from agent.queue.types import AT_ONCE_MS, NewJob
from agent.states import SourceKind

if TYPE_CHECKING:
    from pathlib import Path

    from agent.ledger import Ledger
    from agent.paths import Paths

__all__ = [
    "ChatContent",
    "ChatMessage",
    "Content",
    "DocumentContent",
    "EmailContent",
    "PushedItem",
    "forget_in_inbox",
    "keyed",
    "left_of",
    "push_item",
    "size_of",
]

_SOURCE_ID = re.compile(r"[a-z0-9][a-z0-9\-]{0,63}")


@dataclass(frozen=True, slots=True)
class PushedItem:
    """What was taken in: durable by now. ``jobs`` are to be enqueued by the caller.

    ``source`` is what the intent has to name (the caller adds it once), so that a lost queue is found again by sweeps.
    """

    source: SourceIntent
    source_kind: SourceKind
    item_keys: tuple[str, ...]
    path: Path
    jobs: tuple[NewJob, ...]


def push_item(paths: Paths, source_id: str, content: Content, *, name: str | None = None) -> PushedItem:
    """Write a content to the inbox and return what it became. Safe to repeat: the same content is the same file.

    Blocks for an fsync. Raises ``UsageFault`` for an impossible source id or time, an empty content, or another shape
    of content than the source already has; ``OSError`` where the disk does not take it: then nothing was acknowledged.
    """
    if _SOURCE_ID.fullmatch(source_id) is None:
        raise UsageFault("this cannot be a source's id", source_id, "use lower-case letters, digits and hyphens")
    kind = kind_of(content)
    _check_content(content)
    try:
        encoded = msgspec.json.encode(_envelope(content)).decode()
    except UnicodeEncodeError as error:
        raise UsageFault("this item is no text", error.reason, "hand in Unicode without lone surrogates") from error
    if len(encoded.encode()) > MAX_PUSHED_BYTES:
        raise UsageFault("this item is too large", f"{len(encoded)} characters", "hand it in in parts")
    folder = paths.inbox / source_id
    _make_folder(folder)
    _check_shape(folder, source_id, kind)
    keys = tuple(key for key, _ in keys_of(content))
    # A chat's pushes add up, so each has a file; a document's or a mail's new version takes the place of the old one.
    identity = content_id(encoded) if isinstance(content, ChatContent) else content_id(*keys)
    path = folder / f"{kind}-{identity}.json"
    write_atomically(path, encoded)
    source = SourceIntent(source_id, "inbox", name or source_id, (str(folder),))
    # Somebody waits for it: it is looked for before what was found by itself.
    look = replace(NewJob.sync_source(source_id), available_at_ms=AT_ONCE_MS)
    return PushedItem(source, kind, keys, path, (look,))


def keyed(content: Content) -> Content:
    """Return a content whose key does not depend on what is left out of it later."""
    if isinstance(content, DocumentContent) and content.key is None:
        return replace(content, key=keys_of(content)[0][0])
    return content


def size_of(content: Content) -> int:
    """Return how many bytes a content takes in the inbox. Raises ``UsageFault`` for what is no text."""
    try:
        return len(msgspec.json.encode(_envelope(content)))
    except UnicodeEncodeError as error:
        raise UsageFault("this item is no text", error.reason, "hand in Unicode without lone surrogates") from error


def left_of(content: Content, ledger: Ledger, source_id: str) -> Content | None:
    """Return a content without what the owner had forgotten: the same object, a shorter one, ``None``: nothing."""
    if not ledger.forgets_anything:
        return content
    return _left_of(content, ledger, source_id, content_hash(msgspec.json.encode(_envelope(content))))


def _envelope(content: Content) -> Envelope:
    if isinstance(content, ChatContent):
        return Envelope(chat=content)
    return Envelope(email=content) if isinstance(content, EmailContent) else Envelope(document=content)


def _check_content(content: Content) -> None:
    texts = [message.text for message in content.messages] if isinstance(content, ChatContent) else [content.text]
    if not any(text.strip() for text in texts):
        raise UsageFault("there is nothing in this item", "", "an item needs words to be remembered by")
    if not is_possible(content):
        raise UsageFault("a time of this item is none", "", "times are milliseconds since 1970 in UTC")


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    # One by one: the mode is that of the last folder made alone.
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    # The folder itself has to outlive a power cut, or the file in it does not.
    sync_folder(folder.parent)
    sync_folder(folder.parent.parent)


def _check_shape(folder: Path, source_id: str, kind: SourceKind) -> None:
    other = next((path for path in folder.glob("*.json") if not path.name.startswith(f"{kind}-")), None)
    if other is not None:
        held = other.name.partition("-")[0]
        raise UsageFault(
            f"this source takes items of the shape {held}",
            f"{source_id} was handed one of the shape {kind}",
            "use another source for it",
        )


def forget_in_inbox(paths: Paths, ledger: Ledger, source_id: str | None = None) -> int:
    """Take out of the inbox what the ledger forgets, and return how many files were changed or deleted.

    The inbox is the only copy of what was pushed, so the words are gone then. Safe to repeat and to interrupt: each
    file is deleted or replaced at once. What cannot be read as an item stays. Raises ``OSError``.
    """
    if not ledger.forgets_anything or not paths.inbox.is_dir():
        return 0
    changed = 0
    for folder in sorted(path for path in paths.inbox.iterdir() if path.is_dir()):
        if source_id is not None and folder.name != source_id:
            continue
        changed += _drop_drafts(folder)
        for path in sorted(folder.glob("*.json")):
            try:
                data = path.read_bytes()
                content = msgspec.json.decode(data, type=Envelope).content
            except (Unreadable, msgspec.DecodeError, UnicodeDecodeError, FileNotFoundError):
                continue
            left = _left_of(content, ledger, folder.name, content_hash(data))
            if left is content:
                continue
            changed += 1
            if left is None:
                path.unlink(missing_ok=True)
                sync_folder(folder)
            else:
                write_atomically(path, msgspec.json.encode(_envelope(left)).decode())
    return changed


def _drop_drafts(folder: Path) -> int:
    """Delete what a process that died left of a file it had not finished: nobody was told that it was taken in."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    dropped = 0
    for path in folder.glob(".*.json.*.tmp"):
        pid = path.name.removesuffix(".tmp").rpartition(".")[2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            path.unlink(missing_ok=True)
            dropped += 1
    return dropped


def _left_of(content: Content, ledger: Ledger, source_id: str, file_hash: str) -> Content | None:
    """Return a content without what the ledger forgets: the same object, a shorter one, or ``None``."""
    if isinstance(content, ChatContent):
        kept = tuple(_messages_left(content, ledger, source_id))
        if kept == content.messages:
            return content
        return replace(content, messages=kept) if kept else None
    key = keys_of(content)[0][0]
    if ledger.forgets_item(source_id, key, file_hash):
        return None
    text = _text_left(ledger, source_id, key, content.text, kind_of(content))
    if text is None:
        return None
    if isinstance(content, EmailContent):
        to, cc = (
            () if people and ledger.forgets_piece(source_id, key, f"{label}: {', '.join(people)}") else people
            for label, people in (("To", content.to), ("Cc", content.cc))
        )
        left = replace(content, text=text, to=to, cc=cc)
        return content if left == content else left
    return content if text == content.text else replace(content, text=text)


def _messages_left(content: ChatContent, ledger: Ledger, source_id: str) -> Iterator[ChatMessage]:
    for message in content.messages:
        key = keys_of(replace(content, messages=(message,)))[0][0]
        if ledger.forgets_item(source_id, key):
            continue
        # As it stands in a chunk, behind time and name, so that its pieces are the same ones.
        before = "[00:00] <x> "
        text = _text_left(ledger, source_id, key, before + message.text.strip(), SourceKind.CHAT)
        if text is None:
            continue
        text = text.removeprefix(before)
        yield message if text == message.text.strip() else replace(message, text=text)


def _text_left(ledger: Ledger, source_id: str, key: str, text: str, kind: SourceKind) -> str | None:
    """Return a text without forgotten pieces; they are compared as they are stored, with their secrets masked."""
    masked = mask_secrets(clean(text))
    left = text_left(ledger, source_id, key, masked, kind)
    return text if left is masked else left
