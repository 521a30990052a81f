"""A setting's value out of the words that an owner wrote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args, get_origin

import msgspec

from agent.errors import UsageFault

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def converted(key: str, words: Sequence[str], hint: Any) -> Any:
    """Return the value that words stand for, by the type of the setting. Raises ``UsageFault`` that says what it is."""
    if not words:
        raise UsageFault(
            f"{key} needs a value", "none was given", f"sapwood config set {key} VALUE, or --default to go back"
        )
    if get_origin(hint) is tuple:
        return list(words)
    if len(words) > 1:
        raise UsageFault(f"{key} takes one value", f"{len(words)} were given", "put quotes around it if it has blanks")
    word = words[0]
    if hint is bool:
        if word.lower() in _YES + _NO:
            return word.lower() in _YES
        raise UsageFault(f"{key} cannot be {word}", "it is true or false", f"sapwood config set {key} true")
    try:
        value = msgspec.convert(word, hint, strict=False)
    except msgspec.ValidationError as error:
        wanted = _wanted(hint)
        raise UsageFault(f"{key} cannot be {word}", f"it is {wanted}" if wanted else str(error), _now(key)) from error
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageFault(f"{key} cannot be {word}", f"it is {_wanted(hint)}", _now(key))
        return int(value) if value.is_integer() and "." not in word else value
    return value


def _now(key: str) -> str:
    return f"`sapwood config get {key}` says what it is now"


def _wanted(hint: Any) -> str:
    for part in (hint, *get_args(hint)):
        kind, *extras = get_args(part) or (part,)
        bounds = next((extra for extra in extras if isinstance(extra, msgspec.Meta)), None)
        word = {int: "a whole number", float: "a number"}.get(kind)
        if word is None:
            continue
        if bounds is not None and bounds.ge is not None:
            return f"{word}, {bounds.ge} or more"
        return f"{word} above {bounds.gt}" if bounds is not None and bounds.gt is not None else word
    return ""
