"""What the owner said: the settings, the sources they name, and the ledger of what was forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.actions.checks.result import Check
from agent.config import load_intent
from agent.errors import ConfigBroken
from agent.ledger import read_ledger

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.paths import Paths


def look_at_config(paths: Paths) -> Iterator[Check]:
    """Yield whether the settings can be read, and whether each source is where they say."""
    try:
        loaded = load_intent(paths)
    except ConfigBroken as error:
        yield Check("config", False, error.detail, error.hint)
        return
    if loaded.problem is not None:
        yield Check(
            "config",
            False,
            f"{loaded.problem}; the last good copy is in use",
            f"mend {paths.config_file}, or copy {paths.last_good_config} over it",
        )
    else:
        yield Check("config", True, str(paths.config_file) if paths.config_file.exists() else "not written yet")
    yield from _sources(loaded.intent)


def _sources(intent: Intent) -> Iterator[Check]:
    for source in intent.sources:
        missing = [path for path in source.paths if not Path(path).exists()]
        yield Check(
            f"source {source.id}",
            not missing,
            f"not there: {', '.join(missing)}" if missing else ", ".join(source.paths),
            "plug the disk in or put the folder back; nothing is forgotten meanwhile",
        )


def look_at_ledger(paths: Paths) -> Iterator[Check]:
    """Yield whether the ledger can be read whole: what it does not say any more would come back."""
    try:
        found = read_ledger(paths)
    except OSError as error:
        yield Check(
            "ledger",
            False,
            f"{paths.ledger}: {error.strerror or error}",
            f"make {paths.ledger} yours and readable: nothing is read while it is not, lest what was forgotten return",
        )
        return
    if not os.path.exists(paths.ledger):
        yield Check("ledger", True, "none yet: nothing was ever forgotten")
        return
    said = f"{len(found.items)} items and {len(found.pieces)} pieces forgotten, {len(found.answers)} answers"
    if found.broken:
        yield Check(
            "ledger",
            False,
            f"{found.broken} lines cannot be read; the others say: {said}",
            f"put {paths.ledger} back from your backup, or forget again what came back",
        )
    elif found.forgets_anything and not found.salt:  # an answer needs none
        yield Check(
            "ledger",
            False,
            "its first line is lost: none of its hashes can be told any more",
            f"put {paths.ledger} back from your backup",
        )
    else:
        yield Check("ledger", True, said)
