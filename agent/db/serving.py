"""Which signature's vectors a search looks at, and letting go of those that nobody looks at any more.

While another embedding model is being brought in, its vectors are built beside the old ones. The old signature serves
every search until the new one covers all that it covers; then one row changes, and the old vectors are removed batch
by batch. (openhuman 1574: changing the embedding model blinded recall.)

``embedded_signature`` of a node is the newest signature it was embedded at, or one of the marks below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
