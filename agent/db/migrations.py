"""Bringing a database to this build's schema.

The whole run is one ``BEGIN IMMEDIATE`` transaction gated on ``user_version``, so that two processes starting
together both find it done (the k-mood record: with two transactions the loser died on ``UNIQUE constraint failed``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.db.schema import APPLICATION_ID, MIGRATIONS
from agent.errors import DatabaseRefused

if TYPE_CHECKING:
    from agent.db.connection import Connection


def migrate(connection: Connection, path: Path, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Apply what is missing and return how many steps were taken.

    Raises ``DatabaseRefused``, the file untouched, where its schema is newer than this build or it is not ours.
    Blocks up to the busy timeout while another process migrates.
    """
    target = len(migrations)
    if _version(connection, path, target) == target:
        return 0
    with connection.write(full=True, turn=False):
        # Read again under the write lock: the other process may have done it while this one waited.
        version = _version(connection, path, target)
        for step in migrations[version:]:
            connection.raw.execute(step).fetchall()
        if version == 0:
            connection.run(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.run(f"PRAGMA user_version = {target}")
    return target - version


def _version(connection: Connection, path: Path, target: int) -> int:
    version = int(connection.value("PRAGMA user_version"))
    if version > target:
        raise DatabaseRefused(
            "this memory was written by a newer Sapwood",
            f"{path} has schema {version}, this build knows {target}",
            "update Sapwood, or point SAPWOOD_HOME at another folder; nothing was changed",
        )
    if version == 0 and connection.value("SELECT count(*) FROM sqlite_schema"):
        raise DatabaseRefused(
            "this file is not a Sapwood memory",
            str(path),
            "move it away, or point SAPWOOD_HOME at another folder; nothing was changed",
        )
    return version
