"""Validated answers of models, one row per unit of work, so that a crash never pays for a call twice.

A unit is named by its task, the template that asked, the signature that answered and the hash of its masked input
(design, the queue's point 3); a call that packs several chunks stores one row for each. Only answers that were
validated are stored. A row carries the node its input came from, so that forgetting that node finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ids import content_hash

if TYPE_CHECKING:
    from agent.db import Connection


@dataclass(frozen=True)
class WorkUnit:
    """One answer's question: ``input_hash`` is of the masked input as sent, ``node_id`` of where it came from."""

    task: str
    template_hash: str
    signature: str
    input_hash: str
    node_id: str

    @classmethod
    def of(cls, task: str, template: str, signature: str, masked_input: str, node_id: str) -> WorkUnit:
        """Return the unit of a template and an input, both as text."""
        return cls(task, content_hash(template), signature, content_hash(masked_input), node_id)


def find_result(connection: Connection, unit: WorkUnit) -> str | None:
    """Return the stored answer, or ``None``. Another node with the same input shares it."""
    found: str | None = connection.value(
        """
        SELECT result
          FROM mem_tree_results
         WHERE task = ?
           AND template_hash = ?
           AND signature = ?
           AND input_hash = ?
        """,
        (unit.task, unit.template_hash, unit.signature, unit.input_hash),
    )
    return found


def store_result_tx(connection: Connection, unit: WorkUnit, result: str, now_ms: int) -> bool:
    """Store a validated answer inside the caller's transaction, which must wait for the disk (``full=True``).

    Nothing is stored where the unit's node no longer exists: what was forgotten meanwhile must not come back by this
    way. Storing twice keeps the first answer. Returns whether an answer is held afterwards.
    """
    connection.run(
        """
        INSERT INTO mem_tree_results (task, template_hash, signature, input_hash, node_id, result, created_at_ms)
        SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE EXISTS (SELECT 1 FROM mem_tree_chunks WHERE chunk_id = ?5)
            OR EXISTS (SELECT 1 FROM mem_tree_summaries WHERE summary_id = ?5)
            ON CONFLICT DO NOTHING
        """,
        (unit.task, unit.template_hash, unit.signature, unit.input_hash, unit.node_id, result, now_ms),
    )
    return find_result(connection, unit) is not None


def store_results(connection: Connection, answers: Iterable[tuple[WorkUnit, str]], now_ms: int) -> int:
    """Store validated answers in one transaction that waits for the disk; return how many are held after it.

    Call it as soon as the model has answered, before anything that may fail: the answer is paid for.
    """
    with connection.write(full=True):
        return sum(store_result_tx(connection, unit, result, now_ms) for unit, result in answers)
