"""A memory of an earlier schema, whose owner starts this version, grows on to what a new memory would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.paths import paths_under
from tests.cli.agents import SOURCES, ids_of, name_sources, run
from tests.db.earlier import GROWN, earlier_schemas, unpack


@pytest.mark.parametrize("schema", earlier_schemas())
def test_it_grows_on_to_the_same_trees(schema: int, tmp_path: Path, grown_home: Path) -> None:
    paths = paths_under(tmp_path / "earlier").make()
    name_sources(paths, grown_home.parent / "samples")
    for name in (paths.database, *paths.data_dir.glob("chunks.db-*")):
        name.unlink(missing_ok=True)
    unpack(schema, paths.database)
    held = {row[0] for row in ids_of(paths.database)["chunks"]}
    sources = {row[1] for row in ids_of(paths.database)["chunks"]}
    assert sources == set(GROWN) < {name.partition(".")[0] for name, _ in SOURCES}

    ran = run(paths, "run", "--once")
    assert ran.returncode == 0, ran.stderr
    wanted = ids_of(paths_under(grown_home).database)
    assert ids_of(paths.database) == wanted
    assert held <= {row[0] for row in wanted["chunks"]}
