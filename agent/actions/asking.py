"""Which sources wait for an answer of their owner, said wherever one would take everything for grown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths


def asked_about(connection: Connection, paths: Paths, intent: Intent) -> tuple[str, ...]:
    """Return the ids of the sources that shrank, were held back, and that no answer was given about yet.

    Raises ``OSError`` where the ledger cannot be read.
    """
    from agent.ingest.holdback import open_questions

    found = open_questions(connection)
    if not found:
        return ()
    from agent.ledger import read_ledger

    answered = read_ledger(paths).answers
    return tuple(
        source.id for source in intent.sources if source.id in found and found[source.id].question_id not in answered
    )


def asked_words(source_ids: Sequence[str]) -> str:
    """Return what an owner is told of them."""
    return f"much of {', '.join(source_ids)} is gone and kept until you say: see `sapwood sources`"
