"""What programs and assistants may call, once for JSON-RPC and MCP: names, what each takes, and what it answers.

A call's parameters are a strict structure: what is unknown, missing or of another type is refused by its name. Its
descriptions are what a model reads. What is not built yet is not in the list (``capabilities.BUILT``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from agent.actions import assistants
from agent.actions.assistants_answers import Fetched, FoundPage, Kept, Level, MemoryStatus
from agent.actions.capabilities import BUILT, Capability
from agent.errors import SapwoodError

if TYPE_CHECKING:
    from agent.actions.home import Home

Cursor = Annotated[
    Annotated[str, msgspec.Meta(max_length=200)] | None,
    msgspec.Meta(
        description="The next_cursor of the answer before: goes on there, all other parameters being the same."
    ),
]


class SearchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to search for."""

    query: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=2_000,
            description="What to look for: a few telling words, or a short sentence that says what the passage would "
            "say. Names, places, titles and numbers help most; leave out words such as 'find' or 'my notes about'.",
        ),
    ]
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=assistants.MAX_HITS, description="How many hits at most; the cursor leads to more.")
    ] = assistants.HITS
    cursor: Cursor = None
    source: Annotated[str | None, msgspec.Meta(description="Look in this source alone: its id or name.")] = None
    kind: Annotated[
        str | None,
        msgspec.Meta(
            description="'leaf' for the owner's own words alone, 'summary' for overviews alone. Left out: both.",
            extra_json_schema={"enum": ["leaf", "summary", None]},
        ),
    ] = None
    since: Annotated[
        str | None,
        msgspec.Meta(description="Dated from then on: 2025-06-14, 2025-06-14T18:30, or a span ago such as 7d."),
    ] = None
    until: Annotated[str | None, msgspec.Meta(description="Dated up to then, that day included; as since.")] = None


class FetchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which node to read."""

    id: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=200, description="The id of a hit, a child, a parent or a neighbour."),
    ]
    cursor: Cursor = None


class DrillDownParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to look below."""

    id: Annotated[
        Annotated[str, msgspec.Meta(max_length=200)] | None,
        msgspec.Meta(
            description="The id of a summary, or of a source. Left out: the sources with the top of each one's tree.",
        ),
    ] = None
    cursor: Cursor = None


class StatusParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is asked."""


class RememberParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to keep."""

    text: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=assistants.MAX_REMEMBERED_CHARS,
            description="The note: whole sentences that say who, what, where and when, so that they are understood in "
            "a year without what was said around them. Markdown is kept.",
        ),
    ]
    title: Annotated[
        Annotated[str, msgspec.Meta(max_length=300)] | None,
        msgspec.Meta(description="A short title. Left out: the note's first words."),
    ] = None


@dataclass(frozen=True)
class Call:
    """One thing that may be called. ``rpc`` is its name after ``memory.``, ``tool`` that of the assistants' tool.

    ``waits``: it may wait for a model. ``writes``: it changes the memory.
    """

    rpc: str
    tool: str
    capability: Capability
    title: str
    params: type[msgspec.Struct]
    answer: type[Any]
    run: Callable[[Home, Any], Any]
    waits: bool = False
    writes: bool = False


def _search(home: Home, params: SearchParams) -> FoundPage:
    return assistants.search_memory(home, **msgspec.structs.asdict(params))


def _fetch(home: Home, params: FetchParams) -> Fetched:
    return assistants.fetch(home, params.id, cursor=params.cursor)


def _drill_down(home: Home, params: DrillDownParams) -> Level:
    return assistants.drill_down(home, params.id, cursor=params.cursor)


def _status(home: Home, _params: StatusParams) -> MemoryStatus:
    return assistants.status(home)


def _remember(home: Home, params: RememberParams) -> Kept:
    return assistants.remember(home, params.text, title=params.title)


CALLS: tuple[Call, ...] = tuple(
    call
    for call in (
        Call("search", "search_memory", Capability.SEARCH, "Search the memory", SearchParams, FoundPage, _search, True),
        Call("fetch", "fetch", Capability.SEARCH, "Read a passage", FetchParams, Fetched, _fetch),
        Call("drill_down", "drill_down", Capability.TREE, "Go down the tree", DrillDownParams, Level, _drill_down),
        Call("status", "status", Capability.WORK, "What the memory holds", StatusParams, MemoryStatus, _status),
        Call("remember", "remember", Capability.REMEMBER, "Keep a note", RememberParams, Kept, _remember, writes=True),
    )
    if call.capability in BUILT
)


class WrongParams(SapwoodError):
    """Parameters that a call does not take; the detail names the field."""


def read_params(call: type[msgspec.Struct], given: Any, *, strict: bool) -> Any:
    """Return what a call takes. Not ``strict``: a number may come as text, as models write it at times.

    Raises ``WrongParams`` with the name of the field.
    """
    try:
        return msgspec.convert({} if given is None else given, call, strict=strict)
    except (msgspec.ValidationError, ValueError) as error:
        raise WrongParams("these parameters are not taken", field_words(str(error)), _takes(call)) from error


def field_words(words: str) -> str:
    """Return what the reader of parameters says, with the place as people write it: ``limit``, ``chat.messages[3]``."""
    what, _, at = words.rpartition(" - at `$.")
    return f"{at.rstrip('`')}: {what}" if what else words


def _takes(call: type[msgspec.Struct]) -> str:
    fields = [
        f"{each.encode_name} (required)" if each.required else each.encode_name for each in msgspec.structs.fields(call)
    ]
    return f"it takes: {', '.join(fields)}" if fields else "it takes none"


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a structure, an object at its root as assistants' programs want it."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = str(root["$ref"]).rpartition("/")[2]
    schema: dict[str, Any] = {**parts[name]}
    used = {key: value for key, value in parts.items() if key != name}
    if used:
        schema["$defs"] = used
    for each in (schema, *used.values()):
        each.pop("title", None)
        each.pop("description", None)
    return schema


def plain(answer: Any) -> Mapping[str, Any]:
    """Return an answer as plain values for JSON."""
    found: Mapping[str, Any] = msgspec.to_builtins(answer)
    return found
