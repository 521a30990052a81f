"""A memory that was emptied grows again from the same files: nothing remembers that they were read already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.actions.forgetting import remove
from agent.actions.home import Home, open_home
from agent.actions.sources import add
from agent.paths import Paths
from agent.queue.run import LocalContext
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault
from tests.promises.conftest import Grower

Ids = set[tuple[str, str]]


def _grow(paths: Paths, sources: dict[str, list[Path]], *, wipe: Callable[[Home], None] | None = None) -> Ids:
    """Name the sources, grow them and return the ids of all that is held; ``wipe`` comes last."""
    with open_home(paths) as home:
        named = {source.id for source in home.intent.sources}
        for name, files in sources.items():
            if name not in named:
                add(home, [str(file) for file in files], name=name)
    with open_home(paths) as home:
        Grower(LocalContext(home.connection, home.clock, home.intent, paths)).grow()
        held = _ids(home)
        if wipe is not None:
            wipe(home)
    return held


def _ids(home: Home) -> Ids:
    rows = home.connection.all(
        """
        SELECT 'chunk', chunk_id FROM mem_tree_chunks
        UNION ALL SELECT 'summary', summary_id FROM mem_tree_summaries
        UNION ALL SELECT 'root', root_id FROM mem_tree_trees WHERE root_id IS NOT NULL
        """
    )
    return {(kind, name) for kind, name in rows}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, list[Path]]:
    write_vault(tmp_path / "vault", 15)
    return {"vault": [tmp_path / "vault"], "mail": write_exports(tmp_path / "mail", 15)}


def test_a_removed_source_that_is_added_again_is_read_again(paths: Paths, sources: dict[str, list[Path]]) -> None:
    left: list[Ids] = []

    def wipe(home: Home) -> None:
        for name in sources:
            remove(home, name)
        left.append(_ids(home))

    before = _grow(paths, sources, wipe=wipe)
    assert len(before) > 40
    assert left == [set()]
    assert _grow(paths, sources) == before


def test_a_memory_file_that_was_deleted_grows_again_with_the_same_ids(
    paths: Paths, sources: dict[str, list[Path]]
) -> None:
    before = _grow(paths, sources)
    for file in paths.data_dir.glob("chunks.db*"):
        file.unlink()
    assert _grow(paths, sources) == before
