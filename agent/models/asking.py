"""What both tasks do around a call: how much of a prompt is left for content, and what an answer in vain leads to.

A unit whose answer was of no use is asked about once more, in the follow-up run and under a permit of its own, and is
told which rule it broke; after the second answer in vain the built-in model stands in. Each way out of here has stored
something first (an answer, or a try), so that no job is put off for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import JobFailure, Postponed

if TYPE_CHECKING:
    from agent.models.calling import ModelCalls
    from agent.models.results import WorkUnit

MOST_TRIES = 2
CONTEXT_OVERFLOW = "context_overflow"
BAD_OUTPUT = "bad_output"
WRONG_SHAPE = "wrong_shape"
# Our count agrees with a model's own within some 20 % (agent/tokens.py); what is left over costs nothing.
_ESTIMATE_IS_SHORT = 1.25
LEAST_ROOM = 160  # tokens of content; below that a part would hardly be longer than its summary


def output_limit(calls: ModelCalls) -> int:
    """Return how many tokens an answer may have: the profile's limit, but at most a quarter of the context."""
    return max(64, min(calls.profile.max_output_tokens, calls.context_tokens() // 4))


def room_for_content(calls: ModelCalls, prompt: int) -> int:
    """Return how many tokens of content go into one call beside ``prompt`` tokens of ours and the answer."""
    return int((calls.context_tokens() - output_limit(calls)) / _ESTIMATE_IS_SHORT) - prompt


def too_small(calls: ModelCalls, *, refused: bool = False) -> JobFailure:
    """Return the failure of a model whose context does not hold a prompt; ``refused``: its server said so itself."""
    profile = calls.profile
    found = f"{calls.context_tokens()} tokens do not hold the question and an answer"
    if refused:
        found = f"its server refused small parts too, though it should take {calls.context_tokens()} tokens"
    return JobFailure.unrecoverable(
        CONTEXT_OVERFLOW,
        title=f"the context of {profile.chat_model} is too small",
        detail=f"profile '{profile.name}': {found}",
        hint=f"`sapwood config set profiles.{profile.name}.context_tokens N`, or another model",
    )


def once_more(calls: ModelCalls, reason: str) -> Postponed:
    """Return what puts the job off to its follow-up run, which comes at once."""
    return Postponed(calls.now_ms(), reason)


def is_kept(calls: ModelCalls, unit: WorkUnit) -> None:
    """Raise where an answer was handed in and is not held: without it the next run would ask the same again."""
    if calls.find(unit) is None:
        raise JobFailure.transient(
            "result_not_kept", title="a model's answer was not stored", detail="what it was about is gone by now"
        )
