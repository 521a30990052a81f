"""Mail as it comes: headers read by hand, bodies through the standard library's tolerant parser.

The library's own header objects (policy ``default``) raise on what real mail contains and cost a millisecond each, so
its raw form (``compat32``) is used for the structure, and header words, transfer encodings and charsets are decoded
here by ladders that never raise on content. Text is never lost past a preview: every part with words is kept whole.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import compat32
from email.utils import mktime_tz, parsedate_tz

from agent.ids import content_hash
from agent.ingest.canonical import BlockKind
from agent.ingest.charsets import clean, decode_text, normalise_line_ends
from agent.ingest.html_text import html_to_text

MAX_MAIL_BYTES = 64 * 1024 * 1024
HEAD_LIMIT = 256 * 1024
EARLIEST_MS = 0  # before the epoch, or after 2100, a date is absurd and the mail is undated
LATEST_MS = 4_102_444_800_000
_MAX_DEPTH = 12
_MAX_ADDRESSES = 1_000  # characters shown of one header
_THIN_FROM = 256 * 1024

Headers = dict[str, list[bytes]]
Group = tuple[BlockKind, list[str]]

_HEADER_LINE = re.compile(rb"([!-9;-~]+)[ \t]*:[ \t]*(.*)")
_WORD = re.compile(r"=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=(?:\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?))?")
_ID = re.compile(r"<([^<>\s]+)>")
_SPACE = re.compile(r"\s+")
_PARAMETER = re.compile(r"charset\*?\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
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


@dataclass(frozen=True, slots=True)
class Mail:
    """A whole mail: its head, its addresses as they are written, its cleaned body in groups of lines."""

    head: MailHead
    sender: str | None
    recipients: tuple[tuple[str, str], ...]  # ("To", …), ("Cc", …)
    groups: tuple[Group, ...]
    attachments: tuple[str, ...] = field(default=())


def read_head(raw: bytes, raw_hash: str) -> MailHead:
    """Return the head of a mail from its beginning (``HEAD_LIMIT`` bytes suffice). Never raises on content."""
    headers, _ = split_headers(raw)
    return _head(headers, raw_hash)


def parse_mail(raw: bytes) -> Mail:
    """Return a mail from its bytes. Never raises on content; memory is a few times the mail without attachments."""
    headers, body_at = split_headers(raw)
    body = _Body()
    _read_entity(headers, raw[body_at:], body, 0)
    recipients = tuple(
        (label, shown)
        for label, name in (("To", "to"), ("Cc", "cc"))
        if (shown := _shorten(", ".join(header_text(value, _charset(headers)) for value in headers.get(name, ()))))
    )
    sender = _first_text(headers, "from") or _first_text(headers, "sender")
    return Mail(
        _head(headers, content_hash(raw)),
        _shorten(sender).replace('"', "") if sender else None,
        recipients,
        tuple(body.groups),
        tuple(body.attachments),
    )


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


def _head(headers: Headers, raw_hash: str) -> MailHead:
    identities = _ids(headers, "message-id")
    message_id = identities[0] if identities else None
    key = message_id if message_id is not None and len(message_id) <= 400 else raw_hash
    thread = next(iter([*_ids(headers, "references"), *_ids(headers, "in-reply-to")]), key)
    subject = _first_text(headers, "subject")
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


def _charset(headers: Headers) -> str | None:
    for value in headers.get("content-type", ()):
        match = _PARAMETER.search(value.decode("ascii", "replace"))
        if match is not None:
            return match[1]
    return None


def _first_text(headers: Headers, name: str) -> str | None:
    for value in headers.get(name, ()):
        text = header_text(value, _charset(headers))
        if text:
            return text
    return None


def _shorten(text: str) -> str:
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
    return _SPACE.sub(" ", _CONTROL.sub(" ", text)).strip()


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
        return _from_base64(data)
    try:
        return binascii.a2b_qp(data, header=True)
    except (binascii.Error, ValueError):
        return data


def _from_base64(data: bytes) -> bytes:
    packed = _NOT_BASE64.sub(b"", data)
    packed = packed[: len(packed) - 1] if len(packed) % 4 == 1 else packed
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4))
    except (binascii.Error, ValueError):
        return data


class _Body:
    """What has been read of a mail's parts so far."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.attachments: list[str] = []

    def add_text(self, text: str) -> None:
        self.groups.extend(group_lines(text))

    def words(self) -> int:
        return sum(len(line) for _, lines in self.groups for line in lines)

    def take(self, other: _Body) -> None:
        self.groups.extend(other.groups)
        self.attachments.extend(other.attachments)


def _read_entity(headers: Headers, raw: bytes, body: _Body, depth: int) -> None:
    """Read a message's body, given its headers. Structure goes through the library, single parts do not need it."""
    kinds = headers.get("content-type", [b""])
    kind = next((value for value in kinds if value.lower().startswith(b"multipart/")), kinds[0])
    if not kind.lower().lstrip().startswith((b"multipart/", b"message/")):
        content_type = kind.partition(b";")[0].strip().lower().decode("ascii", "replace") or "text/plain"
        encoding = (headers.get("content-transfer-encoding") or [b""])[0].decode("ascii", "replace")
        name = _name_of(b"; ".join([kind, *headers.get("content-disposition", ())]))
        _read_leaf(content_type, decode_text(kind), encoding, raw, name, _is_attachment(headers), body)
        return
    if len(raw) > _THIN_FROM:
        raw = _without_attachments(raw)
    encoding_line = b"".join(b"Content-Transfer-Encoding: " + v + b"\n" for v in headers.get(_CTE, ())[:1])
    try:
        message = message_from_bytes(b"Content-Type: " + kind + b"\n" + encoding_line + b"\n" + raw, policy=compat32)
        _read_part(message, body, depth)
    except RecursionError:
        body.add_text(decode_text(raw))


_CTE = "content-transfer-encoding"


def _is_attachment(headers: Headers) -> bool:
    return any(value.lower().startswith(b"attachment") for value in headers.get("content-disposition", ()))


def _without_attachments(raw: bytes) -> bytes:
    """Return a multipart body without the base64 of parts that hold no text: it would only be thrown away later."""
    out: list[bytes] = []
    at = 0
    while True:
        boundary = raw.find(b"\n--", at)
        if boundary < 0:
            break
        unix = raw.find(b"\n\n", boundary, boundary + 16_384)
        dos = raw.find(b"\r\n\r\n", boundary, boundary + 16_384)
        ends = [end for end in (unix + 2 if unix >= 0 else -1, dos + 4 if dos >= 0 else -1) if end > 0]
        if not ends:
            out.append(raw[at : boundary + 3])
            at = boundary + 3
            continue
        begin = min(ends)
        head = raw[boundary:begin].lower()
        following = begin
        if b"base64" in head and not any(kind in head for kind in (b"text/", b"message/", b"multipart/")):
            following = raw.find(b"\n--", begin - 1)
            if following < 0:
                following = len(raw)
        out.append(raw[at:begin])
        at = following
    out.append(raw[at:])
    return b"".join(out)


def _part_headers(part: Message) -> Headers:
    headers: Headers = {}
    for name, value in part.raw_items():
        text = value if isinstance(value, str) else str(value)
        raw = text.encode("utf-8", "surrogateescape").replace(b"\r\n", b"\n")
        headers.setdefault(name.lower(), []).append(b" ".join(raw.split()))
    return headers


def _read_part(part: Message, body: _Body, depth: int) -> None:
    headers = _part_headers(part)
    declared = decode_text((headers.get("content-type") or [b""])[0])
    content_type = part.get_content_type()
    payload = part.get_payload()
    children = [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []
    if depth > _MAX_DEPTH:
        _read_rest(part, body)
    elif content_type == "multipart/alternative" and children:
        _read_alternatives(children, body, depth)
    elif content_type == "message/delivery-status" and children:
        for child in children:
            body.add_text("\n".join(f"{name}: {header_text(value)}" for name, value in _flat(_part_headers(child))))
    elif content_type.startswith("message/") and children:
        for child in children:
            _read_embedded(child, headers, body, depth)
    elif children:
        for child in children:
            _read_part(child, body, depth + 1)
    else:
        raw = payload.encode("ascii", "surrogateescape") if isinstance(payload, str) and payload.isascii() else None
        if raw is None:
            raw = str(payload or "").encode("utf-8", "surrogateescape")
        encoding = (headers.get(_CTE) or [b""])[0].decode("ascii", "replace")
        name = _file_name(part, headers)
        _read_leaf(content_type, declared, encoding, raw, name, _is_attachment(headers), body)


def _read_rest(part: Message, body: _Body) -> None:
    """Keep the text of a bomb of nested parts as it stands, without following it down by recursion."""
    pending = [part]
    while pending:
        payload = pending.pop().get_payload()
        if isinstance(payload, list):
            pending.extend(child for child in reversed(payload) if isinstance(child, Message))
        elif isinstance(payload, str) and payload.strip():
            body.add_text(decode_text(payload.encode("utf-8", "surrogateescape")))


def _flat(headers: Headers) -> Iterable[tuple[str, bytes]]:
    for name, values in headers.items():
        for value in values:
            yield name.title(), value


def _read_alternatives(children: list[Message], body: _Body, depth: int) -> None:
    """Keep the plain form, unless it only says that there is another."""
    plain, rich = _Body(), _Body()
    for child in children:
        _read_part(child, plain if child.get_content_type() == "text/plain" else rich, depth + 1)
    poor = plain.words() < 80 and rich.words() > 4 * plain.words()
    kept, other = (rich, plain) if poor or not plain.words() else (plain, rich)
    body.take(kept)
    body.attachments.extend(other.attachments)


def _read_embedded(child: Message, outer: Headers, body: _Body, depth: int) -> None:
    headers = _part_headers(child)
    if not headers and (outer.get(_CTE) or [b""])[0].lower().startswith(b"base64"):
        text = child.get_payload()
        raw = _from_base64(str(text).encode("utf-8", "surrogateescape"))
        inner, at = split_headers(raw)
        _embed_head(inner, body)
        _read_entity(inner, raw[at:], body, depth + 1)
        return
    _embed_head(headers, body)
    _read_part(child, body, depth + 1)


def _embed_head(headers: Headers, body: _Body) -> None:
    lines = [
        f"{label}: {_shorten(text)}"
        for label, name in (("From", "from"), ("To", "to"), ("Date", "date"), ("Subject", "subject"))
        if (text := _first_text(headers, name))
    ]
    if lines:
        body.groups.append((BlockKind.PARAGRAPH, ["Forwarded message", *lines]))


def _read_leaf(
    content_type: str, declared: str, encoding: str, raw: bytes, name: str | None, attached: bool, body: _Body
) -> None:
    is_text = content_type.startswith("text/") or "/" not in content_type or content_type == "message/delivery-status"
    if name is not None or (attached and not is_text):
        body.attachments.append(f"{name or 'without a name'} ({content_type})")
        if content_type not in ("text/plain", "text/markdown", "text/x-markdown"):
            return
    elif not is_text:
        if content_type.startswith("message/"):
            body.add_text(decode_text(_transfer_decode(raw, encoding)))
        elif raw.strip():
            body.attachments.append(f"without a name ({content_type})")
        return
    charset = _PARAMETER.search(declared)
    text = decode_text(_transfer_decode(raw, encoding), charset[1] if charset else None)
    text = normalise_line_ends(text)
    lowered = declared.lower()
    if "format=flowed" in lowered.replace('"', "").replace(" ", ""):
        text = unflow(text, delsp="delsp=yes" in lowered.replace('"', "").replace(" ", ""))
    if content_type == "text/html" or (
        content_type != "text/plain" and text[:200].lstrip().lower().startswith("<html")
    ):
        text = html_to_text(text)
    body.add_text(text)


def _transfer_decode(raw: bytes, encoding: str) -> bytes:
    word = encoding.strip().strip("\"'; ").partition(";")[0].strip().lower().replace("-", "").replace(" ", "")
    if word == "base64":
        return _from_base64(raw)
    if word in ("quotedprintable", "qp"):
        try:
            return quopri.decodestring(raw)
        except (ValueError, binascii.Error):
            return raw
    if word in ("xuuencode", "uuencode", "xuue", "uue"):
        return _from_uu(raw)
    return raw


def _from_uu(raw: bytes) -> bytes:
    out = bytearray()
    inside = False
    for line in raw.splitlines():
        if line.startswith(b"begin "):
            inside = True
            continue
        if line.strip() in (b"end", b"`") or not inside:
            continue
        try:
            out += binascii.a2b_uu(line)
        except binascii.Error:
            # A known fault of old encoders: a line longer than it says. Python's own decoder works around it alike.
            length = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                out += binascii.a2b_uu(line[:length])
            except binascii.Error:
                continue
    return bytes(out) if out else raw


def _file_name(part: Message, headers: Headers) -> str | None:
    values = [*headers.get("content-disposition", ()), *headers.get("content-type", ())]
    if not all(value.isascii() for value in values):
        return _name_of(b"; ".join(values))
    try:
        found = part.get_filename()
    except (ValueError, LookupError, TypeError, AttributeError, IndexError):
        found = None
    if found:
        return header_text(found.encode("utf-8", "surrogateescape")) or None
    return _name_of(b"; ".join(values))


def _name_of(parameters: bytes) -> str | None:
    match = re.search(rb"(?i)\b(?:file)?name\s*=\s*(?:\"([^\"]*)\"|([^;]+))", parameters)
    if match is None:
        return None
    return header_text(match[1] if match[1] is not None else match[2]) or None


def unflow(text: str, *, delsp: bool = False) -> str:
    """Return ``format=flowed`` text with its soft line breaks joined (RFC 3676), quote marks kept."""
    out: list[str] = []
    open_depth = -1  # quote depth of a line that asks for the next one
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        soft = content.endswith(" ") and content != "-- "
        if open_depth == depth and content != "-- ":
            out[-1] += content
        else:
            out.append(">" * depth + (" " if depth else "") + content)
        open_depth = depth if soft else -1
        if soft and delsp:
            out[-1] = out[-1][:-1]
    return "\n".join(out)


def group_lines(text: str) -> list[Group]:
    """Return a body's lines in groups: paragraphs, quotations with their attribution, the signature."""
    groups: list[Group] = []
    kind = BlockKind.PARAGRAPH
    open_group = False
    signed = False
    for raw_line in clean(normalise_line_ends(text)).split("\n"):
        if raw_line in ("-- ", "--") and not signed:
            signed = True
            open_group = False
        line = _CONTROL.sub("", raw_line).rstrip()
        if not line:
            open_group = False
            continue
        kind = BlockKind.SIGNATURE if signed else BlockKind.QUOTE if line[0] == ">" else BlockKind.PARAGRAPH
        if signed and line[0] == ">":
            kind = BlockKind.QUOTE
        if open_group and groups[-1][0] is kind:
            groups[-1][1].append(line)
        else:
            groups.append((kind, [line]))
            open_group = True
    for at in range(1, len(groups)):
        before, lines = groups[at - 1]
        introduced = groups[at][0] is BlockKind.QUOTE and before is BlockKind.PARAGRAPH and len(lines) <= 3
        if introduced and lines[-1].endswith(":") and ("@" in "".join(lines) or lines[-1].endswith("wrote:")):
            # "On Monday, Ada wrote:" belongs to what it introduces.
            groups[at - 1] = (BlockKind.QUOTE, lines)
    return groups
