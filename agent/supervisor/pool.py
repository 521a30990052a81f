"""How many workers there should be: a decision from plain numbers.

It grows by rows that another worker could claim now, permits counted; it shrinks one by one after they idled; a worker
that loaded heavy modules is replaced by a fresh one once it idles (a fresh worker is 14 MB, one with numpy and a table
53: ``numbers.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

HEAVY_BYTES = 16_000_000
"""By how much a worker must have grown since it was up to be worth a fresh process."""


@dataclass(frozen=True)
class WorkerFacts:
    """One worker that takes work or is about to: ``idle_s`` is ``None`` while it is busy or still starting."""

    index: int
    idle_s: float | None
    starting: bool = False
    grown_bytes: int = 0


@dataclass(frozen=True)
class Claimable:
    """Rows that are due now and not claimed, counted no further than the pool is large.

    ``free``: kinds that need no permit; ``bound``: kinds that need one; ``permits``: how many permits are free for
    them (``None``: none is needed).
    """

    free: int = 0
    bound: int = 0
    permits: int | None = None

    @property
    def now(self) -> int:
        """How many of them further workers could claim at this moment."""
        return self.free + (self.bound if self.permits is None else min(self.bound, self.permits))


@dataclass(frozen=True)
class PoolChange:
    """What to do: how many workers to add, which to end for good, which to replace."""

    add: int = 0
    end: tuple[int, ...] = field(default=())
    refresh: tuple[int, ...] = field(default=())


def decide(
    workers: Sequence[WorkerFacts],
    claimable: Claimable,
    *,
    minimum: int,
    maximum: int,
    idle_seconds: float,
    leaving: int = 0,
) -> PoolChange:
    """Return the change that this moment asks for. Growing and shrinking exclude each other.

    ``leaving``: how many more there are that were told to end. They take the place of others until they are gone.
    """
    live = len(workers)
    if live < minimum:
        return PoolChange(add=minimum - live)
    # Whoever is idle or coming up takes the first of these rows; only what is left over calls for another.
    hands = sum(1 for worker in workers if worker.idle_s is not None or worker.starting)
    if claimable.now > hands and live + leaving < maximum:
        # One at a time: most bursts are over before a second process is up.
        return PoolChange(add=1)
    if live > maximum:
        surplus = sorted((w for w in workers), key=lambda w: (w.idle_s is None, -w.index))[: live - maximum]
        return PoolChange(end=tuple(worker.index for worker in surplus))
    rested = [worker for worker in workers if worker.idle_s is not None and worker.idle_s >= idle_seconds]
    if claimable.now > 0 or not rested:
        return PoolChange()
    ending = sorted(rested, key=lambda worker: -worker.index)[: live - minimum]
    staying = [worker for worker in rested if worker not in ending]
    return PoolChange(
        end=tuple(worker.index for worker in ending),
        refresh=tuple(worker.index for worker in staying if worker.grown_bytes >= HEAVY_BYTES),
    )
