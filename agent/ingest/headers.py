"""The head of a mail: its fields by hand, tolerant of whatever stands there.

The library's own header objects (policy ``default``) raise on what real mail contains and cost a millisecond each, so
fields are split, unfolded and decoded here; encoded words and bare 8-bit go down the ladder of charsets.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz

from agent.ingest.charsets import decode_text
from agent.ingest.transfer import from_base64

HEAD_LIMIT = 256 * 1024
EARLIEST_MS = 0  # before the epoch, or after 2100, a date is absurd and the mail is undated
LATEST_MS = 4_102_444_800_000
_MAX_ADDRESSES = 1_000  # characters shown of one header
_MAX_KEY = 400

Headers = dict[str, list[bytes]]

_HEADER_LINE = re.compile(rb"([!-9;-~]+)[ \t]*:[ \t]*(.*)")
_WORD = re.compile(r"=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=(?:\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?))?")
_ID = re.compile(r"<([^<>\s]+)>")
_SPACE = re.compile(r"\s+")
CHARSET = re.compile(r"charset\*?\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KNOWN_HEADERS = frozenset(
    b"from to cc subject date message-id received return-path mime-version content-type delivered-to reply-to sender"
    b" in-reply-to references x-mailer user-agent list-id envelope-to dkim-signature".split()
)


@dataclass(frozen=True, slots=True)
class MailHead:
    """What identifies and orders a mail."""

    key: str
    message_id: str | None
    subject: str | None
    time_ms: int | None
    thread: str


def read_head(raw: bytes, raw_hash: str) -> MailHead:
    """Return the head of a mail from its beginning (``HEAD_LIMIT`` bytes suffice). Never raises on content."""
    headers, _ = split_headers(raw)
    return head_of(headers, raw_hash)


def looks_like_mail(beginning: bytes) -> bool:
    """Return whether a file's beginning is a mail's: its first lines are headers, two of them well known."""
    if beginning.startswith((b"From ", b">From ")):
        beginning = beginning.partition(b"\n")[2]
    headers, _ = split_headers(beginning)
    return len(_KNOWN_HEADERS.intersection(name.encode() for name in headers)) >= 2


def split_headers(raw: bytes) -> tuple[Headers, int]:
    """Return the header fields (names in lower case, values unfolded) and where the body begins.

    A stray line between two headers is passed over; one that no header follows ends them, and is the body's first.
    """
    headers: Headers = {}
    at, total = 0, len(raw)
    current: list[bytes] | None = None
    while at < total:
        end = raw.find(b"\n", at)
        following = total if end < 0 else end + 1
        line = raw[at:following].rstrip(b"\r\n")
        if not line:
            return headers, following
        if line[:1] in (b" ", b"\t") and current is not None:
            current[-1] = current[-1] + b" " + line.strip()
        else:
            match = _HEADER_LINE.match(line)
            if match is not None:
                current = headers.setdefault(match[1].decode("ascii", "replace").lower(), [])
                current.append(match[2].strip())
            elif not (line.startswith((b"From ", b">From ")) and not headers) and not _header_follows(raw, following):
                return headers, at
        at = following
    return headers, total


def _header_follows(raw: bytes, at: int) -> bool:
    match = _HEADER_LINE.match(raw[at : at + 200])
    return match is not None and match[1].lower() in _KNOWN_HEADERS


def head_of(headers: Headers, raw_hash: str) -> MailHead:
    """Return the head of a mail with these fields; ``raw_hash`` stands in for a missing Message-ID."""
    identities = _ids(headers, "message-id")
    message_id = identities[0] if identities else None
    key = message_id if message_id is not None and len(message_id) <= _MAX_KEY else raw_hash
    thread = next(iter([*_ids(headers, "references"), *_ids(headers, "in-reply-to")]), key)
    subject = first_text(headers, "subject")
    return MailHead(key, message_id, subject, mail_time(headers), thread)


def _ids(headers: Headers, name: str) -> list[str]:
    found: list[str] = []
    for value in headers.get(name, ()):
        text = header_text(value)
        ids = _ID.findall(text)
        if not ids and name == "message-id" and text:
            ids = [text.strip("<> ").replace(" ", "_")]
        found.extend(identity for identity in ids if identity)
    return found


def mail_time(headers: Headers) -> int | None:
    """Return when a mail says it was written, UTC ms; ``None`` where it does not say so or what it says is absurd."""
    for value in headers.get("date", ()):
        try:
            parsed = parsedate_tz(header_text(value))
            time_ms = None if parsed is None else int(mktime_tz(parsed)) * 1000
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
        if time_ms is not None and EARLIEST_MS <= time_ms < LATEST_MS:
            return time_ms
    return None


def charset_of(headers: Headers) -> str | None:
    """Return the charset that the body is declared in, as it is written."""
    for value in headers.get("content-type", ()):
        match = CHARSET.search(value.decode("ascii", "replace"))
        if match is not None:
            return match[1]
    return None


def first_text(headers: Headers, name: str) -> str | None:
    """Return the first value of a field that says anything, as text."""
    for value in headers.get(name, ()):
        text = header_text(value, charset_of(headers))
        if text:
            return text
    return None


def shorten(text: str) -> str:
    """Return a list of addresses, cut behind one of them where it is too long to be shown, saying how many follow."""
    if len(text) <= _MAX_ADDRESSES:
        return text
    kept = text[:_MAX_ADDRESSES].rpartition(",")[0] or text[:_MAX_ADDRESSES]
    return f"{kept}, and {text.count(',') - kept.count(',')} more"


def header_text(raw: bytes, charset: str | None = None) -> str:
    """Return a header's value as text: encoded words and raw 8-bit decoded, white space collapsed.

    ``charset`` is the body's: who writes bare 8-bit headers writes them in that.
    """
    text = raw.decode("ascii") if raw.isascii() else decode_text(raw, charset)
    if "=?" in text:
        text = _decode_words(text)
    return _SPACE.sub(" ", CONTROL.sub(" ", text)).strip()


def _decode_words(text: str) -> str:
    out: list[str] = []
    at = 0
    pending = b""
    charset = ""
    for match in _WORD.finditer(text):
        between = text[at : match.start()]
        name = match[1].partition("*")[0].lower()
        if pending and (between or name != charset):
            out.append(decode_text(pending, charset))
            pending = b""
        out.append(between)
        # Neighbours of one charset are joined before decoding: senders cut them in the middle of a character.
        charset = name
        pending += _word_bytes(match[2], match[3])
        at = match.end()
    if pending:
        out.append(decode_text(pending, charset))
    out.append(text[at:])
    return "".join(out)


def _word_bytes(encoding: str, body: str) -> bytes:
    data = body.encode("utf-8", "replace")
    if encoding in "bB":
        return from_base64(data)
    try:
        return binascii.a2b_qp(data, header=True)
    except (binascii.Error, ValueError):
        return data
