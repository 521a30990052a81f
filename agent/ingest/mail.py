"""Mail as it comes: its structure through the standard library's tolerant parser, its parts by ladders.

Only the library's raw form (``compat32``) is used: nothing here raises on content. Text is never lost past a preview:
every part with words is kept whole, each mail stores its own cleaned body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import compat32

from agent.ids import content_hash
from agent.ingest.canonical import BlockKind
from agent.ingest.charsets import clean, decode_text, normalise_line_ends
from agent.ingest.headers import (
    CHARSET,
    CONTROL,
    Headers,
    MailHead,
    charset_of,
    first_text,
    head_of,
    header_text,
    shorten,
    split_headers,
)
from agent.ingest.html_text import html_to_text
from agent.ingest.transfer import from_base64, transfer_decode

MAX_MAIL_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 12
_THIN_FROM = 256 * 1024
_ADDRESS = re.compile(r"[^\s<>(),;:\"]{1,64}@[^\s<>(),;:\"]{1,255}")
_CTE = "content-transfer-encoding"

Group = tuple[BlockKind, list[str]]


@dataclass(frozen=True, slots=True)
class Mail:
    """A whole mail: its head, its addresses as they are written, its cleaned body in groups of lines."""

    head: MailHead
    sender: str | None
    recipients: tuple[tuple[str, str], ...]  # ("To", …), ("Cc", …), and others who are named nowhere else
    groups: tuple[Group, ...]
    attachments: tuple[str, ...] = field(default=())


def parse_mail(raw: bytes) -> Mail:
    """Return a mail from its bytes. Never raises on content; memory is a few times the mail without attachments."""
    headers, body_at = split_headers(raw)
    body = _Body()
    _read_entity(headers, raw[body_at:], body, 0)
    sender = first_text(headers, "from") or first_text(headers, "sender")
    return Mail(
        head_of(headers, content_hash(raw)),
        shorten(sender).replace('"', "") if sender else None,
        tuple(_recipients(headers, sender or "")),
        tuple(body.groups),
        tuple(body.attachments),
    )


def _recipients(headers: Headers, said: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of addresses below the sender's; the less known of them only where they name somebody new."""
    for label in ("To", "Cc", "Bcc", "Sender", "Reply-To"):
        values = [header_text(value, charset_of(headers)) for value in headers.get(label.lower(), ())]
        shown = shorten(", ".join(values))
        known = label not in ("To", "Cc") and all(address in said for address in _ADDRESS.findall(shown))
        if shown and not known:
            yield label, shown
            said = f"{said}\n{shown}"


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
        encoding = (headers.get(_CTE) or [b""])[0].decode("ascii", "replace")
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
        raw = from_base64(str(text).encode("utf-8", "surrogateescape"))
        inner, at = split_headers(raw)
        _embed_head(inner, body)
        _read_entity(inner, raw[at:], body, depth + 1)
        return
    _embed_head(headers, body)
    _read_part(child, body, depth + 1)


def _embed_head(headers: Headers, body: _Body) -> None:
    lines = [
        f"{label}: {shorten(text)}"
        for label, name in (("From", "from"), ("To", "to"), ("Date", "date"), ("Subject", "subject"))
        if (text := first_text(headers, name))
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
            body.add_text(decode_text(transfer_decode(raw, encoding)))
        elif raw.strip():
            body.attachments.append(f"without a name ({content_type})")
        return
    charset = CHARSET.search(declared)
    text = decode_text(transfer_decode(raw, encoding), charset[1] if charset else None)
    text = normalise_line_ends(text)
    lowered = declared.lower()
    if "format=flowed" in lowered.replace('"', "").replace(" ", ""):
        text = unflow(text, delsp="delsp=yes" in lowered.replace('"', "").replace(" ", ""))
    if content_type == "text/html" or (
        content_type != "text/plain" and text[:200].lstrip().lower().startswith("<html")
    ):
        text = html_to_text(text)
    body.add_text(text)


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
        line = CONTROL.sub("", raw_line).rstrip()
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
