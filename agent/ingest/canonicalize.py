"""Lane 1, first step: what a reader found becomes the canonical form, secrets masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent.ingest.canonical import DAY_MS, Block, BlockKind, CanonicalItem, Section
from agent.ingest.charsets import normalise_line_ends
from agent.ingest.mail import Mail
from agent.ingest.markdown import Markup, date_in_name, read_outline
from agent.masking.mask import Masking
from agent.states import SourceKind


def canonicalize_document(
    text: str,
    *,
    item_key: str,
    name: str,
    place: dict[str, Any],
    content_hash: str,
    markup: Markup,
    modified_ms: int | None,
    title: str | None = None,
    author: str | None = None,
    time_ms: int | None = None,
    reference: str | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
) -> CanonicalItem:
    """Return a document: its own lines, line ends normalised, in blocks.

    A chunk of it carries a time only where the document or its name gives one, for that belongs to the content; the
    item's time falls back on when the file was changed. ``spans``: of a converted text, the lines of the file that each
    of its lines comes from.
    """
    masking = Masking()
    lines = masking.of(normalise_line_ends(text)).split("\n")
    outline = read_outline(lines, markup)
    for at in outline.blank:
        lines[at] = ""
    found_title = masking.of(title or outline.title or _stem(name))
    dated = time_ms if time_ms is not None else outline.time_ms
    if dated is None:
        dated = date_in_name(name)
    section = Section(
        lines=lines,
        blocks=outline.blocks,
        places=[place],
        title=found_title,
        time_ms=dated,
        author=masking.of_optional(author or outline.author),
        reference=reference,
        spans=spans,
    )
    return CanonicalItem(
        SourceKind.DOCUMENT,
        item_key,
        found_title,
        modified_ms if dated is None else dated,
        content_hash,
        (section,) if outline.blocks else (),
        masking.count,
    )


def _stem(name: str) -> str:
    base = name.rpartition("/")[2]
    stem = base.rpartition(".")[0] or base
    return stem.removesuffix(".rst")


def canonicalize_mail(
    copies: Sequence[tuple[Mail, dict[str, Any]]], *, item_key: str, content_hash: str
) -> CanonicalItem:
    """Return a mail from all its different copies, each with the beginning of its locator, in a fixed order.

    Two messages may carry one Message-ID: a list's copy of what was sent, or senders that reuse it. The first is kept
    whole, of the others what it does not say already; so nothing is lost and nothing is there twice.
    """
    sections: list[Section] = []
    said: set[str] = set()
    masking = Masking()
    for mail, place in copies:
        section = _mail_section(mail, place, said, masking)
        if section is not None:
            sections.append(section)
    first = copies[0][0].head
    times = [mail.head.time_ms for mail, _ in copies if mail.head.time_ms is not None]
    return CanonicalItem(
        SourceKind.EMAIL,
        item_key,
        masking.of_optional(first.subject),
        min(times, default=None),
        content_hash,
        tuple(sections),
        masking.count,
    )


def _mail_section(mail: Mail, place: dict[str, Any], said: set[str], masking: Masking) -> Section | None:
    groups: list[tuple[BlockKind, list[str]]] = []
    copy = bool(said)
    for kind, group in mail.groups:
        body = "\n".join(group)
        if copy and body in said:
            continue
        said.add(body)
        groups.append((kind, group))
    for attachment in mail.attachments:
        named = f"Attachment: {attachment}"
        if named not in said:
            groups.append((BlockKind.ATTACHMENT, [named]))
            said.add(named)
    addresses = [f"From: {mail.sender}"] if mail.sender else []
    addresses.extend(f"{label}: {shown}" for label, shown in mail.recipients)
    if copy and not groups:
        # The same words to somebody else: whom they went to is all that is new.
        addresses = [line for line in addresses if line not in said]
    if addresses:
        groups.insert(0, (BlockKind.ADDRESSES, addresses))
        said.update(addresses)
    text = masking.of("\n\n".join("\n".join(group) for _, group in groups))
    blocks: list[Block] = []
    line = 1
    for kind, group in groups:
        blocks.append(Block(kind, line, line + len(group) - 1))
        line += len(group) + 1
    if not blocks:
        return None
    head = mail.head
    return Section(
        lines=text.split("\n"),
        blocks=blocks,
        places=[place],
        title=masking.of_optional(head.subject),
        time_ms=head.time_ms,
        author=masking.of_optional(mail.sender),
        reference=head.message_id,
        scope=head.thread,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a chat, or an event in it. ``line`` is where it stands in its file (1-based)."""

    text: str  # the whole line as it stands in its file
    time_ms: int | None
    author: str | None
    line: int
    reference: str | None = None
    event: bool = False
    said: str | None = None  # the words alone: the same in every form that a log may have


def canonicalize_chat(
    parts: Sequence[tuple[Sequence[Turn], dict[str, Any]]],
    *,
    item_key: str,
    conversation: str,
    day_ms: int | None,
    content_hash: str,
) -> CanonicalItem:
    """Return one UTC day of one conversation, merged over all files that hold turns of it, each turn once.

    ``parts`` are one file's turns each, with the beginning of its locator, in a fixed order.
    """
    merged = merge_turns([turns for turns, _ in parts])
    masking = Masking()
    lines: list[str] = []
    blocks: list[Block] = []
    for place, turn in merged:
        rows = turn.text.split("\n")
        blocks.append(
            Block(
                BlockKind.EVENT if turn.event else BlockKind.TURN,
                len(lines) + 1,
                len(lines) + len(rows),
                time_ms=turn.time_ms,
                author=masking.of_optional(turn.author),
                reference=turn.reference,
                place=place,
                place_line=turn.line,
            )
        )
        lines.extend(rows)
    text = masking.of("\n".join(lines))
    title = masking.of(" ".join(part for part in (conversation, day_name(day_ms)) if part) or "chat")
    section = Section(
        lines=text.split("\n"),
        blocks=blocks,
        places=[place for _, place in parts],
        title=title,
        time_ms=day_ms,
        scope=conversation,
    )
    return CanonicalItem(
        SourceKind.CHAT, item_key, title, day_ms, content_hash, (section,) if blocks else (), masking.count
    )


def day_name(day_ms: int | None) -> str:
    """Return a UTC day as ``YYYY-MM-DD``, or an empty text for none."""
    from datetime import UTC, datetime

    return "" if day_ms is None else datetime.fromtimestamp(day_ms / 1000, UTC).date().isoformat()


def day_of(time_ms: int | None) -> int | None:
    """Return the beginning of the UTC day of an instant, in ms."""
    return None if time_ms is None else time_ms - time_ms % DAY_MS


def merge_turns(parts: Sequence[Iterable[Turn]]) -> list[tuple[int, Turn]]:
    """Return the turns of all parts in the order of time, with the number of the part each comes from.

    A turn that several parts hold is there once; one that a single part holds twice was said twice.
    """
    kept: list[tuple[int, Turn]] = []
    counts: Counter[object] = Counter()
    for place, turns in enumerate(parts):
        here: Counter[object] = Counter()
        for turn in turns:
            identity: object = turn.reference or (turn.time_ms, turn.author, turn.said or turn.text)
            here[identity] += 1
            if here[identity] > counts[identity]:
                kept.append((place, turn))
        counts |= here
    if len(parts) < 2:
        return kept
    last = [0] * len(parts)
    keyed: list[tuple[int, int, int]] = []
    for index, (place, turn) in enumerate(kept):
        # A line without a time (a change of name) stays behind the one before it in its file.
        last[place] = turn.time_ms if turn.time_ms is not None else last[place]
        keyed.append((last[place], place, index))
    return [kept[index] for _, _, index in sorted(keyed)]
