"""A folder of Markdown, text and pages: one document a file, its key the path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.ids import content_hash
from agent.ingest.canonicalize import canonicalize_document
from agent.ingest.charsets import decode_file
from agent.ingest.html_document import decode_html, is_html_name, read_page
from agent.ingest.markdown import Markup, date_in_name, markup_of
from agent.ingest.readers.protocol import Event, FileSeen, Found, Hidden, Part, Resume, Stamp, Unreachable, Unreadable
from agent.ingest.readers.walk import File, locate, read_bytes, too_large, walk_changed
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
SETTING = "limits.document_bytes"
_NO_TEXT = "not a text: it contains NUL bytes"
SUFFIXES = (
    ".md",
    ".markdown",
    ".mdown",
    ".mkd",
    ".mdx",
    ".txt",
    ".text",
    ".rst",
    ".rest",
    ".org",
    ".adoc",
    ".asciidoc",
    ".textile",
)
BARE_NAMES = frozenset({"README", "CHANGELOG", "CHANGES", "NEWS", "NOTES", "TODO", "INSTALL", "HACKING"})


def limit_of(source: SourceIntent) -> int:
    """Return how large a document of a source may be, in bytes."""
    return MAX_DOCUMENT_BYTES if source.max_bytes is None else source.max_bytes


def is_text_name(name: str) -> bool:
    """Return whether a file of this name is read as a document."""
    return name.lower().endswith(SUFFIXES) or is_html_name(name) or name in BARE_NAMES


class FolderReader:
    """Reader of a folder, or of a single text file."""

    kind = "folder"
    source_kind = SourceKind.DOCUMENT

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        del resume
        taken: set[str] = set()
        limit = limit_of(source)
        for file in walk_changed(source, known, is_text_name, lambda file: too_large(file.stamp.size, limit, SETTING)):
            if isinstance(file, Hidden):
                yield file
                continue
            key = file.path if isinstance(file, FileSeen) else file.key
            if key in taken:
                # Two spellings of one name (composed, decomposed): which is meant cannot be told by the key.
                yield FileSeen(f"{key} (2)", replace(file.stamp, state="unreadable", reason="its name is taken"))
                continue
            taken.add(key)
            if isinstance(file, FileSeen):
                yield file
            else:
                yield from self._look(file, known.get(file.key), limit)

    def _look(self, file: File, old: Stamp | None, limit: int) -> Iterator[Event]:
        try:
            data = self._text_bytes(file, limit)
        except Unreadable as error:
            yield FileSeen(file.key, file.stamp.unreadable(error.title, now_only=isinstance(error, Unreachable)))
            return
        file_hash = content_hash(data)
        if old is None or old.file_hash != file_hash:
            yield Found(
                file.key,
                self.source_kind,
                {**file.place, "hash": file_hash},
                date_in_name(file.key) or file.stamp.mtime_ns // 1_000_000,
                None,
            )
        yield FileSeen(file.key, replace(file.stamp, file_hash=file_hash))

    @staticmethod
    def _text_bytes(file: File, limit: int) -> bytes:
        data = read_bytes(file.path, limit)
        if b"\0" in data and decode_file(data) is None:
            raise Unreadable(_NO_TEXT)
        return data

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        import os

        part = parts[0]
        path = locate(source, part)
        data = read_bytes(path, limit_of(source))
        try:
            modified_ms: int | None = os.stat(path).st_mtime_ns // 1_000_000
        except OSError:
            modified_ms = None
        # A file that changed since the scan is read as it is now; the item's hash says so.
        if is_html_name(item_key):
            return _page(data, item_key, str(part["path"]), modified_ms)
        text = decode_file(data)
        if text is None:
            raise Unreadable(_NO_TEXT)
        return canonicalize_document(
            text,
            item_key=item_key,
            name=item_key,
            place={"path": str(part["path"])},
            content_hash=content_hash(data),
            markup=markup_of(item_key),
            modified_ms=modified_ms,
        )


def _page(data: bytes, item_key: str, path: str, modified_ms: int | None) -> CanonicalItem:
    html = decode_html(data)
    if html is None:
        raise Unreadable(_NO_TEXT)
    page = read_page(html)
    return canonicalize_document(
        page.text,
        item_key=item_key,
        name=item_key,
        place={"path": path},
        content_hash=content_hash(data),
        markup=Markup.MARKDOWN,
        modified_ms=modified_ms,
        title=page.title,
        author=page.author,
        time_ms=page.time_ms,
        spans=page.spans,
    )
