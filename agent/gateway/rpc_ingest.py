"""What ``memory.ingest`` takes: a chat's turns, a mail or a document, with times as people and programs write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec

from agent.gateway.calls import WrongParams

if TYPE_CHECKING:
    from agent.ingest.push import Content

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Short = Annotated[str, msgspec.Meta(max_length=1_000)]
SourceId = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9\-]{0,63}$")]
Words = Annotated[tuple[Short, ...], msgspec.Meta(max_length=1_000)]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a chat. The same ``id`` again is the same turn."""

    author: Short
    text: str
    time: Moment | None = None
    id: Short | None = None


class Chat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turns of one conversation; pushes of the same conversation add up."""

    messages: Annotated[tuple[Turn, ...], msgspec.Meta(min_length=1, max_length=50_000)]
    conversation: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] = "chat"


class Email(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One mail, its body as plain text. The same ``message_id`` again is a new version of it."""

    text: str
    subject: Short | None = None
    sender: Short | None = None
    to: Words = ()
    cc: Words = ()
    time: Moment | None = None
    message_id: Short | None = None
    in_reply_to: Short | None = None
    references: Words = ()


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One document in Markdown. The same ``key`` again is a new version of it; without one its words are its key."""

    text: str
    title: Short | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    author: Short | None = None
    time: Moment | None = None
    reference: Short | None = None


class IngestParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of ``chat``, ``email`` and ``document``, and where it belongs."""

    source_id: SourceId
    chat: Chat | None = None
    email: Email | None = None
    document: Document | None = None
    name: Short | None = None
    private: bool = False
    owner: Short | None = None
    tags: Words = ()


def content_of(params: IngestParams) -> Content:
    """Return what is handed in, times in UTC milliseconds. Raises ``WrongParams``."""
    from agent.ingest.push import ChatContent, ChatMessage, DocumentContent, EmailContent

    given = [each for each in (params.chat, params.email, params.document) if each is not None]
    if len(given) != 1:
        found = "none of them is there" if not given else "there are several"
        raise WrongParams(
            "these parameters are not taken",
            f"exactly one of chat, email and document is taken: {found}",
            "push each by a call of its own",
        )
    about = {"owner": params.owner, "tags": params.tags}
    if params.chat is not None:
        turns = tuple(
            ChatMessage(author=turn.author, text=turn.text, time_ms=_ms(turn.time), id=turn.id)
            for turn in params.chat.messages
        )
        return ChatContent(messages=turns, conversation=params.chat.conversation, owner=params.owner, tags=params.tags)
    whole = params.email if params.email is not None else params.document
    fields = {**msgspec.structs.asdict(whole), **about} if whole is not None else {}
    fields["time_ms"] = _ms(fields.pop("time"))
    return EmailContent(**fields) if params.email is not None else DocumentContent(**fields)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)
