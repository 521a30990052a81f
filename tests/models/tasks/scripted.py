"""A model that says what a test wants, behind calls that keep everything in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.errors import JobFailure
from agent.models.calling import TRY_COUNTS_MS, Tries
from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Finish
from agent.models.results import WorkUnit
from agent.profile_intent import ProfileIntent
from agent.tokens import count_tokens

BOX = ProfileIntent("box", "ollama", "small:1b")
SECRET = b"s" * 32
T0 = 1_700_000_000_000

Said = str | Exception | ChatAnswer
_FENCED = re.compile(r"<<<([0-9a-f]{24})\n(.*?)\n\1>>>", re.DOTALL)
_SENTENCE = re.compile(r"[^.!?]+[.!?]")


def said(text: str, finish: Finish = Finish.STOP) -> ChatAnswer:
    return ChatAnswer(text, 100, 20, finish=finish)


def fences(ask: ChatAsk) -> list[str]:
    """Return what stands between delimiters in a prompt."""
    return [found[2] for found in _FENCED.finditer(ask.messages[-1].text)]


def as_summary(text: str) -> str:
    return json.dumps({"summary": text}, ensure_ascii=False)


def obedient(ask: ChatAsk) -> str:
    """Answer as a good model would: a summary of whole sentences, names with a capital, importance by length."""
    if ask.schema_name == "summary":
        (content,) = fences(ask)
        found = re.search(r"at most (\d+)", ask.messages[-1].text)
        assert found is not None
        room = int(found[1])
        text = ""
        for line in content.splitlines():
            for sentence in [] if line.startswith("[") else _SENTENCE.findall(line):
                if count_tokens(text + sentence) <= room:
                    text = f"{text} {sentence.strip()}".strip()
        return as_summary(text or " ".join(content.split()[-8:]))
    items = []
    for number, content in enumerate(fences(ask), 1):
        names = sorted(set(re.findall(r"\b[A-Z][a-z]{3,}\b", content.split("\n", 1)[-1])))[:3]
        entities = [{"kind": "person", "name": name} for name in names]
        items.append({"number": number, "importance": min(1.0, len(content) / 400), "entities": entities})
    return json.dumps({"items": items})


@dataclass
class MemoryCalls:
    """``ModelCalls`` over a function from a question to an answer; counts what is asked, kept and refused."""

    says: Callable[[ChatAsk], Said] = obedient
    context: int | Exception = 4_096
    profile: ProfileIntent = BOX
    time_ms: int = T0
    clock: Any = None
    asks: list[ChatAsk] = field(default_factory=list)
    sources: list[tuple[str, ...]] = field(default_factory=list)
    held: dict[tuple[str, ...], str] = field(default_factory=dict)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    vain: dict[tuple[str, ...], tuple[int, str, int]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    calls_in_run: int = 0

    def now_ms(self) -> int:
        return self.time_ms if self.clock is None else int(self.clock.now_ms())

    def secret(self) -> bytes:
        return SECRET

    def context_tokens(self) -> int:
        if isinstance(self.context, Exception):
            raise self.context
        return self.context

    def chat(self, ask: ChatAsk, sources: Iterable[str]) -> ChatAnswer:
        self.asks.append(ask)
        self.sources.append(tuple(sources))
        self.calls_in_run += 1
        assert ask.prompt_tokens + ask.max_output_tokens <= self.context_tokens(), "the prompt does not fit"
        answer = self.says(ask)
        if isinstance(answer, Exception):
            raise answer
        return said(answer) if isinstance(answer, str) else answer

    def embed(self, texts: Sequence[str], sources: Iterable[str]) -> EmbedAnswer:
        raise AssertionError("nothing is embedded here")

    def find(self, unit: WorkUnit) -> str | None:
        return self.held.get(_key(unit))

    def tries(self, unit: WorkUnit) -> Tries:
        count, problem, at_ms = self.vain.get(_key(unit), (0, "", 0))
        return Tries(count, problem) if at_ms > self.now_ms() - TRY_COUNTS_MS else Tries()

    def keep(self, answer: ChatAnswer, results: Sequence[tuple[WorkUnit, Sequence[str], str]]) -> None:
        for unit, node_ids, result in results:
            assert unit.node_id in node_ids
            self.held.setdefault(_key(unit), result)
            self.nodes[unit.input_hash] = tuple(node_ids)
            self.vain.pop(_key(unit), None)

    def refuse(self, answer: ChatAnswer | None, refused: Sequence[tuple[WorkUnit, str]]) -> None:
        for unit, problem in refused:
            self.refused.append(problem)
            self.vain[_key(unit)] = (self.tries(unit).count + 1, problem, self.now_ms())


def _key(unit: WorkUnit) -> tuple[str, ...]:
    return unit.task, unit.template_hash, unit.signature, unit.input_hash


def overflow() -> JobFailure:
    return JobFailure.unrecoverable("context_overflow")


def one_after_another(*answers: Said) -> Callable[[ChatAsk], Said]:
    """Return what gives these answers in turn, and the last for ever."""
    left = list(answers)

    def answer(ask: ChatAsk) -> Said:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer
