"""Validated answers of models, one row per unit of work, so that a crash never pays for a call twice.

A unit is named by its task, the template that asked, the signature that answered and the hash of its masked input
(design, the queue's point 3); a call that packs several chunks stores one row for each. Only answers that were
validated are stored. ``mem_tree_result_inputs`` names every node that went into an answer, so that forgetting any of
them finds it (``agent/db/nodes.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ids import content_hash
from agent.models.calling import TRY_COUNTS_MS

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
        _key(unit),
    )
    return found


def store_result_tx(
    connection: Connection, unit: WorkUnit, result: str, now_ms: int, node_ids: Iterable[str] = ()
) -> bool:
    """Store a validated answer inside the caller's transaction, which must wait for the disk (``full=True``).

    ``node_ids`` are all nodes that it was made from; the unit's own is always one of them. Nothing is stored where any
    of them no longer exists: what was forgotten meanwhile must not come back by this way. Storing twice keeps the first
    answer. Returns whether an answer is held afterwards.
    """
    nodes = {unit.node_id, *node_ids}
    if all(_exists(connection, node_id) for node_id in nodes):
        connection.run(
            """
            INSERT INTO mem_tree_results (task, template_hash, signature, input_hash, node_id, result, created_at_ms)
            VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT DO NOTHING
            """,
            (unit.task, unit.template_hash, unit.signature, unit.input_hash, unit.node_id, result, now_ms),
        )
        connection.many(
            "INSERT INTO mem_tree_result_inputs (node_id, input_hash) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(node_id, unit.input_hash) for node_id in sorted(nodes)],
        )
    return find_result(connection, unit) is not None


def _exists(connection: Connection, node_id: str) -> bool:
    return bool(
        connection.value(
            """
            SELECT EXISTS (SELECT 1 FROM mem_tree_chunks WHERE chunk_id = ?1)
                OR EXISTS (SELECT 1 FROM mem_tree_summaries WHERE summary_id = ?1)
            """,
            (node_id,),
        )
    )


def store_results(connection: Connection, answers: Iterable[tuple[WorkUnit, str]], now_ms: int) -> int:
    """Store validated answers in one transaction that waits for the disk; return how many are held after it.

    Call it as soon as the model has answered, before anything that may fail: the answer is paid for.
    """
    with connection.write(full=True):
        return sum(store_result_tx(connection, unit, result, now_ms) for unit, result in answers)


# -- answers in vain --------------------------------------------------------------------------------------------------


def find_tries(connection: Connection, unit: WorkUnit, now_ms: int) -> tuple[int, str]:
    """Return how often a unit was answered in vain and which rule the last answer broke, as far as that counts."""
    row = connection.one(
        """
        SELECT tries, problem, at_ms
          FROM mem_tree_attempts
         WHERE task = ?
           AND template_hash = ?
           AND signature = ?
           AND input_hash = ?
        """,
        _key(unit),
    )
    return (0, "") if row is None or _is_old(row[2], now_ms) else (int(row[0]), str(row[1]))


def count_try_tx(connection: Connection, unit: WorkUnit, problem: str, now_ms: int) -> None:
    """Count an answer in vain inside the caller's transaction; one that no longer counts is begun anew."""
    connection.run(
        """
        INSERT INTO mem_tree_attempts (task, template_hash, signature, input_hash, tries, problem, at_ms)
        VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6)
            ON CONFLICT (task, template_hash, signature, input_hash) DO UPDATE
           SET tries = CASE WHEN at_ms BETWEEN ?7 AND ?6 THEN tries + 1 ELSE 1 END,
               problem = excluded.problem,
               at_ms = excluded.at_ms
        """,
        (*_key(unit), problem, now_ms, now_ms - TRY_COUNTS_MS),
    )


def forget_tries_tx(connection: Connection, unit: WorkUnit) -> None:
    """Forget that a unit was answered in vain, inside the caller's transaction: it has its answer."""
    connection.run(
        """
        DELETE FROM mem_tree_attempts
         WHERE task = ?
           AND template_hash = ?
           AND signature = ?
           AND input_hash = ?
        """,
        _key(unit),
    )


def prune_tries(connection: Connection, now_ms: int) -> int:
    """Delete what no longer counts, in a transaction of its own, and return how many; writes nothing where none is."""
    old = (now_ms - TRY_COUNTS_MS,)
    if connection.value("SELECT 1 FROM mem_tree_attempts WHERE at_ms < ? LIMIT 1", old) is None:
        return 0
    with connection.write():
        return connection.run("DELETE FROM mem_tree_attempts WHERE at_ms < ?", old)


def _key(unit: WorkUnit) -> tuple[str, str, str, str]:
    return (unit.task, unit.template_hash, unit.signature, unit.input_hash)


def _is_old(at_ms: int, now_ms: int) -> bool:
    # One of the future was written before the clock was set back.
    return not now_ms - TRY_COUNTS_MS <= at_ms <= now_ms
