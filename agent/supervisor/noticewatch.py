"""Notifications at work: what is the case is looked at now and then, and what is to be shown is shown by a thread.

Nothing here waits for a desktop. What wants an owner beside the supervisor's own troubles is asked of a hook that is
reached by its dotted name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING

from agent.db.state import NOTICES_KEY, get_state, set_state
from agent.supervisor.notices import Notice, Notices, Seen, Subject
from agent.system.entry import find
from agent.system.notifications import Notifier, SystemNotifier

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.supervisor.result import NeedsHook, SupervisorArgs
    from agent.supervisor.status import Facts
    from agent.supervisor.storage import Storage

LOOK_S = 10.0

_log = logging.getLogger("sapwood.supervisor")


class NoticeWatch:
    """The notifications of one supervisor. Times are monotonic seconds (``now``) and UTC ms, handed in.

    It looks when the loop turns anyway, and once more where something has begun to go on. ``run --once`` shows none.
    """

    def __init__(self, args: SupervisorArgs, notifier: Notifier | None = None) -> None:
        self._paths = args.paths
        self._hook: NeedsHook | None = find(args.needs_hook) if args.needs_hook and not args.once else None
        self._notifier = SystemNotifier() if notifier is None else notifier
        self._notices = Notices()
        self._stored: str | None = None
        self._is_loaded = False
        self._seen = Seen()
        self._look_at = 0.0
        self.again_at: float | None = None
        """When to look again though nothing else is due, ``None`` for not before the loop turns anyway."""

    def turn(self, facts: Callable[[], Facts], storage: Storage, intent: Intent, now: float, wall_ms: int) -> None:
        """Look where that is due, and have shown what is to be shown. Takes a millisecond then, and never raises."""
        hook, self.again_at = self._hook, self.again_at if now < self._look_at else None
        if hook is None or not intent.desktop.notifications or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        try:
            seen = storage.attempt(
                "looking at what wants its owner", lambda it: self._read(it, hook, intent, wall_ms), now
            )
            self._seen = seen or self._seen
            on = {*_subjects(facts()), *self._seen.on}
            shown = self._notices.look(on, wall_ms, seen)
            if self._is_loaded and self._notices.stored != self._stored:
                storage.attempt("noting what was told", self._keep, now)
        except Exception:
            _log.exception("what wants its owner could not be looked at")
            return
        if self._notices.is_settling:
            self.again_at = self._look_at
        for each in shown:
            Thread(target=self._show, args=(each,), name="notification", daemon=True).start()

    def _read(self, connection: Connection, hook: NeedsHook, intent: Intent, wall_ms: int) -> Seen:
        if not self._is_loaded:
            self._stored = get_state(connection, NOTICES_KEY)
            self._notices.load(self._stored)
            self._is_loaded = True
        return hook(self._paths, connection, intent, wall_ms)

    def _keep(self, connection: Connection) -> bool:
        stored = self._notices.stored
        with connection.write(turn=False):
            set_state(connection, NOTICES_KEY, stored)
        self._stored = stored
        return True

    def _show(self, each: Notice) -> None:
        taken = self._notifier.show(str(each.subject), each.title, each.body)
        _log.info("notification %s: %s", each.subject, "shown" if taken else "this desktop shows none")


def _subjects(facts: Facts) -> set[Subject]:
    found = {
        Subject.MEMORY: facts.problem is not None,
        Subject.DAMAGED: facts.notice is not None,
        Subject.SETTINGS: facts.config_problem is not None,
        Subject.WORKER: facts.given_up > 0,
    }
    return {subject for subject, is_on in found.items() if is_on}
