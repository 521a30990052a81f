"""The words of a task's prompts: files under ``prompts``, filled in, with a hash that is part of every signature.

What is filled in is never looked at again for places to fill: content may hold what it likes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.ids import content_hash, content_id
from agent.models.providers.protocol import Message
from agent.tokens import count_tokens

PROMPTS = Path(__file__).with_name("prompts")
RULES_VERSION = 1
"""Of the shapes and rules of answers (``answers.py``, ``grounding.py``): what is accepted is part of a signature."""

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_PARTS = ("system", "task", "repair", "rules")
_MESSAGE_TOKENS = 8  # what a server puts around a message
_UNSPACED = ("Chinese", "Japanese", "Thai")


@dataclass(frozen=True)
class Prompts:
    """All texts of one task. ``hash`` is of all of them together."""

    task: str
    hash: str
    texts: Mapping[str, str]
    rules: Mapping[str, str]

    def signature(self, provider: str, model: str) -> str:
        """Return ``provider:model:task-HASH8``."""
        return f"{provider}:{model}:{self.task}-{self.hash[:8]}"

    def messages(self, values: Mapping[str, str], content: str, problem: str = "") -> tuple[Message, ...]:
        """Return the two messages of a call; ``problem`` is the rule that the last answer broke, if there was one."""
        repair = f"{_filled(self.texts['repair'], {'rule': self.rules[problem]})}\n\n" if problem in self.rules else ""
        user = _filled(self.texts["task"], {**values, "repair": repair, "content": content})
        return Message("system", _filled(self.texts["system"], values)), Message("user", user)


@lru_cache(maxsize=8)
def load_prompts(task: str) -> Prompts:
    """Return the prompts of a task ("summary", "extract"), read once a process. Raises ``OSError``."""
    texts = {part: _read(PROMPTS / f"{task}.{part}.md") for part in _PARTS}
    rules = dict(line.split(": ", 1) for line in texts["rules"].splitlines() if ": " in line)
    whole = content_id(task, RULES_VERSION, *(texts[part] for part in _PARTS))
    return Prompts(task, content_hash(whole), texts, rules)


def _read(path: Path) -> str:
    # Read as text: a checkout on Windows may have other line ends, and the signature must not depend on them.
    return path.read_text(encoding="utf-8").strip()


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], ""), text)


def prompt_tokens(messages: tuple[Message, ...]) -> int:
    """Return our own count of a whole prompt."""
    return sum(count_tokens(message.text) + _MESSAGE_TOKENS for message in messages)


def length_in_words(tokens: int, language: str) -> str:
    """Return a length in words, or in characters where words are not written apart, that keeps within the tokens.

    A word of a European language takes one to three tokens: asked for half as many words, models keep to it.
    """
    if language in _UNSPACED:
        return f"{max(20, tokens * 4 // 5)} characters"
    return f"{max(12, tokens // 2)} words"
