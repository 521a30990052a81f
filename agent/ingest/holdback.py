"""A source that shrinks by much at once: held back, and asked about.

An unmounted disk, a renamed folder, a mailbox that a program emptied by mistake look the same as an owner who tidied
up. So nothing is concluded until the owner has answered; the answer stands in the ledger, under a hash of what is no
longer there. The same loss is never asked about twice, another one is another question.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ids import content_id

if TYPE_CHECKING:
    from agent.db import Connection

MISSING_SHARE = 0.5
FEW = 3
"""Of so few, half may be gone without a disk having been unmounted."""
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Loss:
    """What a look misses. ``keys``: the items that lose something; ``gone``: how many of these go whole.

    ``everything``: nothing that was held is there, and nothing else either.
    """

    keys: tuple[str, ...] = ()
    gone: int = 0
    held: int = 0
    files_gone: int = 0
    files: int = 0
    everything: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it has to be asked about."""
        if not self.keys:
            return False
        return self.everything or _most(self.gone, self.held) or _most(self.files_gone, self.files)

    def question_id(self, source_id: str) -> str:
        """Return the identity of the question about this loss."""
        return content_id("question", source_id, *sorted(self.keys))


def _most(gone: int, held: int) -> bool:
    return gone > FEW and gone > MISSING_SHARE * held


@dataclass(frozen=True)
class Question:
    """An open question: so many items of so many that were held are no longer there, some of them by name."""

    question_id: str
    gone: int
    held: int
    examples: tuple[str, ...]
    asked_ms: int


def ask_tx(connection: Connection, source_id: str, loss: Loss, now_ms: int) -> None:
    """Write a question down, inside the caller's transaction. The same one again keeps the time it was asked at."""
    connection.run(
        """
        INSERT INTO mem_tree_questions (source_id, question_id, gone, held, examples, asked_at_ms)
        VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (source_id) DO UPDATE
           SET asked_at_ms = CASE WHEN question_id = excluded.question_id THEN asked_at_ms
                                  ELSE excluded.asked_at_ms END,
               question_id = excluded.question_id, gone = excluded.gone, held = excluded.held,
               examples = excluded.examples
        """,
        (
            source_id,
            loss.question_id(source_id),
            len(loss.keys),
            loss.held,
            json.dumps(_some(loss.keys), ensure_ascii=False),
            now_ms,
        ),
    )


def _some(keys: Collection[str]) -> list[str]:
    return sorted(keys)[:_EXAMPLES]


def drop_question_tx(connection: Connection, source_id: str) -> None:
    """Take a question back, inside the caller's transaction: it was answered, or there is nothing to ask any more."""
    connection.run("DELETE FROM mem_tree_questions WHERE source_id = ?", (source_id,))


def open_questions(connection: Connection) -> dict[str, Question]:
    """Return the questions that were asked, by source; one that was answered stays until the next look."""
    return {
        source_id: Question(question_id, gone, held, tuple(json.loads(examples)), asked_ms)
        for source_id, question_id, gone, held, examples, asked_ms in connection.all(
            """
            SELECT source_id, question_id, gone, held, examples, asked_at_ms
              FROM mem_tree_questions
             ORDER BY source_id
            """
        )
    }
