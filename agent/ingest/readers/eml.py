"""Mail in files of its own: one ``.eml``, or a tree of them, whatever they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.ids import content_hash
from agent.ingest.headers import looks_like_mail, read_head
from agent.ingest.readers.mbox import SETTING, limit_of, read_mail_item
from agent.ingest.readers.protocol import Event, FileSeen, Found, Hidden, Part, Resume, Stamp, Unreachable, Unreadable
from agent.ingest.readers.rules import NOT_OPENED
from agent.ingest.readers.walk import File, open_file, read_bytes, too_large, walk_changed
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

SUFFIXES = (".eml", ".emlx", ".mail")
_PEEK = 8 * 1024
# What surely is no mail need not be opened to see that.
_NEVER = (".jpg", ".jpeg", ".png", ".gif", ".pdf", ".zip", ".gz", ".mp3", ".mp4", ".mov", ".exe", ".dll", ".so", ".iso")


def is_mail_name(name: str) -> bool:
    """Return whether a file of this name is taken for a mail without looking into it."""
    return name.lower().endswith(SUFFIXES)


class EmlReader:
    """Reader of a mail file, or of a folder of mail files."""

    kind = "eml"
    source_kind = SourceKind.EMAIL

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        del resume
        limit = limit_of(source)

        def barred(file: File) -> str | None:
            reason = too_large(file.stamp.size, limit, SETTING)
            return reason if reason is not None and (is_mail_name(file.path) or _is_mail(file.path)) else None

        for file in walk_changed(source, known, lambda name: not name.lower().endswith(_NEVER), barred):
            if isinstance(file, File):
                yield from self._look(file, known.get(file.key), limit)
            elif isinstance(file, Hidden) or file.unchanged or _is_worth_saying(file):
                yield file

    def _look(self, file: File, old: Stamp | None, limit: int) -> Iterator[Event]:
        named = is_mail_name(file.path)
        try:
            if not named and not looks_like_mail(_peek(file.path)):
                return
            data = read_bytes(file.path, limit)
            if not data.strip():
                raise Unreadable("the file is empty")
        except Unreadable as error:
            yield FileSeen(file.key, file.stamp.unreadable(error.title, now_only=isinstance(error, Unreachable)))
            return
        file_hash = content_hash(data)
        if old is None or old.file_hash != file_hash:
            head = read_head(data, file_hash)
            part = {**file.place, "hash": file_hash, "offset": 0, "length": len(data)}
            yield Found(head.key, self.source_kind, part, head.time_ms, head.subject)
        yield FileSeen(file.key, replace(file.stamp, file_hash=file_hash))

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        return read_mail_item(source, item_key, parts)


def _is_worth_saying(seen: FileSeen) -> bool:
    """A pipe or a placeholder that does not even have the name of a mail is not listed among mails."""
    return is_mail_name(seen.path) or seen.stamp.reason not in NOT_OPENED


def _is_mail(path: str) -> bool:
    try:
        return looks_like_mail(_peek(path))
    except Unreadable:
        return False


def _peek(path: str) -> bytes:
    try:
        with open_file(path) as stream:
            return stream.read(_PEEK)
    except OSError as error:
        raise Unreachable((error.strerror or str(error)).lower()) from error
