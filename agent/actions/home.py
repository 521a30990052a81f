"""One agent's home, opened for the length of an action: its folders, its owner's intent, its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import Intent, SourceIntent, load_intent
from agent.db import Connection, Database
from agent.errors import UsageFault
from agent.paths import Paths, find_paths

if TYPE_CHECKING:
    from agent.queue.types import NewJob

NOT_RUNNING = "the agent is not running; nothing is read until `sapwood run`"


@dataclass(frozen=True)
class Home:
    """What every action works on. ``config_problem`` says why the intent is the last good copy, where it is."""

    paths: Paths
    intent: Intent
    config_problem: str | None
    database: Database
    clock: Clock = field(default=SYSTEM_CLOCK)

    @property
    def connection(self) -> Connection:
        """The calling thread's connection to the memory."""
        return self.database.connection

    @property
    def running(self) -> bool:
        """Whether the agent of this home is alive."""
        return is_running(self.paths)

    @property
    def notice(self) -> str | None:
        """What an owner must be told when work was asked for: that nobody does it. ``None`` while the agent runs."""
        return None if self.running else NOT_RUNNING

    def source(self, word: str) -> SourceIntent:
        """Return the source with this id or name. Raises ``UsageFault`` with those that there are."""
        found = self.intent.source(word)
        if found is not None:
            return found
        named = [source for source in self.intent.sources if source.name == word]
        if len(named) == 1:
            return named[0]
        known = ", ".join(source.id for source in self.intent.sources)
        raise UsageFault(
            "there is no source with this name",
            word,
            f"there are: {known}" if known else "name one with `sapwood add PATH`",
        )

    def enqueue(self, job: NewJob) -> bool:
        """Store a job, wake the workers, and return whether its row is new."""
        from agent.queue.enqueue import enqueue

        return enqueue(self.connection, job, self.clock.now_ms()) is not None


@contextmanager
def open_home(paths: Paths | None = None, *, clock: Clock = SYSTEM_CLOCK) -> Iterator[Home]:
    """Open a home, its folders made where they are missing, and close its memory afterwards.

    Raises ``ConfigBroken`` where no intent can be read at all, ``DatabaseRefused`` and ``DatabaseCorrupt`` at the
    first use of the memory, ``OSError`` where the folders cannot be made.
    """
    paths = (find_paths() if paths is None else paths).make()
    loaded = load_intent(paths)
    database = Database(paths.database, paths.write_turn)
    try:
        yield Home(paths, loaded.intent, loaded.problem, database, clock)
    except Exception as error:
        from agent.actions.damaged import as_damage

        damage = as_damage(paths, error)
        if damage is None:
            raise
        raise damage from error
    finally:
        database.close()


def is_running(paths: Paths) -> bool:
    """Return whether the agent of this home is alive; reads one small file."""
    from agent.supervisor.control import running_agent

    return running_agent(paths) is not None
