"""Summaries by a model.

One call at most in a run. An input too long for the context is read in parts, one a run, each stored as a result of its
own; then the texts of the parts are summarised, in parts again if need be. Nothing is cut off.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.errors import JobFailure
from agent.ids import content_hash
from agent.masking.mask import mask_secrets
from agent.models.answers import read_summary, summary_schema
from agent.models.asking import (
    BAD_OUTPUT,
    CONTEXT_OVERFLOW,
    LEAST_ROOM,
    MOST_TRIES,
    WRONG_SHAPE,
    is_kept,
    once_more,
    output_limit,
    room_for_content,
    too_small,
)
from agent.models.fencing import fenced
from agent.models.grounding import Material, invented
from agent.models.language import answer_language
from agent.models.prompting import length_in_words, load_prompts, prompt_tokens
from agent.models.protocol import SummaryText, budget_tokens
from agent.models.providers.protocol import ChatAsk
from agent.models.results import WorkUnit
from agent.models.splitting import Piece, split
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls
    from agent.models.protocol import SummaryInput, SummaryRequest
    from agent.models.providers.protocol import ChatAnswer
    from agent.profile_intent import ProfileIntent

TASK = "summary"
PART_TASK = "summary-part"
FIT_TASK = "summary-fit"
"""Where it is counted how often the server said that an input was too long after all."""

_BETWEEN = "\n\n"
_DEEPEST = 8  # parts of parts: each time a fifth is left, so the longest input is through after four
_SLIGHTLY_OVER = 1.15
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ModelSummariser:
    """Summaries by a profile's chat model; ``calls`` is ``None`` where only the signature is wanted."""

    calls_model = True

    def __init__(self, profile: ProfileIntent, calls: ModelCalls | None) -> None:
        self._calls = calls
        self._prompts = load_prompts(TASK)
        self.signature = self._prompts.signature(profile.provider, profile.chat_model)

    def summarise(self, request: SummaryRequest) -> SummaryText:
        """Return a summary of at most ``budget_tokens``; makes at most one call.

        ``degraded`` after two answers in vain. Raises ``Postponed`` where another run is to go on (something is stored
        each time), and what the call raises; ``context_overflow`` where the model cannot take any part of the input.
        """
        if self._calls is None:
            raise JobFailure.unrecoverable("no_calls", title="this summariser was opened for its signature alone")
        text = _Reading(self._calls, request, self.signature).text()
        if text is None:
            from agent.models.builtin.summary import BuiltinSummariser

            return replace(BuiltinSummariser().summarise(request), degraded=True)
        from agent.models.builtin.lines import title_of

        return SummaryText(text, title_of(request.children), count_tokens(text))


@dataclass(frozen=True)
class _Asked:
    """One call's question: the content of a part, and what its answer is filed under."""

    unit: WorkUnit
    content: str
    nodes: tuple[str, ...]
    budget: int
    what: str


class _Reading:
    """One group on its way through a model."""

    def __init__(self, calls: ModelCalls, request: SummaryRequest, signature: str) -> None:
        self._calls = calls
        self._request = request
        self._signature = signature
        self._prompts = load_prompts(TASK)
        self._pieces = [_piece(child, number) for number, child in enumerate(request.children, 1)]
        self._language = answer_language("\n".join(piece.text for piece in self._pieces))
        whole = _BETWEEN.join(piece.written for piece in self._pieces)
        self._fit = self._unit(FIT_TASK, whole, request.budget_tokens, self._pieces[0].nodes[0])

    def text(self) -> str | None:
        """Return the summary, ``None`` where the built-in one is to stand in."""
        room = self._room()
        pieces = self._pieces
        for _ in range(_DEEPEST):
            try:
                parts = split(pieces, room)
            except ValueError:
                raise too_small(self._calls) from None
            if len(parts) == 1:
                return self._told(self._asked(TASK, pieces, self._request.budget_tokens, self._what()))
            pieces = []
            for number, part in enumerate(parts, 1):
                piece = self._read(number, part, len(parts))
                if piece is None:
                    return None
                pieces.append(piece)
        raise too_small(self._calls)

    def _read(self, number: int, part: Sequence[Piece], count: int) -> Piece | None:
        """Return a part's own summary as a piece of the next round."""
        tokens = sum(piece.tokens for piece in part)
        asked = self._asked(PART_TASK, part, budget_tokens(tokens), f"part {number} of {count} of {self._what()}")
        text = self._told(asked)
        heads = [piece.head.partition("] ")[2] for piece in part]
        span = heads[0] if heads[0] == heads[-1] else f"{heads[0]} … {heads[-1]}"
        return None if text is None else Piece(f"[{number}] {span}".rstrip(), text, asked.nodes)

    def _told(self, asked: _Asked) -> str | None:
        """Return the answer to a question, stored or new; ``None`` after two in vain."""
        calls = self._calls
        held = calls.find(asked.unit)
        if held is not None:
            text: str = json.loads(held)["text"]
            return text
        tries = calls.tries(asked.unit)
        if tries.count >= MOST_TRIES:
            return None
        answer = self._call(asked, tries.problem if tries.count else "")
        text, problem = ("", WRONG_SHAPE) if answer is None else checked(answer, asked.content, asked.budget)
        if answer is None or problem:
            calls.refuse(answer, [(asked.unit, problem)])
            if tries.count + 1 >= MOST_TRIES:
                return None
            raise once_more(calls, "the model is asked once more: its answer was of no use")
        calls.keep(answer, [(asked.unit, asked.nodes, json.dumps({"text": text}, ensure_ascii=False))])
        if asked.unit.task == PART_TASK:
            is_kept(calls, asked.unit)
            raise once_more(calls, "a long group is read in parts")
        return text

    def _call(self, asked: _Asked, problem: str) -> ChatAnswer | None:
        """Return the answer, ``None`` where the server gave one of no shape that is known."""
        calls = self._calls
        messages = self._prompts.messages(
            self._values(asked.budget, asked.what), fenced(calls.secret(), asked.content), problem
        )
        ask = ChatAsk(messages, prompt_tokens(messages), output_limit(calls), summary_schema(), "summary")
        try:
            return calls.chat(ask, self._request.sources)
        except JobFailure as failure:
            if failure.code == BAD_OUTPUT:
                return None
            if failure.code != CONTEXT_OVERFLOW:
                raise
            # It counts otherwise than we do: half as much at a time from now on.
            calls.refuse(None, [(self._fit, CONTEXT_OVERFLOW)])
            raise once_more(calls, "a group is too long for the model and is read in smaller parts") from failure

    def _room(self) -> int:
        """Return how many tokens of content go into one call."""
        values = self._values(self._request.budget_tokens, self._what())
        own = prompt_tokens(self._prompts.messages(values, fenced(b"", ""), "too_long"))
        room, refused = room_for_content(self._calls, own), self._calls.tries(self._fit).count
        if refused:
            # Parts of what was refused, not of what the model was taken to hold: the same would be asked again.
            room = min(room, sum(piece.tokens for piece in self._pieces)) >> refused
        if room < LEAST_ROOM:
            raise too_small(self._calls, refused=bool(refused))
        return room

    def _asked(self, task: str, pieces: Sequence[Piece], budget: int, what: str) -> _Asked:
        content = _BETWEEN.join(piece.written for piece in pieces)
        nodes = tuple(dict.fromkeys(node for piece in pieces for node in piece.nodes))
        return _Asked(self._unit(task, content, budget, nodes[0]), content, nodes, budget, what)

    def _unit(self, task: str, content: str, budget: int, node_id: str) -> WorkUnit:
        # All that is filled into the prompt belongs to the question.
        values = "\n".join(f"{name}={value}" for name, value in sorted(self._values(budget, self._what()).items()))
        return WorkUnit(task, self._prompts.hash, self._signature, content_hash(f"{values}\n\n{content}"), node_id)

    def _values(self, budget: int, what: str) -> dict[str, str]:
        return {"language": self._language, "length": length_in_words(budget, self._language), "what": what}

    def _what(self) -> str:
        if self._request.level > 1:
            return f"these {len(self._pieces)} summaries"
        if self._request.tree_kind == "document":
            return f"these {len(self._pieces)} passages of one document"
        return f"these {len(self._pieces)} messages and notes"


def _piece(child: SummaryInput, number: int) -> Piece:
    """Return a child under a line with its number, dates, author, title and headings; secrets masked once more."""
    first, last = _day(child.time_ms), _day(child.last_time_ms)
    dates = first if last in (first, "") else f"{first} – {last}"
    title = f"“{child.title}”" if child.title else ""
    said = [part for part in (dates, child.author, title, child.heading_path) if part]
    head = " ".join(" · ".join(said).split())
    return Piece(mask_secrets(f"[{number}] {head}".rstrip()), mask_secrets(child.text.strip()), (child.node_id,))


def _day(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    try:
        return (_EPOCH + datetime.timedelta(milliseconds=time_ms)).date().isoformat()
    except OverflowError:
        return ""


def checked(answer: ChatAnswer, content: str, budget: int) -> tuple[str, str]:
    """Return the text of a summary that may stand, or the rule that it breaks. Pure."""
    text, problem = read_summary(answer)
    if problem:
        return "", problem
    text = "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())
    text = mask_secrets(text)
    limit = min(budget, count_tokens(content))
    if count_tokens(text) > limit:
        text = _trimmed(text, limit)
        if not text:
            return "", "too_long"
    problem = invented(text, Material(content))
    return ("", problem) if problem else (text, "")


def _trimmed(text: str, limit: int) -> str:
    """Return the first whole sentences of a text slightly over its limit; nothing where it is over by far."""
    from agent.models.builtin.structure import sentences

    if count_tokens(text) > limit * _SLIGHTLY_OVER:
        return ""
    lines: list[str] = []
    used = 0
    for line in text.split("\n"):
        kept: list[str] = []
        for sentence in sentences(line):
            used += count_tokens(sentence)
            if used > limit:
                break
            kept.append(sentence)
        if kept:
            lines.append(" ".join(kept))
        if used > limit:
            break
    return "\n".join(lines)
