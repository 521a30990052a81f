"""Makes ``fixtures/schema-N.db.xz`` of this checkout's schema: ``python -m tests.db.make_fixture``."""

from __future__ import annotations

import lzma
import shutil
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from agent.actions.home import open_home
from agent.actions.running import run_agent
from agent.actions.sources import add
from agent.db.schema import SCHEMA_VERSION
from agent.paths import paths_under
from tests.db.earlier import FIXTURES, GROWN, WAITING


def main() -> int:
    target = FIXTURES / f"schema-{SCHEMA_VERSION}.db.xz"
    if target.exists():
        print(f"{target} is there already: it is never made again", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        with as_file(files("agent.actions").joinpath("samples")) as samples:
            sources = Path(shutil.copytree(samples, Path(folder, "samples")))
        paths = paths_under(Path(folder, "home"))
        for name in GROWN:
            with open_home(paths) as home:
                add(home, [str(sources / name)])
        if run_agent(paths, once=True).exit_code:
            return 1
        with open_home(paths) as home:
            add(home, [str(sources / WAITING)])
            home.connection.run("PRAGMA wal_checkpoint(TRUNCATE)")
        # Every connection of this process is closed by now.
        target.write_bytes(lzma.compress(paths.database.read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
