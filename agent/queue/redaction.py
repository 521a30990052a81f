"""What a failed job may say about itself: ``last_error`` is shown, logged and put into bug reports.

It holds the chain of causes without secrets, addresses, home folders and the queries of URLs, and without long
quotations, which are how content gets into the messages of foreign exceptions.
"""

from __future__ import annotations

import os
import re

from agent.db import faults
from agent.errors import JobFailure, SapwoodError
from agent.redact import redact

MAX_ERROR_CHARS = 500
MAX_QUOTED_CHARS = 60
_MAX_CAUSES = 8
# What a regular expression has to look at is bounded too: a provider may put a whole page into its error.
_MAX_RAW_CHARS = 8_000

_QUOTED = re.compile(rf"""(["'])(?:(?!\1)[^\n]){{{MAX_QUOTED_CHARS + 1},}}\1""")
_SPACE = re.compile(r"\s+")


def redact_error(message: str) -> str:
    """Return a message fit for ``last_error``: masked, one line, at most 500 characters."""
    text = redact(message[:_MAX_RAW_CHARS], home=os.path.expanduser("~"))
    text = _SPACE.sub(" ", _QUOTED.sub(r"\1…\1", text)).strip()
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"


def describe_error(error: BaseException) -> tuple[str, JobFailure | None]:
    """Return the full chain of causes in words, and the typed failure in it, if there is one.

    A fault of the database or the disk inside a handler is typed as transient by its class.
    """
    parts: list[str] = []
    typed: JobFailure | None = None
    seen: BaseException | None = error
    while seen is not None and len(parts) < _MAX_CAUSES:
        if typed is None and isinstance(seen, JobFailure):
            typed = seen
        words = str(seen)
        parts.append(words if isinstance(seen, SapwoodError) else f"{type(seen).__name__}: {words}".rstrip(": "))
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    if typed is None and faults.is_database_fault(error):
        typed = JobFailure.transient(f"database_{faults.classify(error)}")
    return ": ".join(parts), typed
