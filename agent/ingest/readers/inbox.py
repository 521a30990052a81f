"""What was pushed or remembered: one JSON file a push, in ``inbox/<source>/`` beside the intent (``push.py``).

Read like any source. The three forms are those of the pipeline's entry point: chat, email, document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from agent.ids import content_hash, content_id
from agent.ingest.canonicalize import (
    Turn,
    canonicalize_chat,
    canonicalize_document,
    canonicalize_mail,
    day_name,
    day_of,
)
from agent.ingest.charsets import clean
from agent.ingest.headers import MailHead
from agent.ingest.mail import Mail, group_lines
from agent.ingest.markdown import Markup
from agent.ingest.readers.protocol import (
    Event,
    FileSeen,
    Found,
    Moved,
    Part,
    Resume,
    Stamp,
    Unreachable,
    Unreadable,
    hash_of_parts,
)
from agent.ingest.readers.walk import File, locate, read_bytes, walk_changed
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

MAX_PUSHED_BYTES = 32 * 1024 * 1024
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # what a calendar has days for


@dataclass(frozen=True)
class ChatMessage:
    """One turn. ``id`` is the chat's own; the same id again is the same turn. ``time_ms`` is UTC."""

    author: str
    text: str
    time_ms: int | None = None
    id: str | None = None


@dataclass(frozen=True)
class ChatContent:
    """Turns of one conversation; they are filed by UTC day, merged with what is there of that day."""

    messages: tuple[ChatMessage, ...]
    conversation: str = "chat"
    owner: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class EmailContent:
    """One mail, its body as plain text."""

    text: str
    subject: str | None = None
    sender: str | None = None
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    time_ms: int | None = None
    message_id: str | None = None
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()
    owner: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentContent:
    """One document in Markdown. The same ``key`` again is a new version of it; without one its words are its key."""

    text: str
    title: str | None = None
    key: str | None = None
    author: str | None = None
    time_ms: int | None = None
    reference: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()


Content = ChatContent | EmailContent | DocumentContent


@dataclass(frozen=True)
class Envelope:
    """What a file of the inbox holds: exactly one of the three forms."""

    chat: ChatContent | None = None
    email: EmailContent | None = None
    document: DocumentContent | None = None

    @property
    def content(self) -> Content:
        """The form that is there. Raises ``Unreadable`` where there is none."""
        found = self.chat or self.email or self.document
        if found is None:
            raise Unreadable("not an item of the inbox")
        return found


def kind_of(content: Content) -> SourceKind:
    """Return the shape of a content."""
    if isinstance(content, ChatContent):
        return SourceKind.CHAT
    return SourceKind.EMAIL if isinstance(content, EmailContent) else SourceKind.DOCUMENT


def keys_of(content: Content) -> list[tuple[str, int | None]]:
    """Return the keys of the items that a content is (part of), each with its time."""
    if isinstance(content, ChatContent):
        days = sorted({day_of(message.time_ms) for message in content.messages}, key=lambda day: (day is None, day))
        return [(f"{content.conversation}/{day_name(day) or 'undated'}", day) for day in days]
    if isinstance(content, EmailContent):
        return [(content.message_id or content_hash(msgspec.json.encode(content)), content.time_ms)]
    return [(content.key or content_id("note", content.title or "", content.text), content.time_ms)]


def is_possible(content: Content) -> bool:
    """Return whether the times of a content are of this age: from the year 1 to 9999, so that they can be written."""
    times = [each.time_ms for each in content.messages] if isinstance(content, ChatContent) else [content.time_ms]
    return all(time_ms is None or _FIRST_MS <= time_ms <= _LAST_MS for time_ms in times)


class InboxReader:
    """Reader of one folder of the inbox. The shape of an item is what its file says."""

    kind = "inbox"
    source_kind = SourceKind.DOCUMENT

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        del resume
        for file in walk_changed(source, known, lambda name: name.endswith(".json")):
            if not isinstance(file, File):
                yield file
                continue
            try:
                yield from self._look(file)
            except Unreadable as error:
                yield FileSeen(file.key, file.stamp.unreadable(error.title, now_only=isinstance(error, Unreachable)))

    def _look(self, file: File) -> Iterator[Event]:
        data = read_bytes(file.path, MAX_PUSHED_BYTES)
        content = _decode(data)
        file_hash = content_hash(data)
        title = None if isinstance(content, ChatContent) else _title(content)
        for key, time_ms in keys_of(content):
            part: Part = {**file.place, "hash": file_hash}
            if isinstance(content, ChatContent):
                part = {**part, "hash": content_id(file_hash, str(time_ms)), "day": time_ms}
            yield Found(key, kind_of(content), part, time_ms, title)
        yield FileSeen(file.key, replace(file.stamp, file_hash=file_hash))

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        contents: list[tuple[Content, Part]] = []
        for part in sorted(parts, key=lambda part: str(part["path"])):
            data = read_bytes(locate(source, part), MAX_PUSHED_BYTES)
            found = content_hash(data)
            if (content_id(found, str(part["day"])) if "day" in part else found) != part["hash"]:
                raise Moved(str(part["path"]))
            contents.append((_decode(data), part))
        content_hash_ = hash_of_parts([part for _, part in contents])
        first, first_part = contents[0]
        if isinstance(first, ChatContent):
            return _chat(contents, item_key, first.conversation, first_part.get("day"), content_hash_)
        if isinstance(first, EmailContent):
            mails = [(_mail(content, item_key), _mail_place(content, part)) for content, part in contents]
            return canonicalize_mail(mails, item_key=item_key, content_hash=content_hash_)
        document = contents[-1][0]
        assert isinstance(document, DocumentContent)
        return canonicalize_document(
            clean(document.text),
            item_key=item_key,
            name=item_key,
            place={"path": str(contents[-1][1]["path"]), "item": item_key},
            content_hash=content_hash_,
            markup=Markup.MARKDOWN,
            modified_ms=document.time_ms,
            title=document.title,
            author=document.author,
            time_ms=document.time_ms,
            reference=document.reference,
        )


def _decode(data: bytes) -> Content:
    try:
        content = msgspec.json.decode(data, type=Envelope).content
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable("not an item of the inbox") from error
    if not is_possible(content):
        raise Unreadable("a time in it is none")
    return content


def _title(content: EmailContent | DocumentContent) -> str | None:
    return content.subject if isinstance(content, EmailContent) else content.title


def _chat(
    contents: Sequence[tuple[Content, Part]], item_key: str, conversation: str, day: int | None, content_hash_: str
) -> CanonicalItem:
    parts = []
    for content, part in contents:
        if isinstance(content, ChatContent):
            turns = [
                _turn(message, number)
                for number, message in enumerate(content.messages, 1)
                if day_of(message.time_ms) == day and message.text.strip()
            ]
            parts.append((turns, {"path": part["path"]}))
    return canonicalize_chat(
        parts, item_key=item_key, conversation=conversation, day_ms=day, content_hash=content_hash_
    )


def _turn(message: ChatMessage, number: int) -> Turn:
    from datetime import UTC, datetime

    clock = "" if message.time_ms is None else f"[{datetime.fromtimestamp(message.time_ms / 1000, UTC):%H:%M}] "
    author = " ".join(clean(message.author).split())
    return Turn(f"{clock}<{author}> {clean(message.text).strip()}", message.time_ms, author, number, message.id)


def _mail(content: Content, item_key: str) -> Mail:
    assert isinstance(content, EmailContent)
    thread = next((identity for identity in (*content.references, content.in_reply_to) if identity), item_key)
    head = MailHead(item_key, content.message_id, content.subject, content.time_ms, thread)
    recipients = tuple(
        (label, ", ".join(people)) for label, people in (("To", content.to), ("Cc", content.cc)) if people
    )
    return Mail(head, content.sender, recipients, tuple(group_lines(content.text)), content.attachments)


def _mail_place(content: Content, part: Part) -> dict[str, object]:
    assert isinstance(content, EmailContent)
    return {"path": part["path"], **({"message_id": content.message_id} if content.message_id else {})}
