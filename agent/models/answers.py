"""What an answer of a model must look like, and getting it out of what a model wrote around it.

An answer is only ever data: it is parsed, measured and stored, and nothing in it is followed. pydantic is imported when
the first answer is looked at: a process that calls no model never loads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent.models.builtin.rules.words import listed
from agent.models.providers.protocol import Finish

if TYPE_CHECKING:
    from agent.models.providers.protocol import ChatAnswer

ENTITY_KINDS = ("person", "organisation", "place", "product")
"""The kinds a model is asked for. Addresses, dates and amounts are known by their form: rules find them better."""

OTHER_KINDS = ("email", "url", "handle", "hashtag", "date", "amount")

_THINKING = re.compile(r"<(think|thinking|reasoning|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"\A.*</(?:think|thinking|reasoning|thought)>", re.DOTALL | re.IGNORECASE)
_THOUGHT_OPEN = re.compile(r"<(?:think|thinking|reasoning|thought)>.*\Z", re.DOTALL | re.IGNORECASE)
_LONGEST = 200_000  # characters; no answer that was asked for comes near
_TRIED = 64  # places where an object may begin
# What the strict modes of some servers refuse in a schema, and what they do not need.
_LEFT_OUT = listed("""
title description default minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems
""")


@dataclass(frozen=True)
class Named:
    """What a model says a text names, unchecked."""

    kind: str
    name: str


@dataclass(frozen=True)
class Item:
    """What a model says of one text of several. ``problem`` names the rule it broke, if it broke one."""

    number: int
    importance: float
    entities: tuple[Named, ...]
    problem: str = ""


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of a summary."""
    return _strict(_shapes().summary)


def extract_schema() -> dict[str, Any]:
    """Return the JSON schema of what is said of several texts."""
    return _strict(_shapes().extraction)


def read_summary(answer: ChatAnswer) -> tuple[str, str]:
    """Return the text of a summary and the rule it broke: one of the two is empty."""
    found = _object(answer.text, "summary")
    if found is None:
        return "", _no_object(answer)
    try:
        text: str = _shapes().summary.model_validate(found).summary
    except ValueError:
        return "", "shape"
    return (text, "") if text.strip() else ("", "empty")


def read_items(answer: ChatAnswer, count: int) -> tuple[dict[int, Item], str]:
    """Return what was said of each number from 1 to ``count``, and the rule that the answer as a whole broke, if any.

    Numbers that were not asked for are left out; of two items with one number neither counts.
    """
    found = _object(answer.text, "items")
    if found is None:
        return {}, _no_object(answer)
    listed = found["items"]
    if not isinstance(listed, list):
        return {}, "shape"
    items: dict[int, Item] = {}
    twice: set[int] = set()
    for raw in listed[: 4 * count + 16]:
        number = raw.get("number") if isinstance(raw, Mapping) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            continue
        if number in items:
            twice.add(number)
        items[number] = _item(number, raw)
    for number in twice:
        items[number] = Item(number, 0.0, (), "shape")
    return items, ""


def _item(number: int, raw: Mapping[str, Any]) -> Item:
    try:
        said = _shapes().item.model_validate(raw)
    except ValueError as error:
        errors: Any = getattr(error, "errors", list)()
        about = {each["loc"][0] for each in errors if each["loc"]}
        return Item(number, 0.0, (), "importance" if about == {"importance"} else "shape")
    return Item(number, said.importance, tuple(Named(each.kind, each.name) for each in said.entities))


def _no_object(answer: ChatAnswer) -> str:
    if answer.finish is Finish.LENGTH:
        return "cut"
    return "no_json" if answer.text.strip() else "empty"


def _object(text: str, key: str) -> dict[str, Any] | None:
    """Return the JSON object with a key that a model meant, whatever it thought and said before it."""
    text = text[:_LONGEST]
    for candidate in _without_thinking(text):
        found: dict[str, Any] | None = None
        for each in _objects(candidate):
            if key in each:
                found = each
        if found is not None:
            return found
    return None


def _without_thinking(text: str) -> Iterator[str]:
    stripped = text.strip()
    if stripped.startswith("{"):
        yield stripped  # nothing was thought aloud; a tag may stand in the answer itself
    plain = _THINKING.sub(" ", text)
    # Some templates open the block themselves, so that the answer holds only its end.
    yield _THOUGHT_OPEN.sub("", _THOUGHT_END.sub("", plain))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that stand in a text one after the other; what surrounds them is passed over."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(_TRIED):
        if at < 0:
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(found, dict):
            yield found
        at = text.find("{", end)


@dataclass(frozen=True)
class _Shapes:
    summary: Any
    item: Any
    extraction: Any


@lru_cache(maxsize=1)
def _shapes() -> _Shapes:
    from typing import Annotated

    from pydantic import ConfigDict, Field, create_model

    # What is more than asked for is passed over; the schema forbids it where a server holds the model to it.
    lenient = ConfigDict(extra="ignore", strict=True)
    share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
    # Another kind takes its entity away and not the whole answer: a plain string, and an enum in the schema.
    word = Annotated[str, Field(json_schema_extra={"enum": list(ENTITY_KINDS)})]
    named = create_model("Named", __config__=lenient, kind=(word, ...), name=(str, ...))
    item = create_model(
        "Item",
        __config__=lenient,
        number=(int, ...),
        importance=(share, ...),
        entities=(list[named], ...),  # type: ignore[valid-type]
    )
    extraction = create_model("Extraction", __config__=lenient, items=(list[item], ...))  # type: ignore[valid-type]
    summary = create_model("Summary", __config__=lenient, summary=(str, ...))
    return _Shapes(summary, item, extraction)


def _strict(shape: Any) -> dict[str, Any]:
    """Return a model's schema as strict modes want it: nothing more than named, all of it required, no references."""
    schema: dict[str, Any] = shape.model_json_schema()
    definitions = schema.pop("$defs", {})

    def tidied(node: Any, *, is_properties: bool = False) -> Any:
        if isinstance(node, list):
            return [tidied(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return tidied(definitions[node["$ref"].rpartition("/")[2]])
        kept = {
            name: tidied(value, is_properties=name == "properties" and not is_properties)
            for name, value in node.items()
            if is_properties or name not in _LEFT_OUT
        }
        if kept.get("type") == "object" and not is_properties:
            kept["additionalProperties"] = False
            kept["required"] = list(kept.get("properties", {}))
        return kept

    tidy: dict[str, Any] = tidied(schema)
    return tidy
