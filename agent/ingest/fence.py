"""The ledger as a plan sees it: a plan never outlives what it was made from.

What was forgotten between the reading and the storing of an item must not come back with it, so the transaction that
settles a plan looks whether the ledger is still the one that the plan was made under.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.config import stamp_of
from agent.ledger import Ledger, LedgerWatcher
from agent.queue.types import StalePlan

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


@dataclass(frozen=True, slots=True)
class Fence:
    """The ledger that a plan is made under, and the file that it came from."""

    ledger: Ledger
    path: str

    def check(self) -> None:
        """Raise ``StalePlan`` if anything was forgotten or answered since. Costs a ``stat``."""
        if stamp_of(self.path) != self.ledger.stamp:
            raise StalePlan("the ledger")


def open_fence(context: JobContext) -> Fence:
    """Return the fence of a plan that is made from now on. Raises ``OSError`` where the ledger cannot be read."""
    watcher: LedgerWatcher = context.shared.setdefault("ledger", LedgerWatcher(context.paths))
    return Fence(watcher.current, str(context.paths.ledger))
