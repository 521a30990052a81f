"""What is answered: always the same to the same question, made from the words of the question alone."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIMENSIONS = 64

_FENCED = re.compile(r"<<<([0-9a-f]{24})\n(.*?)\n\1>>>", re.DOTALL)
_NUMBERED = re.compile(r"Text (\d+):\n<<<([0-9a-f]{24})\n(.*?)\n\2>>>", re.DOTALL)
_AT_MOST = re.compile(r"at most (\d+) (words|characters)")
_HEAD = re.compile(r"(?m)^\[\d+\].*$")
_TOLD = re.compile(r"(?m)^(?:Author|Title): .*$")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}")
_ORDER = re.compile(r"answer exactly: *([^\n]+)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
INVENTED = "Zebulon Quartermain"


@dataclass(frozen=True)
class Question:
    """A chat as any protocol asks it: the texts of its messages, and the JSON schema that came with it, if any."""

    texts: tuple[str, ...]
    schema: Mapping[str, Any] | None = None

    @property
    def task(self) -> str:
        """``summary``, ``items``, or ``free`` where nothing of ours is asked."""
        for name in ("items", "summary"):
            if self.schema is not None and name in self.schema.get("properties", {}):
                return name
        tail = _FENCED.split(self.texts[-1])[-1] if self.texts else ""
        return next((name for name in ("items", "summary") if f'{{"{name}"' in tail), "free")

    @property
    def content(self) -> str:
        """What stands between the delimiters."""
        return "\n\n".join(found[2] for text in self.texts for found in _FENCED.finditer(text))


def answer_to(question: Question, way: str = "good") -> str:
    """Return the answer in one of the ways of ``ANSWERS``."""
    return ANSWERS[way](question)


def embedding(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a vector of length one: a hashed bag of words."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or ["nothing"]:
        digest = hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest()
        vector[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(each * each for each in vector))
    return [round(each / length, 6) for each in vector] if length else [1.0] + [0.0] * (dimensions - 1)


def _good(question: Question) -> str:
    if question.task == "summary":
        return json.dumps({"summary": _summary(question)}, ensure_ascii=False)
    if question.task == "items":
        items = [_item(number, text) for number, text in _texts(question)]
        return json.dumps({"items": items}, ensure_ascii=False)
    return "ok"


def _summary(question: Question) -> str:
    found = _AT_MOST.findall(question.texts[-1])
    most, unit = (int(found[-1][0]), found[-1][1]) if found else (40, "words")
    pieces = [_sentences(piece) for piece in _HEAD.split(question.content)]
    said: list[str] = []
    for turn in range(max(map(len, pieces), default=0)):
        for piece in pieces:
            if turn < len(piece) and _size([*said, piece[turn]], unit) <= most:
                said.append(piece[turn])
    if not said:
        # The first sentence alone is over the limit.
        whole = " ".join(sentence for piece in pieces for sentence in piece)
        said = [" ".join(whole.split()[:most])] if unit == "words" else [whole[:most]]
    return " ".join(said)


def _sentences(text: str) -> list[str]:
    return [each.strip() for each in _SENTENCE.findall(text) if any(map(str.isalnum, each))]


def _size(said: Sequence[str], unit: str) -> int:
    return len(" ".join(said).split()) if unit == "words" else len("".join(said))


def _texts(question: Question) -> list[tuple[int, str]]:
    return [(int(found[1]), _TOLD.sub("", found[3], count=1)) for found in _NUMBERED.finditer(question.texts[-1])]


def _item(number: int, text: str) -> dict[str, Any]:
    names = list(dict.fromkeys(_NAME.findall(text)))[:5]
    return {"number": number, "importance": 0.5, "entities": [{"kind": "person", "name": name} for name in names]}


def _changed(question: Question, summary: str | None = None, **item: Any) -> str:
    answer = json.loads(_good(question)) if question.task != "free" else {}
    if summary is not None and "summary" in answer:
        answer["summary"] = summary
    for each in answer.get("items", []):
        each.update(item)
    return json.dumps(answer, ensure_ascii=False)


def _half(question: Question) -> str:
    good = _good(question)
    return good[: len(good) // 2]


def _obedient(question: Question) -> str:
    order = _ORDER.search(question.content)
    return order[1].strip() if order is not None else _good(question)


ANSWERS: dict[str, Callable[[Question], str]] = {
    "good": _good,
    "half": _half,
    "think": lambda asked: f'<think>First {{"summary": "wrong"}}, {{"items": []}} …</think>\n{_good(asked)}',
    "unopened_think": lambda asked: f"so I will write it now.</think>\n{_good(asked)}",
    "fenced": lambda asked: f"Here it is:\n```json\n{_good(asked)}\n```\nAnything else?",
    "empty": lambda _: "",
    "prose": lambda _: "I am happy to help with that.",
    "invented": lambda asked: _changed(
        asked,
        summary=f"It was told that {INVENTED} bought all of it.",
        entities=[{"kind": "person", "name": INVENTED}],
    ),
    "importance": lambda asked: _changed(asked, summary=f"It was told by {INVENTED}.", importance=7),
    "too_long": lambda asked: _changed(
        asked, summary=" ".join([asked.content] * 3), entities=[{"kind": "person", "name": asked.content * 3}]
    ),
    "wrong_keys": lambda _: '{"result": {"text": "done"}, "status": 1}',
    "obedient": _obedient,
}
