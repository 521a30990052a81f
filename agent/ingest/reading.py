"""By which version of the readers an item was read.

The canonical form, the cutting and the masking are code: when they change, what is held was made by the old ones. The
next look at a source then has its items read again; chunks that come out as they were stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.states import ItemState

if TYPE_CHECKING:
    from agent.db import Connection

READING_VERSION = 3
"""Raise it with every change of the canonical form, of the cutting or of what is masked."""


def read_again_tx(connection: Connection, source_id: str) -> int:
    """Let a source's items be read again if older readers read them; return how many. In the caller's transaction.

    Files that could not be read are looked at again too: the new readers may know how.
    """
    held = connection.value("SELECT reading_version FROM mem_tree_sources WHERE source_id = ?", (source_id,))
    if held is None or held >= READING_VERSION:
        return 0
    connection.run("UPDATE mem_tree_sources SET reading_version = ? WHERE source_id = ?", (READING_VERSION, source_id))
    connection.run(
        "UPDATE mem_tree_files SET size = -1, file_hash = NULL WHERE source_id = ? AND state = 'unreadable'",
        (source_id,),
    )
    return connection.run(
        """
        UPDATE mem_tree_items
           SET state = ?
         WHERE source_id = ? AND state = ? AND seen_hash IS NOT NULL
        """,
        (str(ItemState.FOUND), source_id, str(ItemState.CURRENT)),
    )
