"""A mailbox in one file (mbox), read as a stream: a gigabyte is never held in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import IO, TYPE_CHECKING

from agent.ingest.canonicalize import canonicalize_mail
from agent.ingest.headers import HEAD_LIMIT, read_head
from agent.ingest.mail import MAX_MAIL_BYTES, parse_mail
from agent.ingest.readers.growth import Mark, grown_from, sign
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
    checked,
    hash_of_parts,
)
from agent.ingest.readers.walk import File, locate, open_file, read_span, too_large, walk_changed
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

BLOCK = 1024 * 1024
SETTING = "limits.mail_bytes"
_LOOK_AHEAD = 2048
_EMPTY_LINE = 4  # bytes, with the line end before it

# A body may hold "From " after an empty line, so a separator must look like one: an address or a dash, then a date; or
# an address alone. And a header has to follow.
_SEPARATOR = re.compile(
    rb"From (?:[^\r\n]*?\b\d{1,2}:\d{2}(?::\d{2})?\b[^\r\n]*\b(?:19|20)\d{2}\b[^\r\n]*"
    rb"|[^\r\n]*\b(?:19|20)\d{2}\b[^\r\n]*\b\d{1,2}:\d{2}[^\r\n]*|\S+@\S+|-|MAILER-DAEMON)[ \t]*\r?\n"
    rb"(?:>?From [^\r\n]*\r?\n)?[!-9;-~]+[ \t]*:"
)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


def is_mailbox_name(name: str) -> bool:
    """Return whether a file of this name may be a mailbox: with the suffix, or with none (Thunderbird's have none)."""
    return name.lower().endswith((".mbox", ".mbx")) or "." not in name


def is_mailbox(beginning: bytes) -> bool:
    """Return whether a file begins like a mailbox."""
    return _SEPARATOR.match(beginning) is not None


class Message:
    """Where one message of a mailbox lies, the hash of its bytes, and their beginning."""

    __slots__ = ("digest", "head", "length", "offset", "separator")

    def __init__(self, separator: int, offset: int) -> None:
        self.separator = separator
        self.offset = offset
        self.length = 0
        self.digest = blake2b(digest_size=16)
        self.head = b""

    def add(self, data: bytes) -> None:
        """Take more of its bytes."""
        if len(self.head) < HEAD_LIMIT:
            self.head += data[: HEAD_LIMIT - len(self.head)]
        self.digest.update(data)
        self.length += len(data)


def split_mailbox(stream: IO[bytes], start: int = 0) -> Iterator[Message]:
    """Yield the messages of a mailbox from a byte on, which must be the beginning of a separator. Streams."""
    stream.seek(start)
    buffer = stream.read(BLOCK)
    base = start
    message: Message | None = None
    at = 0  # in the buffer: what of it was not given to a message yet
    search = 0
    ended = len(buffer) < BLOCK
    while buffer:
        found = _next_separator(buffer, search, at_start=message is None)
        if found >= 0 and (found + _LOOK_AHEAD <= len(buffer) or ended):
            if message is not None:
                message.add(buffer[at:found])
                yield message
            line_end = buffer.index(b"\n", found) + 1
            message = Message(base + found, base + line_end)
            at = search = line_end
            continue
        if ended:
            break
        # Keep what may still turn out to be a separator, hand on the rest.
        keep = max(at, found if found >= 0 else len(buffer) - _LOOK_AHEAD)
        if message is not None:
            message.add(buffer[at:keep])
        more = stream.read(BLOCK)
        ended = len(more) < BLOCK
        begin = max(0, keep - _EMPTY_LINE)  # the empty line before a separator has to stay in sight
        buffer = buffer[begin:] + more
        base += begin
        at = keep - begin
        search = at
    if message is not None:
        message.add(buffer[at:])
        yield message


def _next_separator(buffer: bytes, search: int, *, at_start: bool) -> int:
    if at_start and search == 0 and _SEPARATOR.match(buffer):
        return 0
    at = max(0, search - _EMPTY_LINE)
    while True:
        at = buffer.find(b"\nFrom ", at)
        if at < 0:
            return -1
        empty_before = buffer[max(0, at - 1) : at] == b"\n" or buffer[max(0, at - 2) : at] == b"\n\r"
        if empty_before and at + 1 >= search and _SEPARATOR.match(buffer, at + 1):
            return at + 1
        at += 1


def limit_of(source: SourceIntent) -> int:
    """Return how large a mail of a source may be, in bytes."""
    return MAX_MAIL_BYTES if source.max_bytes is None else source.max_bytes


class MboxReader:
    """Reader of a mailbox file, or of a folder of them."""

    kind = "mbox"
    source_kind = SourceKind.EMAIL

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        for file in walk_changed(source, known, is_mailbox_name):
            if not isinstance(file, File):
                yield file
                continue
            start = resume.offset if resume is not None and resume.path == file.key else 0
            try:
                yield from self._scan_file(file, known.get(file.key), start)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                yield FileSeen(file.key, file.stamp.unreadable(reason, now_only=True))

    def _scan_file(self, file: File, old: Stamp | None, start: int) -> Iterator[Event]:
        with open_file(file.path) as stream:
            beginning = stream.read(_LOOK_AHEAD)
            if not beginning.strip():
                yield FileSeen(file.key, file.stamp)
                return
            if not is_mailbox(beginning):
                if "." in file.key.rpartition("/")[2]:
                    stamp = replace(file.stamp, state="unreadable", reason="not a mailbox: no 'From ' line begins it")
                    yield FileSeen(file.key, stamp)
                return
            mark = grown_from(stream, old, file.stamp)
            grown = mark is not None and (start >= mark.end if start else _goes_on(stream, mark))
            if mark is not None and grown and not start:
                start = mark.entry
            elif 0 < start < file.stamp.size:
                stream.seek(start)
                if not is_mailbox(stream.read(_LOOK_AHEAD)):
                    start, grown = 0, False  # it was rewritten since
            seen: set[bytes] = set()
            last: Message | None = None
            for message in split_mailbox(stream, start):
                last = message
                digest = message.digest.digest()
                if digest not in seen and message.length:
                    seen.add(digest)
                    yield self._found(file, message, digest.hex())
            yield FileSeen(
                file.key, _signed(stream, file.stamp, last, start), whole=start == 0, grown=grown and start > 0
            )

    def _found(self, file: File, message: Message, digest: str) -> Found:
        head = read_head(message.head, digest)
        part = {**file.place, "hash": digest, "offset": message.offset, "length": message.length}
        return Found(head.key, self.source_kind, part, head.time_ms, head.subject, message.offset + message.length)

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        return read_mail_item(source, item_key, parts, unquote=True)


def _signed(stream: IO[bytes], stamp: Stamp, last: Message | None, start: int) -> Stamp:
    if last is not None:
        mark = Mark(last.offset + last.length, last.separator, last.digest.hexdigest())
    elif start:
        mark = Mark(start, start)  # the run before this one took the last mail
    else:
        return stamp
    return replace(stamp, tail_hash=sign(stream, mark))


def _goes_on(stream: IO[bytes], mark: Mark) -> bool:
    """Return whether the last mail of the look before is the same: then all that was added lies behind it.

    It may have got its empty line by now, if its Message-ID says that it is the same one. A mail that was being written
    then is another one now, and only a look at the whole file tells that the one before is gone.
    """
    stream.seek(mark.entry)
    if not is_mailbox(stream.read(_LOOK_AHEAD)):
        return False
    if mark.entry == mark.end:
        return True
    first = next(split_mailbox(stream, mark.entry), None)
    if first is None:
        return False
    if first.digest.hexdigest() == mark.note:
        return True
    held = mark.end - first.offset
    if not 0 < held < first.length <= held + _EMPTY_LINE or read_head(first.head, "").message_id is None:
        return False
    stream.seek(first.offset)
    data = stream.read(first.length)
    return not data[held:].strip() and blake2b(data[:held], digest_size=16).hexdigest() == mark.note


def read_mail_item(
    source: SourceIntent, item_key: str, parts: Sequence[Part], *, unquote: bool = False
) -> CanonicalItem:
    """Return a mail from its copies. Raises ``Unreadable`` or ``Moved``; a copy that is gone is passed over.

    So is one that cannot be opened now if an equal one can; another content must not be lost for a missing permission.
    ``unquote`` takes back what a mailbox does to lines that begin with "From ".
    """
    copies = []
    moved: Moved | None = None
    closed: list[tuple[str, Unreachable]] = []
    kept: list[Part] = []
    done: set[str] = set()
    for part in sorted(parts, key=lambda part: (part["hash"], part["path"], part["offset"])):
        if part["hash"] in done:
            continue
        if (reason := too_large(int(part["length"]), limit_of(source), SETTING)) is not None:
            raise Unreadable(reason)
        try:
            raw = checked(read_span(locate(source, part), part), part)
        except Moved as error:
            moved = error
            continue
        except Unreachable as error:
            closed.append((str(part["hash"]), error))
            continue
        done.add(str(part["hash"]))
        kept.append(part)
        mail = parse_mail(_QUOTED_FROM.sub(rb"\1", raw) if unquote else raw)
        place = {"path": part["path"], "offset": part["offset"], "length": part["length"]}
        if mail.head.message_id is not None:
            place["message_id"] = mail.head.message_id
        copies.append((mail, place))
    for digest, fault in closed:
        gone = isinstance(fault.__cause__, FileNotFoundError | NotADirectoryError)
        if digest not in done and not (gone and (copies or moved is not None)):
            raise fault
    if not copies:
        raise moved or Unreadable("no copy of it is left")
    return canonicalize_mail(copies, item_key=item_key, content_hash=hash_of_parts(kept))
