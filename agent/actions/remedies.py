"""What helps against a failed job, by the code of its failure: the one table that jobs and doctor tell from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OTHERWISE = "see `sapwood jobs --status failed`; mend the cause, then `sapwood retry --all`"
_BY_ITSELF = "what had failed for that goes on by itself"
_CODES = {
    "crash_loop": "it ended its worker three times; remove or mend what it reads, then `sapwood retry ID`",
    "unknown_kind": "it was written by another version; `sapwood cancel ID` removes it from the list",
    "unreadable_row": "it was written by another version; `sapwood cancel ID` removes it from the list",
    "auth_failed": (
        f"`sapwood key status` says which key there is, `sapwood key set NAME` stores another; {_BY_ITSELF}"
    ),
    "budget_exhausted": (
        "top up the account's credit, or switch with `sapwood model use NAME`; `sapwood model test PROFILE` tries it; "
        f"{_BY_ITSELF}"
    ),
    "model_missing": (
        "give the server the model, or name another: `sapwood config set profiles.PROFILE.chat_model MODEL`; then "
        f"`sapwood model test PROFILE`; {_BY_ITSELF}"
    ),
    "context_overflow": (
        "say what the model really takes (`sapwood config set profiles.PROFILE.context_tokens N`), or use one that "
        "takes more; then `sapwood retry --all`"
    ),
    "bad_output": (
        "`sapwood model test PROFILE` says whether its answers are of use; a larger model gives better ones; then "
        "`sapwood retry --all`"
    ),
    "rate_limited": (
        "fewer calls at once (`sapwood config set profiles.PROFILE.max_concurrent 1`), or wait; it is tried again by "
        "itself"
    ),
    "unreachable": (
        "`sapwood model test PROFILE` says what is wrong with the server or the way to it; once it answers, "
        f"{_BY_ITSELF}"
    ),
    "low_memory": "close something large, or use a smaller model; it is tried again by itself",
    "daily_limit": (
        "raise it (`sapwood config set profiles.PROFILE.daily_tokens N`), or wait: it goes on by itself the next day"
    ),
    "keys_not_yet": "unlock the keyring of your login; `sapwood key status` says what it answers",
    "config_broken": "`sapwood config edit` mends it",
    "no_consent": "`sapwood model consent PROFILE` says what would be sent, and asks",
    "not_local": (
        "name the address itself as yours: `sapwood config set models.local_hosts ADDRESS`; then `sapwood retry --all`"
    ),
    "private_source": "`sapwood retry --all`; please report it if it comes again",
    "no_such_profile": "`sapwood model` shows which there are; then `sapwood retry --all`",
    "profile_incomplete": "`sapwood model` says what is wrong with it; then `sapwood retry --all`",
}


@dataclass(frozen=True)
class Remedy:
    """What ``count`` failed jobs have in common, and what helps. ``scope`` is the model profile, where it is one's."""

    code: str
    scope: str | None
    count: int
    words: str


def remedy_of(code: str, scope: str | None = None) -> str:
    """Return what helps against failures with this code; ``scope`` is the profile that it is about."""
    return _CODES.get(code, OTHERWISE).replace("PROFILE", scope or "NAME")


def remedies_of(jobs: Iterable[dict[str, Any]]) -> list[Remedy]:
    """Return what helps against the failed ones of these rows, each cause once, the most frequent first."""
    counts: dict[tuple[str, str | None], int] = {}
    for job in jobs:
        if job["status"] == "failed" and job["failure_reason"]:
            cause = (str(job["failure_reason"]), job["failure_scope"])
            counts[cause] = counts.get(cause, 0) + 1
    # To a listing of failed jobs "see the failed jobs" says nothing.
    found = [
        Remedy(code, scope, count, remedy_of(code, scope))
        for (code, scope), count in sorted(counts.items(), key=lambda each: -each[1])
        if code in _CODES
    ]
    if len(found) < len(counts):
        rest = sum(counts.values()) - sum(each.count for each in found)
        found.append(Remedy("", None, rest, "mend what `about` says, then `sapwood retry ID` or `sapwood retry --all`"))
    return found
