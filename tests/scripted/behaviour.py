"""What the server does with a call, as data: it can be named on a command line and sent to a server that runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Behaviour:
    """One way to treat a call. Times in seconds.

    ``trouble`` names an error that each protocol words in its own way (``protocols.trouble_of``); ``answer`` names what
    is answered where there is none (``answers.ANSWERS``); ``shape`` another body than the protocol's. ``cut_after``:
    the connection ends after so many parts of the answer; ``short``: the body is shorter than its length says.
    """

    name: str = "ok"
    answer: str = "good"
    finish: str = "stop"
    first_byte_s: float = 0.0
    between_s: float = 0.0
    silent: bool = False
    held: bool = False
    reset: bool = False
    short: bool = False
    cut_after: int | None = None
    trouble: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    shape: str = ""
    context_limit: int | None = None
    counts: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


BEHAVIOURS: dict[str, Behaviour] = {
    each.name: each
    for each in (
        Behaviour(),
        Behaviour("slow", first_byte_s=0.5, between_s=0.1),
        Behaviour("slow_start", first_byte_s=30.0),
        Behaviour("slow_stream", between_s=30.0),
        Behaviour("silent", silent=True),
        Behaviour("held", held=True),
        Behaviour("reset", reset=True),
        Behaviour("malformed", shape="malformed"),
        Behaviour("truncated", short=True),
        Behaviour("cut", cut_after=2),
        Behaviour("length", answer="half", finish="length"),
        Behaviour("rate_limited", trouble="rate_limited", headers={"Retry-After": "7"}),
        Behaviour("payment", trouble="payment"),
        Behaviour("unauthorised", trouble="unauthorised"),
        Behaviour("forbidden", trouble="forbidden"),
        Behaviour("no_model", trouble="no_model"),
        Behaviour("error_500", trouble="error_500"),
        Behaviour("unavailable", trouble="unavailable"),
        Behaviour("overloaded", trouble="overloaded"),
        Behaviour("out_of_memory", trouble="out_of_memory"),
        Behaviour("too_long_input", trouble="too_long_input"),
        Behaviour("small_context", context_limit=400),
        Behaviour("list", shape="list"),
        Behaviour("missing", shape="missing"),
        Behaviour("page", shape="page"),
        Behaviour("null", shape="null"),
        Behaviour("uncounted", counts=False),
        Behaviour("think", answer="think"),
        Behaviour("unopened_think", answer="unopened_think"),
        Behaviour("fenced", answer="fenced"),
        Behaviour("empty", answer="empty"),
        Behaviour("prose", answer="prose"),
        Behaviour("invented", answer="invented"),
        Behaviour("importance", answer="importance"),
        Behaviour("too_long", answer="too_long"),
        Behaviour("wrong_keys", answer="wrong_keys"),
        Behaviour("obedient", answer="obedient"),
    )
}


def behave(name: str, **changes: Any) -> Behaviour:
    """Return a named behaviour with some of its fields changed."""
    return replace(BEHAVIOURS[name], **changes)
