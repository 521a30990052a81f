"""Entities and importance by a model, for the doubtful middle of the admission score alone.

Several chunks go into one call where the context allows, each between delimiters of its own and answered by an item of
its own, which is checked against that chunk alone and stored as that chunk's result. What does not fit into the call
waits for the next one. Whatever a text says, it can only bring about data of the shape that was asked for: names that
stand in it, and a number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.errors import JobFailure, Postponed
from agent.ids import content_hash
from agent.masking.mask import mask_secrets
from agent.models.answers import OTHER_KINDS, Item, Named, extract_schema, read_items
from agent.models.asking import (
    BAD_OUTPUT,
    CONTEXT_OVERFLOW,
    LEAST_ROOM,
    MOST_TRIES,
    WRONG_SHAPE,
    output_limit,
    room_for_content,
    too_small,
)
from agent.models.fencing import fenced
from agent.models.grounding import locate
from agent.models.prompting import load_prompts, prompt_tokens
from agent.models.protocol import Extraction
from agent.models.providers.protocol import ChatAsk
from agent.models.results import WorkUnit
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls
    from agent.models.providers.protocol import ChatAnswer
    from agent.profile_intent import ProfileIntent

TASK = "extract"
_MOST_TOGETHER = 12  # chunks in one call: more, and small models lose count
_MOST_AGAIN = 3  # of those that are asked about once more
_ITEM_TOKENS = 60  # of an answer, for each chunk, and a part of the chunk's own length for its names
_NAMES_SHARE = 3
_AROUND_TOKENS = 40  # number and delimiters of a chunk in the prompt


_NO_UNIT = WorkUnit("", "", "", "", "")


@dataclass(frozen=True)
class ToExtract:
    """One chunk to be asked about, with what the built-in rules found in it."""

    chunk_id: str
    source_id: str
    text: str
    first: Extraction
    title: str | None = None
    author: str | None = None


@dataclass(frozen=True)
class Extracted:
    """What became of a chunk. ``judged``: a model weighed it. ``degraded``: it was asked in vain, the rules stand in.

    ``waits``: it is to be asked about in another run. ``failure``: its call met a cause that is not its own.
    """

    extraction: Extraction
    judged: bool = False
    degraded: bool = False
    waits: str = ""
    failure: Exception | None = None


class ModelExtractor:
    """Extraction by a profile's chat model; ``calls`` is ``None`` where only the signature is wanted."""

    calls_model = True

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None) -> None:
        self._calls = calls
        self._prompts = load_prompts(TASK)
        self.signature = self._prompts.signature(profile.provider, profile.chat_model)

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        """Return what the built-in rules find: a model is asked by ``extract_many``, and only where they doubt."""
        from agent.models.builtin.entities import BuiltinExtractor

        return BuiltinExtractor().extract(text, title=title, author=author)

    def extract_many(self, chunks: Sequence[ToExtract]) -> list[Extracted]:
        """Return what became of each chunk, in order; makes at most one call, under the caller's one permit.

        A call that is put off or fails touches only the chunks that were in it. Raises ``LeaseLost`` and what is no
        ``JobFailure`` or ``Postponed``.
        """
        calls = self._calls
        if calls is None:
            raise JobFailure.unrecoverable("no_calls", title="this extractor was opened for its signature alone")
        open_: list[_Open] = []
        done: dict[str, Extracted] = {}
        for chunk in chunks:
            each = self._look(calls, chunk)
            if isinstance(each, Extracted):
                done[chunk.chunk_id] = each
            else:
                open_.append(each)
        if open_:
            done.update(self._ask_some(calls, open_))
        waits = "it waits for its turn with the model"
        return [done.get(chunk.chunk_id) or Extracted(chunk.first, waits=waits) for chunk in chunks]

    def _look(self, calls: ModelCalls, chunk: ToExtract) -> Extracted | _Open:
        """Return what is settled of a chunk without a call, or how it is to be asked about."""
        asked = _Open(chunk, mask_secrets(chunk.text), _head(chunk))
        unit = WorkUnit(TASK, self._prompts.hash, self.signature, content_hash(asked.content), chunk.chunk_id)
        held = calls.find(unit)
        if held is not None:
            return _read(held, chunk)
        tries = calls.tries(unit)
        if tries.count >= MOST_TRIES:
            return Extracted(chunk.first, degraded=True)
        return replace(asked, unit=unit, tries=tries.count, problem=tries.problem if tries.count else "")

    def _limits(self, calls: ModelCalls) -> tuple[int, int]:
        own = prompt_tokens(self._prompts.messages({"what": _what(99), "count": "99"}, "", "not_in_text"))
        room = room_for_content(calls, own)
        if room < LEAST_ROOM:
            raise too_small(calls)
        return room, output_limit(calls)

    def _ask_some(self, calls: ModelCalls, open_: Sequence[_Open]) -> dict[str, Extracted]:
        """Return what became of those that were asked about, one call's worth."""
        first = open_[0].chunk
        try:
            limits = self._limits(calls)
        except (JobFailure, Postponed) as failure:
            # The server was asked how much it takes, and met a cause of its own: told to one row, as a failed call is.
            return {first.chunk_id: Extracted(first.first, failure=failure)}
        together = _chosen(open_, *limits)
        if not together:
            # No model with this context can be asked about it: the rules have the last word.
            return {first.chunk_id: Extracted(first.first)}
        return self._ask(calls, together)

    def _ask(self, calls: ModelCalls, together: Sequence[_Open]) -> dict[str, Extracted]:
        try:
            answer = self._call(calls, together)
        except (JobFailure, Postponed) as failure:
            if isinstance(failure, JobFailure) and failure.code == CONTEXT_OVERFLOW:
                return self._too_long(calls, together)
            return {each.chunk.chunk_id: Extracted(each.chunk.first, failure=failure) for each in together}
        if answer is None:
            items: dict[int, Item] = {}
            problem = WRONG_SHAPE
        else:
            items, problem = read_items(answer, len(together))
        kept: list[tuple[WorkUnit, Sequence[str], str]] = []
        refused: list[tuple[WorkUnit, str]] = []
        done: dict[str, Extracted] = {}
        for number, each in enumerate(together, 1):
            item = items.get(number)
            found, broken = (None, problem or "missing") if item is None else _checked(item, each.chunk)
            if found is not None:
                kept.append((each.unit, (each.chunk.chunk_id,), _written(found, item)))
                done[each.chunk.chunk_id] = Extracted(found, judged=True)
                continue
            refused.append((each.unit, broken))
            done[each.chunk.chunk_id] = _in_vain(each)
        if kept and answer is not None:
            calls.keep(answer, kept)
        if refused:
            calls.refuse(answer, refused)
        return done

    def _call(self, calls: ModelCalls, together: Sequence[_Open]) -> ChatAnswer | None:
        secret = calls.secret()
        content = "\n\n".join(
            f"Text {number}:\n{fenced(secret, each.content)}" for number, each in enumerate(together, 1)
        )
        values = {"what": _what(len(together)), "count": str(len(together))}
        messages = self._prompts.messages(values, content, together[0].problem)
        ask = ChatAsk(messages, prompt_tokens(messages), output_limit(calls), extract_schema(), "items")
        try:
            return calls.chat(ask, sorted({each.chunk.source_id for each in together}))
        except JobFailure as failure:
            if failure.code == BAD_OUTPUT:
                return None
            raise

    def _too_long(self, calls: ModelCalls, together: Sequence[_Open]) -> dict[str, Extracted]:
        """Several at once were too long for the model: fewer are asked about the next time. One alone is in vain."""
        calls.refuse(None, [(each.unit, CONTEXT_OVERFLOW) for each in together])
        return {each.chunk.chunk_id: _in_vain(each) for each in together}


@dataclass(frozen=True)
class _Open:
    """A chunk that is to be asked about; ``tries`` answers were in vain, the last for breaking ``problem``."""

    chunk: ToExtract
    text: str
    head: str
    unit: WorkUnit = _NO_UNIT
    tries: int = 0
    problem: str = ""

    @property
    def content(self) -> str:
        """The chunk as it is sent."""
        return f"{self.head}\n{self.text}" if self.head else self.text

    @property
    def tokens(self) -> int:
        return count_tokens(self.content) + _AROUND_TOKENS

    @property
    def answer_tokens(self) -> int:
        return _ITEM_TOKENS + count_tokens(self.text) // _NAMES_SHARE


def _head(chunk: ToExtract) -> str:
    said = [f"Author: {chunk.author}" if chunk.author else "", f"Title: {chunk.title}" if chunk.title else ""]
    return mask_secrets(" ".join(" · ".join(part for part in said if part).split()))


def _what(count: int) -> str:
    return "Read this text, number 1." if count == 1 else f"Read these {count} texts, numbers 1 to {count}."


def _chosen(open_: Sequence[_Open], room: int, output: int) -> list[_Open]:
    """Return the chunks that go into one call: of the first one's source, as many as there is room for.

    One source's words never stand beside another's. Those that are asked about once more for the same broken rule go
    together, few at a time.
    """
    first = open_[0]
    most, share = (_MOST_TOGETHER, 1) if not first.tries else (_MOST_AGAIN, 2)
    if first.problem in (CONTEXT_OVERFLOW, "cut"):
        most = 1
    chosen: list[_Open] = []
    tokens = answer = 0
    for each in open_:
        alike = (each.tries, each.problem) == (first.tries, first.problem)
        if not alike or each.chunk.source_id != first.chunk.source_id or len(chosen) == most:
            continue
        tokens += each.tokens
        answer += each.answer_tokens
        # One that is alone may take all of the room, whatever its answer is guessed to take.
        if (tokens > room // share or answer > output) and chosen:
            break
        if tokens > room:
            return []
        chosen.append(each)
    return chosen


def _in_vain(each: _Open) -> Extracted:
    if each.tries + 1 >= MOST_TRIES:
        return Extracted(each.chunk.first, degraded=True)
    return Extracted(each.chunk.first, waits="the model is asked once more: its answer was of no use")


def _checked(item: Item, chunk: ToExtract) -> tuple[Extraction | None, str]:
    """Return what an item says of a chunk, or the rule that it breaks. Pure."""
    if item.problem:
        return None, item.problem
    safe = [each for each in chunk.first.entities if each.kind in OTHER_KINDS]
    located = locate(item.entities, chunk.text, safe)
    if located.problem:
        return None, located.problem
    both = tuple(sorted((*safe, *located.entities), key=lambda entity: entity.start))
    signals = chunk.first.signals | {"model": item.importance}
    return Extraction(both, round(item.importance, 4), signals), ""


def _written(found: Extraction, item: Item | None) -> str:
    """Return a checked item as it is stored: what the model said and what stood in the text, nothing else."""
    assert item is not None
    named = [[each.kind, each.surface] for each in found.entities if each.kind not in OTHER_KINDS]
    return json.dumps({"importance": item.importance, "entities": named}, ensure_ascii=False)


def _read(held: str, chunk: ToExtract) -> Extracted:
    stored = json.loads(held)
    named = tuple(Named(kind, name) for kind, name in stored["entities"])
    found, _ = _checked(Item(1, stored["importance"], named), chunk)
    # What stood in the text when it was stored stands in it now: the text's hash is the key.
    return Extracted(chunk.first, degraded=True) if found is None else Extracted(found, judged=True)
