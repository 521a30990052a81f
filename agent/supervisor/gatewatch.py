"""The gate's safety net, without knowing the gate: it is reached by dotted names.

A permit's holder outside the pool (command line, MCP) may die unseen. While a row that needs a permit is due and a
worker has its hands free, the hook is asked every 50 ms, otherwise never.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.queue.claim import due_llm
from agent.queue.wake import wake_workers
from agent.system.entry import find

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.claim import Allowed
    from agent.queue.registry import Registry
    from agent.supervisor.result import GateHook, PermitsHook, SupervisorArgs
    from agent.supervisor.storage import Storage

_log = logging.getLogger("sapwood.supervisor")


class GateWatch:
    """Asks the hooks of one supervisor. Times are monotonic seconds and UTC ms, handed in."""

    def __init__(self, args: SupervisorArgs, registry: Registry) -> None:
        self._paths = args.paths
        self._registry = registry
        self._hook: GateHook | None = find(args.gate_hook) if args.gate_hook else None
        self._permits: PermitsHook | None = find(args.permits_hook) if args.permits_hook else None
        self.again_at: float | None = None
        """When to look again, or ``None`` for not before there is work."""

    def free_permits(self, intent: Intent) -> int | None:
        """Return how many permits a worker could take now, ``None`` where it needs none."""
        return self._permits(self._paths, intent) if self._permits is not None else None

    def look(
        self,
        storage: Storage,
        intent: Intent,
        now: float,
        wall_ms: int,
        *,
        has_hands: bool,
        allowed: Callable[[Connection], Allowed | None] = lambda connection: None,
    ) -> None:
        """Look whether a row waits for a permit that is free, and wake a worker then. Does not block.

        ``allowed`` says which kinds may be claimed at all.
        """
        hook = self._hook
        if hook is None or (self.again_at is not None and now < self.again_at):
            return

        def ask(connection: Connection) -> float | None:
            def is_due() -> bool:
                # Whoever is busy looks for itself when it is done.
                return has_hands and due_llm(
                    connection, registry=self._registry, now_ms=wall_ms, allowed=allowed(connection)
                )

            return hook(self._paths, intent, is_due, lambda: wake_workers(connection))

        again = None
        try:
            again = storage.attempt("the gate", ask, now)
        except Exception:
            _log.exception("the gate could not be looked at")
        self.again_at = None if again is None else now + again
