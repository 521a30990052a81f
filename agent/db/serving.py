"""Which signature's vectors a search looks at, and letting go of those that nobody looks at any more.

While another embedding model is being brought in, its vectors are built beside the old ones. The old signature serves
every search until the new one covers all that it covers; then one row changes, and the old vectors are removed batch
by batch. (openhuman 1574: changing the embedding model blinded recall.)

``embedded_signature`` of a node is the newest signature it was embedded at, or one of the marks below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.db.state import get_state, set_state

if TYPE_CHECKING:
    from agent.db.connection import Connection

NEEDS_NO_VECTOR = -1
"""A dropped chunk."""
PRIVATE = -2
"""A node of a private source while a cloud's model embeds: it is never sent there, and words alone find it."""

SERVING_KEY = "serving_signature"


def serving_signature(connection: Connection, wanted: str) -> str:
    """Return the signature that serves searches: ``wanted`` where nothing was ever embedded. Reads one row."""
    return get_state(connection, SERVING_KEY) or wanted


def set_serving_tx(connection: Connection, signature: str) -> None:
    """Let a signature serve from now on, inside the caller's transaction."""
    set_state(connection, SERVING_KEY, signature)


def signature_number(connection: Connection, signature: str) -> int | None:
    """Return the number of a signature; ``None`` where no vector was ever stored under it."""
    found: int | None = connection.value(
        "SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (signature,)
    )
    return found


def number_signature_tx(connection: Connection, signature: str) -> int:
    """Return the number of a signature, given one if it had none, inside the caller's transaction."""
    connection.run("INSERT INTO mem_tree_signatures (signature) VALUES (?) ON CONFLICT DO NOTHING", (signature,))
    return int(connection.value("SELECT signature_id FROM mem_tree_signatures WHERE signature = ?", (signature,)))


# Signatures are few; the primary key of the vectors begins with them.
_SPARE = """
SELECT s.signature_id
  FROM mem_tree_signatures AS s
 WHERE s.signature NOT IN (?1, ?2)
   AND EXISTS (SELECT 1 FROM mem_tree_vectors AS v WHERE v.signature_id = s.signature_id)
"""
_REMOVE = """
DELETE FROM mem_tree_vectors
 WHERE signature_id = ?1
   AND node IN (SELECT node FROM mem_tree_vectors WHERE signature_id = ?1 ORDER BY node LIMIT ?2)
"""


def has_spare_vectors(connection: Connection, wanted: str) -> bool:
    """Return whether there are vectors that neither serve nor are wanted. A seek for each signature ever used."""
    return connection.value(_SPARE, (wanted, serving_signature(connection, wanted))) is not None


def remove_spare_tx(connection: Connection, wanted: str, most: int) -> bool:
    """Remove up to ``most`` nodes' vectors that neither serve nor are wanted, inside the caller's transaction.

    Returns whether there are more.
    """
    serving = serving_signature(connection, wanted)
    left = most
    for (number,) in connection.all(_SPARE, (wanted, serving)):
        if left > 0:
            left -= connection.run(_REMOVE, (number, left))
    return has_spare_vectors(connection, wanted)


def count_refused(connection: Connection, signature: str) -> int:
    """Return how many nodes a model refused to embed: rows without windows, which a partial index lists."""
    return int(
        connection.value(
            """
            SELECT count(*)
              FROM mem_tree_vectors AS v
             WHERE v.windows = x''
               AND v.signature_id = (SELECT signature_id FROM mem_tree_signatures WHERE signature = ?)
            """,
            (signature,),
        )
    )


def count_private(connection: Connection) -> int:
    """Return how many nodes have no vector because a cloud's model may not see them. Counts along an index."""
    return int(
        connection.value(
            """
            SELECT (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature = ?1)
                   + (SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature = ?1)
            """,
            (PRIVATE,),
        )
    )


@dataclass(frozen=True)
class EmbeddingProgress:
    """How far the wanted signature is. ``embedded`` of ``nodes`` have their vectors there, or need none by now
    (``refused`` by the model, ``private``). ``stuck_since_ms``: its row was put off and has not moved for a day.
    """

    signature: str
    serving: str
    nodes: int
    embedded: int
    refused: int
    private: int
    stuck_since_ms: int | None = None
    reason: str | None = None

    @property
    def percent(self) -> int:
        """How much of the nodes is covered; 100 only where all are."""
        covered = self.embedded + self.private
        return 100 if covered >= self.nodes else 100 * covered // self.nodes

    @property
    def is_switching(self) -> bool:
        """Whether searches are still served by another signature."""
        return self.serving != self.signature

    def as_json(self) -> dict[str, Any]:
        """Return it for scripts, times as ISO 8601."""
        found = {key: value for key, value in self.__dict__.items() if key != "stuck_since_ms"}
        return {**found, "percent": self.percent, "stuck_since": iso(self.stuck_since_ms)}

    @property
    def words(self) -> str | None:
        """What its owner is to know, or ``None`` where all is as usual."""
        parts: list[str] = []
        covered = self.embedded + self.private
        if self.is_switching:
            parts.append(f"{covered:,} of {self.nodes:,} for the new model ({self.percent} %); the old one serves")
        if self.refused:
            parts.append(f"{self.refused:,} {'text' if self.refused == 1 else 'texts'} refused by the model")
        if self.private:
            parts.append(f"{self.private:,} private, found by words alone")
        if self.stuck_since_ms is not None:
            why = f": {self.reason}" if self.reason else ""
            parts.append(f"has not moved since {iso(self.stuck_since_ms)}{why}")
        return "; ".join(parts) or None


STUCK_MS = 24 * 3_600_000


def stuck_backfill(connection: Connection, now_ms: int) -> tuple[int, str | None] | None:
    """Return since when (UTC ms) a back-fill that was put off has not moved, and why; ``None`` where none is stuck."""
    row = connection.one(
        """
        SELECT coalesce(progress_at_ms, created_at_ms) AS moved_ms, last_error
          FROM mem_tree_jobs
         WHERE kind = 'reembed_backfill'
           AND phase = 2
           AND coalesce(progress_at_ms, created_at_ms) < ?
         ORDER BY moved_ms
         LIMIT 1
        """,
        (now_ms - STUCK_MS,),
    )
    return None if row is None else (row[0], row[1])


def embedding_progress(connection: Connection, wanted: str, now_ms: int) -> EmbeddingProgress:
    """Return how far the embedding of all nodes is. Counts along indexes; writes nothing.

    Where the wanted signature is not known (``""``: the profile does not say enough) it is that of the serving one.
    """
    wanted = wanted or serving_signature(connection, "")
    chunks, summaries, embedded, private_chunks = connection.all(
        """
        SELECT (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature IS NULL)
               + (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature > 0),
               (SELECT count(*) FROM mem_tree_summaries),
               (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature = ?1)
               + (SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature = ?1),
               (SELECT count(*) FROM mem_tree_chunks WHERE embedded_signature = ?2)
        """,
        (signature_number(connection, wanted), PRIVATE),
    )[0]
    since_ms, reason = stuck_backfill(connection, now_ms) or (None, None)
    return EmbeddingProgress(
        signature=wanted,
        serving=serving_signature(connection, wanted),
        nodes=chunks + summaries + private_chunks,
        embedded=embedded,
        refused=count_refused(connection, wanted),
        private=count_private(connection),
        stuck_since_ms=since_ms,
        reason=reason,
    )
