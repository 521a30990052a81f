"""Naming what is read, listing it, looking at it again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.errors import UsageFault
from agent.ids import slug
from agent.ledger import append_answer, read_ledger
from agent.queue.types import NewJob
from agent.states import Answer, ItemState

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.ingest.survey import Survey

AUTO = "auto"


@dataclass(frozen=True)
class Unreadable:
    """One item or file of a source that could not be read, and why."""

    item: str
    reason: str


@dataclass(frozen=True)
class Added:
    """A new source: its id, its kind, how many items a first look counted, and what that look could not read.

    ``overlaps`` are the ids of sources that lie inside it or around it: what is in both is read for each.
    """

    source_id: str
    kind: str
    name: str
    paths: tuple[str, ...]
    items: int
    unreadable: tuple[Unreadable, ...]
    overlaps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """What the owner is asked about a source: ``gone`` of the ``held`` items are no longer there; a few by name."""

    question_id: str
    gone: int
    held: int
    examples: tuple[str, ...]
    asked_ms: int


@dataclass(frozen=True)
class SourceRow:
    """One source of the intent with what the memory knows of it. ``last_sync_ms`` is ``None`` before the first look.

    ``masked`` is how many secrets were masked in what is held of it.
    """

    id: str
    kind: str
    name: str
    paths: tuple[str, ...]
    private: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    items: int
    chunks: int
    masked: int
    waiting: int
    unreadable: tuple[Unreadable, ...]
    last_sync_ms: int | None
    question: Question | None
    error: str | None


@dataclass(frozen=True)
class SourceList:
    """All sources, in the order they were named."""

    sources: tuple[SourceRow, ...]


@dataclass(frozen=True)
class Synced:
    """The sources that will be looked at, and what the owner answered about the one that there was a question about.

    ``gone`` of its ``held`` items are what the answer is about: it may be another loss than the one last looked at.
    """

    queued: tuple[str, ...]
    answer: Answer | None = None
    gone: int | None = None
    held: int | None = None


def add(
    home: Home,
    paths: Sequence[str],
    *,
    kind: str = AUTO,
    name: str | None = None,
    private: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    hidden: bool = False,
    counted: Callable[[int], None] = lambda count: None,
) -> Added:
    """Name a source, several paths of one kind being one source, and queue the first look at it.

    Counts what is there, which blocks for as long as listing a folder or reading a mailbox takes; ``counted`` is called
    with how many items were found so far. Raises ``UsageFault`` for a path that is missing or named already and for a
    kind that this version does not read.
    """
    from agent.ingest.survey import detect, survey

    found = [_absolute(path) for path in paths]
    _refuse_twice(home, found)
    kinds = {detect(path) for path in found} if kind == AUTO else {kind}
    if len(kinds) > 1:
        raise UsageFault(
            "these paths are of different kinds",
            ", ".join(sorted(kinds)),
            "name them one by one, or say which with --kind",
        )
    kind = kinds.pop()
    looks: list[Survey] = []
    items = 0
    for path in found:
        looks.append(
            survey(
                path,
                kind,
                include=tuple(include),
                exclude=tuple(exclude),
                hidden=hidden,
                intent=home.intent,
                counted=partial(_tell, counted, items),
            )
        )
        items += looks[-1].items
    unreadable = tuple(Unreadable(each.path, each.reason) for look in looks for each in look.unreadable)
    title = name or (found[0].stem if found[0].is_file() else found[0].name) or str(found[0])
    source = SourceIntent(
        id=_free_id(home, title, given=name is not None),
        kind=kind,
        name=title,
        paths=tuple(str(path) for path in found),
        private=private,
        exclude=tuple(exclude),
        include=tuple(include),
        hidden=hidden,
    )
    add_source(home.paths, source)
    home.enqueue(NewJob.sync_source(source.id))
    return Added(source.id, kind, title, source.paths, items, unreadable, _overlaps(home, found))


def _tell(counted: Callable[[int], None], before: int, count: int) -> None:
    counted(before + count)


def _overlaps(home: Home, paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the ids of sources with a path inside one of these or around one."""

    def meets(held: Path) -> bool:
        return any(held.is_relative_to(path) or path.is_relative_to(held) for path in paths)

    return tuple(source.id for source in home.intent.sources if any(meets(Path(held)) for held in source.paths))


def _absolute(path: str) -> Path:
    if not path.strip():
        # It would be the folder that the command happens to run in.
        raise UsageFault("a path is empty", "", "name a file or a folder; `.` is the folder you are in")
    found = Path(os.path.abspath(Path(path).expanduser()))
    try:
        is_there = found.exists()
    except OSError:  # a name that no file can have
        is_there = False
    if not is_there:
        raise UsageFault("there is nothing at this path", str(found), "check its spelling, or plug the disk in")
    return found


def _refuse_twice(home: Home, paths: Sequence[Path]) -> None:
    for path in paths:
        for source in home.intent.sources:
            if any(Path(held) == path for held in source.paths):
                raise UsageFault(
                    "this is a source already",
                    f"{path} is {source.id}",
                    f"look at it again: `sapwood sync {source.id}`",
                )
    if len(set(paths)) < len(paths):
        raise UsageFault("one path is named twice", ", ".join(map(str, paths)), "name each once")


def _free_id(home: Home, title: str, *, given: bool) -> str:
    wanted = slug(title)
    taken = {source.id for source in home.intent.sources}
    if wanted not in taken:
        return wanted
    if given:
        raise UsageFault("a source with this id exists", wanted, "give it another name with --name")
    number = 2
    while f"{wanted}-{number}" in taken:
        number += 1
    return f"{wanted}-{number}"


def sources(home: Home) -> SourceList:
    """Return the sources with their counts, and what of them could not be read and why."""
    with home.connection.snapshot():
        asked = _questions(home)
        return SourceList(tuple(_row(home, source, asked.get(source.id)) for source in home.intent.sources))


def _questions(home: Home, *, kept: bool = False) -> dict[str, Question]:
    """Return the questions that no answer was given to, by source; with ``kept`` also those that were refused."""
    from agent.ingest.holdback import open_questions

    found = open_questions(home.connection)
    answered = {
        question_id
        for question_id, answer in (read_ledger(home.paths).answers if found else {}).items()
        if not kept or answer is not Answer.REFUSE
    }
    return {
        source_id: Question(each.question_id, each.gone, each.held, each.examples, each.asked_ms)
        for source_id, each in found.items()
        if each.question_id not in answered
    }


def _row(home: Home, source: SourceIntent, question: Question | None) -> SourceRow:
    from agent.ingest.unread import list_parked, list_unreadable, parked_look

    connection = home.connection
    counted = connection.all(
        "SELECT state, count(*), sum(masked) FROM mem_tree_items WHERE source_id = ? GROUP BY state", (source.id,)
    )
    states = {str(state): int(count) for state, count, _ in counted}
    chunks = connection.value(
        """
        SELECT count(*)
          FROM mem_tree_items AS i
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE i.source_id = ?
        """,
        (source.id,),
    )
    looked = connection.one(
        "SELECT last_sync_ms, last_error FROM mem_tree_sources WHERE source_id = ?", (source.id,)
    ) or (None, None)
    parked = len(list_parked(connection, source.id))
    return SourceRow(
        id=source.id,
        kind=source.kind,
        name=source.name,
        paths=source.paths,
        private=source.private,
        include=source.include,
        exclude=source.exclude,
        items=sum(count for state, count in states.items() if state != ItemState.GONE),
        chunks=int(chunks),
        masked=sum(masked for _, _, masked in counted),
        waiting=states.get(ItemState.FOUND, 0) + states.get(ItemState.QUEUED, 0) - parked,
        unreadable=tuple(Unreadable(each.path, each.reason) for each in list_unreadable(connection, source.id)),
        last_sync_ms=looked[0],
        question=question,
        error=parked_look(connection, source.id) or looked[1],
    )


def sync(home: Home, source: str | None = None, *, answer: Answer | None = None) -> Synced:
    """Queue a look at one source, or at each; one that waits already is not queued twice.

    ``answer`` is the owner's to the open question of that source, or of the only one that has one; it is on the disk
    when this returns, and what follows from it is the look's to do. Raises ``UsageFault``, also where there is no
    question to answer or more than one; ``OSError`` where the answer cannot be written down.
    """
    question: Question | None = None
    if answer is not None:
        source, question = _asked(home, None if source is None else home.source(source).id)
        refused = question.question_id in read_ledger(home.paths).answers
        append_answer(home.paths, home.clock.now_ms(), question.question_id, answer, source)
        if refused and answer is Answer.ACCEPT:
            _look_closely(home, source)
    wanted = home.intent.sources if source is None else (home.source(source),)
    for each in wanted:
        home.enqueue(NewJob.sync_source(each.id))
    queued = tuple(each.id for each in wanted)
    return Synced(queued) if question is None else Synced(queued, answer, question.gone, question.held)


def _look_closely(home: Home, source_id: str) -> None:
    """Let the next look find a loss again that was kept: a mailbox that did not change since is not read otherwise."""
    from agent.ingest.stamps import read_anew_tx

    with home.connection.write() as connection:
        read_anew_tx(connection, source_id)


def _asked(home: Home, source_id: str | None) -> tuple[str, Question]:
    """Return the source whose question is meant, with it. Raises ``UsageFault`` where that is none or many."""
    held = {source.id for source in home.intent.sources}
    # Who said that what is gone is to be kept may think again, naming the source.
    asked = _questions(home, kept=source_id is not None)
    found = {each: question for each, question in asked.items() if each in held and source_id in (None, each)}
    if len(found) > 1:
        raise UsageFault(
            "more than one source has a question",
            ", ".join(sorted(found)),
            "name the one that you answer for, as in `sapwood sync SOURCE --accept`",
        )
    if not found:
        where = f"about {source_id}" if source_id is not None else "about any source"
        raise UsageFault(f"there is no question {where}", "", "`sapwood sources` shows what is asked")
    return next(iter(found.items()))
