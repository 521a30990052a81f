"""A source that shrinks by much at once: held back, and asked about.

An unmounted disk, a renamed folder, a mailbox that a program emptied by mistake look the same as an owner who tidied
up. So nothing is concluded until the owner has answered; the answer stands in the ledger, under the question's id. It
is about this one loss: as long as that lasts it is not asked about again, but the same disk missing on another day is
another question.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.state import get_state, set_state
from agent.ids import content_id, random_id

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.ledger import Ledger
    from agent.states import Answer

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

    def question_id(self, source_id: str, occasion: str) -> str:
        """Return the identity of the question about this loss on one occasion."""
        return content_id("question", source_id, occasion, *sorted(self.keys))


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


def answer_to(connection: Connection, ledger: Ledger, source_id: str, loss: Loss) -> Answer | None:
    """Return what the owner answered about this loss since it began, or ``None``."""
    occasion = get_state(connection, _occasion_key(source_id))
    return None if occasion is None else ledger.answers.get(loss.question_id(source_id, occasion))


def ask_tx(connection: Connection, source_id: str, loss: Loss, now_ms: int) -> None:
    """Write a question down, inside the caller's transaction. The same one again keeps the time it was asked at."""
    asked = connection.value("SELECT question_id FROM mem_tree_questions WHERE source_id = ?", (source_id,))
    occasion = get_state(connection, _occasion_key(source_id))
    if occasion is not None and asked == loss.question_id(source_id, occasion):
        return
    occasion = random_id()
    set_state(connection, _occasion_key(source_id), occasion)
    connection.run(
        """
        INSERT INTO mem_tree_questions (source_id, question_id, gone, held, examples, asked_at_ms)
        VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (source_id) DO UPDATE
           SET question_id = excluded.question_id, gone = excluded.gone, held = excluded.held,
               examples = excluded.examples, asked_at_ms = excluded.asked_at_ms
        """,
        (
            source_id,
            loss.question_id(source_id, occasion),
            len(loss.keys),
            loss.held,
            json.dumps(_some(loss.keys), ensure_ascii=False),
            now_ms,
        ),
    )


def _some(keys: Collection[str]) -> list[str]:
    return sorted(keys)[:_EXAMPLES]


def drop_question_tx(connection: Connection, source_id: str) -> None:
    """Take a question back, inside the caller's transaction: what was missing is there again, or has left.

    Its answer says nothing any more.
    """
    connection.run("DELETE FROM mem_tree_questions WHERE source_id = ?", (source_id,))
    if get_state(connection, _occasion_key(source_id)) is not None:
        set_state(connection, _occasion_key(source_id), None)


def _occasion_key(source_id: str) -> str:
    return f"asked:{source_id}"


def open_questions(connection: Connection) -> dict[str, Question]:
    """Return the questions that were asked, by source.

    One that was answered stays: until the next look where the loss was accepted, as long as it lasts where not.
    """
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
