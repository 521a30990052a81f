"""Answers in words, for assistants that show a model the text alone: short heads, content in fences, then a cursor.

The same stands in the structured form. What comes from the memory can close no fence and begin no line of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.actions.assistants_answers import (
    Above,
    Below,
    Fetched,
    FoundPage,
    Kept,
    Level,
    MemoryStatus,
    Origin,
    SourceTop,
)
from agent.actions.note_text import fenced, one_line
from agent.errors import SapwoodError
from agent.gateway.mcp.guide import DATA


def in_words(answer: object) -> str:
    """Return an answer as text."""
    if isinstance(answer, FoundPage):
        return _page(answer)
    if isinstance(answer, Fetched):
        return _fetched(answer)
    if isinstance(answer, Level):
        return _level(answer)
    if isinstance(answer, MemoryStatus):
        return _status(answer)
    assert isinstance(answer, Kept)
    return _lines([f"kept in {answer.source_id} as {', '.join(answer.item_keys)}", *answer.notes])


def error_in_words(error: SapwoodError) -> str:
    """Return what went wrong and what to do next."""
    return _lines([f"error: {error}", error.hint])


def _lines(lines: Iterable[str | None]) -> str:
    return "\n".join(line for line in lines if line)


def _page(page: FoundPage) -> str:
    count = "nothing found" if not page.hits else "1 hit" if len(page.hits) == 1 else f"{len(page.hits)} hits"
    parts = [_lines([f"{count} (searched: {page.searched})", DATA if page.hits else None, *page.notes])]
    for number, hit in enumerate(page.hits, 1):
        head = [
            f"{number}. {_title(hit.title)}",
            f"   id {hit.id}, {hit.kind}{', cut' if hit.cut else ''}",
            _origin(hit.origin),
            _above(hit.parents),
        ]
        parts.append(_lines([*head, fenced(hit.text)]))
    return _end(parts, page.next_cursor)


def _fetched(node: Fetched) -> str:
    piece = "" if node.offset == 0 and node.next_cursor is None else f", from character {node.offset:,}"
    covers = f", covers {node.passages} passages" if node.passages is not None else ""
    head = [
        _title(node.title),
        f"   id {node.id}, {node.kind}, {node.characters:,} characters{piece}{covers}",
        f"   under: {one_line(node.heading)}" if node.heading else None,
        _origin(node.origin),
        _above(node.parents),
        f"   before it: {node.before}" if node.before else None,
        f"   after it: {node.after}" if node.after else None,
        "   made by a simpler model, or not finished" if node.rough else None,
        DATA,
        *node.notes,
    ]
    return _end([_lines([*head, fenced(node.text)])], node.next_cursor)


def _level(level: Level) -> str:
    if level.of is None:
        head = f"{level.total} sources" if level.total != 1 else "1 source"
    else:
        head = f"{level.total} below {_title(level.title)} ({level.of})"
    content = level.nodes or any(each.text for each in level.sources)
    parts = [_lines([head, _above(level.parents), DATA if content else None, *level.notes])]
    parts += [_source(each) for each in level.sources]
    parts += [_below(each) for each in level.nodes]
    return _end(parts, level.next_cursor)


def _source(source: SourceTop) -> str:
    top = f"its top is {source.node_id}" if source.node_id else f"{source.tops} nodes at its top: drill_down it"
    counts = f"{source.items} items, {source.passages} passages, {source.summaries} summaries"
    head = f"{one_line(source.name)}\n   id {source.source_id}, {source.kind}, {counts}; {top}"
    return _lines([head, fenced(source.text) if source.text else None])


def _below(node: Below) -> str:
    covers = f", covers {node.passages} passages" if node.passages is not None else ""
    about = f"   id {node.id}, {node.kind}{covers}{', cut' if node.cut else ''}"
    return _lines([_title(node.title), about, _origin(node.origin), fenced(node.text)])


def _status(status: MemoryStatus) -> str:
    waiting = f", {status.waiting} still to be read" if status.waiting else ""
    lines = [
        f"{status.state}: {one_line(status.reason)}" if status.reason else status.state,
        f"{status.items} items read{waiting}, {status.passages} passages, in {len(status.sources)} sources",
        *status.notes,
    ]
    for source in status.sources:
        synced = f", last looked at {source.last_sync}" if source.last_sync else ""
        more = f", {source.waiting} to read" if source.waiting else ""
        name = one_line(source.name)
        called = "" if name == source.source_id else f" ({name})"
        lines.append(f"- {source.source_id}{called}: {source.kind}, {source.items} items{more}{synced}")
    return _lines(lines)


def _title(title: str | None) -> str:
    return f'"{one_line(title)}"' if title else "(without a title)"


def _origin(origin: Origin) -> str:
    when = origin.time
    if origin.last_time and origin.last_time != origin.time:
        when = f"{origin.time} to {origin.last_time}"
    said = [
        f"in {origin.source_id}",
        one_line(origin.place) if origin.place else None,
        f"by {one_line(origin.author)}" if origin.author else None,
        f"dated {when}" if when else None,
    ]
    return "   " + ", ".join(part for part in said if part)


def _above(parents: tuple[Above, ...]) -> str | None:
    if not parents:
        return None
    return "   above it: " + "; ".join(f"{_title(each.title)} {each.id}" for each in parents)


def _end(parts: list[str], cursor: str | None) -> str:
    if cursor is not None:
        parts.append(f"There is more: the same call with cursor={cursor}")
    return "\n\n".join(parts)
