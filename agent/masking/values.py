"""Whether a value that a name announces looks like a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import log2

_PLAIN = re.compile(r"[^\W\d_]+(?:[-'’/][^\W\d_]+)*[.!?…:]*")
_PLACEHOLDER = re.compile(
    r"<.*>?|:\w+:.*|\$[\w({].*|\{\{?.*|%[\w({].*|#\{.*|@\w*\(.*|[*•x.\-_·…#?]+|\[.*"
    r"|(?:your|my|the|insert|enter|put|some|replace|add|use|set|get|change)[ _\-].*"
    r"|(?:example|sample|dummy|fake|todo|tbd|redacted)\b.*"
    r"|(?:process|os|sys|self|this|config|settings|env|ENV|secrets|vars|data|local|module|var|args|opts|options|request|req|"
    r"params|user|ctx|context|props|state|Rails|app|conf|cfg)(?:\.|\[|\?\.|->|::).*",
    re.IGNORECASE | re.DOTALL,
)
_WORDS = frozenset(
    [
        "string",
        "str",
        "text",
        "varchar",
        "char",
        "bytes",
        "object",
        "number",
        "integer",
        "int",
        "bool",
        "boolean",
        "required",
        "optional",
        "hidden",
        "none",
        "null",
        "nil",
        "true",
        "false",
        "undefined",
        "default",
        "invalid",
        "incorrect",
        "wrong",
        "missing",
        "empty",
        "forgot",
        "forgotten",
        "reset",
        "change",
        "changed",
        "confirm",
        "show",
        "hide",
        "password",
        "passwords",
        "passwort",
        "passwd",
        "pass",
        "token",
        "secret",
        "key",
        "value",
        "input",
        "field",
        "type",
        "label",
        "any",
        "unknown",
        "void",
        "kennwort",
        "contraseña",
        "senha",
        "wachtwoord",
        "self",
        "this",
        "new",
        "old",
        "current",
        "basic",
        "bearer",
        "login",
        "disabled",
        "enabled",
        "yes",
        "no",
        "auto",
        "plain",
        "encrypted",
        "hashed",
        "masked",
        "redacted",
        "manual",
        "prompt",
        "ask",
        "external",
        "keyring",
        "file",
        "env",
        "vault",
    ]
)
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+|[\w.>:?\-]*[(\[].*|&?\*?[A-Za-z_]\w*\(.*|.*\(\)|.*=>.*"
)
_SNAKE = re.compile(r"[A-Za-z]+(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+|[a-z]{1,12}\d?")
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.\-@{}$]*)+|[A-Za-z]:\\.*|[a-z][a-z0-9+.\-]{1,12}://.*|www\..*")
_DATE = re.compile(r"\d{1,4}[-./:]\d{1,2}(?:[-./:]\d{1,4})?(?:[T ]?\d\d:\d\d.*)?|\d+(?:[.,]\d+)+%?|[+(]\d[\d ()\-/]+")
_MEASURE = re.compile(
    r"(?:\d+[-–]?[A-Za-zäöüß%]+|\d+[-–]\d+|[≥>]?=?\d+\+?|v?\d+(?:\.\d+)+[a-z]?\d*"
    r"|(?:sha|md|base|bcrypt|utf|pbkdf|argon|oauth|aes|rsa|scrypt|iso|ntlm|hmac|http|x)[-_]?\d+\S*)[.,!?]?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Value:
    """What follows a name, and how. ``tight``: as in ``NAME=value`` alone on its line; ``strict``: as in prose."""

    text: str
    quoted: bool
    assigned: bool
    alone: bool
    tight: bool = False
    strict: bool = False


def is_password(value: Value) -> bool:
    """Return whether it is a password rather than a sentence, a variable, a placeholder or a type."""
    text = value.text
    bare = text.strip().rstrip(".,;:!?")
    if len(bare) < 4 or _PLACEHOLDER.fullmatch(text.strip()) or _has_mask(text):
        return False
    if " " in text.strip():
        return value.quoted and _is_phrase(text.strip(), value)
    if bare.lower() in _WORDS or _PATH.fullmatch(bare) or (not value.tight and _DATE.fullmatch(bare)):
        return False
    if bare.isdigit():
        return len(bare) >= 4 and (value.alone or value.quoted) and not value.strict
    if _PLAIN.fullmatch(text):
        if _is_jumbled(bare):
            return True
        return not value.strict and (value.quoted or (value.assigned and value.tight))
    if value.quoted:
        return not _MEASURE.fullmatch(text) and (not value.strict or _is_varied(bare))
    if _CODE.fullmatch(text) and entropy(text) < 4.0:
        return False
    if value.tight:
        return True
    if _SNAKE.fullmatch(bare):
        return any(map(str.isdigit, bare)) and value.alone
    if _MEASURE.fullmatch(text) and not (value.alone and len(bare) >= 8 and not value.strict):
        return False
    if value.strict and len(bare) < 6:
        return False
    return _is_varied(bare)


def is_token(value: Value) -> bool:
    """Return whether it is a machine's secret: long enough, and random enough."""
    text = value.text.strip()
    bare = text.rstrip(".,;!?")
    if len(bare) < 8 or " " in bare or _PLACEHOLDER.fullmatch(text) or _has_mask(text):
        return False
    if value.strict and len(bare) < 16:
        return False
    if bare.lower() in _WORDS or _DATE.fullmatch(bare) or bare.isdigit():
        return False
    if _PATH.fullmatch(bare) and entropy(bare) < 4.3:
        return False
    if _PLAIN.fullmatch(text) or _SNAKE.fullmatch(bare) or _CODE.fullmatch(text):
        if value.tight and value.assigned and len(bare) >= 8 and not _CODE.fullmatch(text):
            return True
        return len(bare) >= 16 and (_is_jumbled(bare) or entropy(bare) >= 4.2) and _is_random(bare)
    if _MEASURE.fullmatch(text) and len(bare) < 16:
        return False
    if value.tight:
        return True
    digits = sum(map(str.isdigit, bare))
    if not digits:
        return len(bare) >= 20 and entropy(bare) >= 4.0 and _is_jumbled(bare)
    if value.quoted or value.assigned:
        return len(bare) >= 10 or digits >= 2
    return len(bare) >= 12 and digits >= 2 and entropy(bare) >= 3.0


def entropy(text: str) -> float:
    """Return how many bits a letter of the text says, by the letters that are in it."""
    size = len(text)
    return -sum(count / size * log2(count / size) for count in map(text.count, set(text))) if size else 0.0


def _has_mask(text: str) -> bool:
    return "[masked: " in text


def _is_phrase(text: str, value: Value) -> bool:
    """Return whether several words in quotation marks are a passphrase rather than a label or a message."""
    if len(text) > 80 or any(word.strip(".:,!?").lower() in _WORDS for word in text.split()):
        return False
    words = text.split()
    return any(_is_varied(word) for word in words if not _MEASURE.fullmatch(word)) or (
        value.assigned and 3 <= len(words) <= 8 and text.islower() and text.replace(" ", "").isalpha()
    )


def _is_varied(text: str) -> bool:
    digit = any(map(str.isdigit, text))
    letter_ = any(map(str.isalpha, text))
    mark = any(not letter.isalnum() and letter not in "-'’./_" for letter in text)
    return (digit and letter_) or (mark and letter_ and len(text) >= 6) or (digit and mark)


def _is_jumbled(text: str) -> bool:
    """Return whether letters alone look drawn rather than written: capitals in the middle, again and again."""
    turns = sum(first.islower() and second.isupper() for first, second in pairwise(text))
    backs = sum(first.isupper() and second.isupper() for first, second in pairwise(text))
    return turns >= 2 and (turns + backs) * 4 >= len(text) and backs >= 1


def _is_random(text: str) -> bool:
    return any(map(str.isdigit, text)) or _is_jumbled(text)
