import multiprocessing
from pathlib import Path

import pytest

from agent.db import connect
from agent.db.migrations import migrate
from agent.db.schema import MIGRATIONS, SCHEMA_VERSION
from agent.errors import DatabaseRefused
from agent.paths import Paths

SEED_TABLES = {
    "mem_tree_chunks": {"chunk_id", "body_hash", "lifecycle"},
    "mem_tree_score": {"chunk_seq", "fast", "deep"},
    "mem_tree_entity_index": {"entity", "chunk_seq"},
    "mem_tree_jobs": {
        *("id", "kind", "payload_json", "dedupe_key", "status", "attempts", "max_attempts", "available_at_ms"),
        *("locked_until_ms", "last_error", "failure_reason", "failure_class"),
        *("created_at_ms", "started_at_ms", "completed_at_ms"),
        *("locked_by", "lease_token", "crashes", "rerun"),
    },
    "mem_tree_trees": {"tree_id", "kind"},
    "mem_tree_buffers": {"level", "node_id", "tokens", "sort_key", "added_at_ms"},
    "mem_tree_summaries": {"summary_id", "shape_id", "level", "signature"},
}


@pytest.mark.parametrize("table", sorted(SEED_TABLES))
def test_tables_keep_the_names_and_columns_of_the_seeds(connection, table: str) -> None:
    columns = {row[1] for row in connection.all(f"PRAGMA table_info({table})")}
    assert columns >= SEED_TABLES[table]


def test_a_second_open_changes_nothing(connection, paths: Paths) -> None:
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION
    assert migrate(connection, paths.database) == 0


def test_a_newer_schema_is_refused_and_left_untouched(connection, paths: Paths) -> None:
    connection.run(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(DatabaseRefused) as caught:
        connect(paths.database)
    assert "newer" in caught.value.title
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION + 1


def test_someone_elses_database_is_refused(tmp_path: Path) -> None:
    import apsw

    path = tmp_path / "photos.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE photos (id)").fetchall()
    other.close()
    with pytest.raises(DatabaseRefused):
        connect(path)


def test_a_migration_that_fails_leaves_the_version_before_it(connection, paths: Paths) -> None:
    broken = (*MIGRATIONS, "CREATE TABLE half (id); CREATE TABLE mem_tree_jobs (id)")
    with pytest.raises(Exception, match="already exists"):
        migrate(connection, paths.database, broken)
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION
    assert connection.value("SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == 0


def _open(path: str, barrier, results) -> None:
    barrier.wait(30)
    try:
        connection = connect(Path(path))
        results.put(connection.value("PRAGMA user_version"))
        connection.close()
    except Exception as error:
        results.put(repr(error))


def test_processes_that_start_together_migrate_once(paths: Paths) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(4), spawn.Queue()
    processes = [spawn.Process(target=_open, args=(str(paths.database), barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [SCHEMA_VERSION] * 4
    for process in processes:
        process.join(30)
