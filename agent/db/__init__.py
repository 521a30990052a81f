"""``chunks.db``: connections, schema and migrations, error classes, the text index."""

from agent.db.connection import Connection, Database, connect

__all__ = ["Connection", "Database", "connect"]
