"""What the entries of the menu do: each the same function of ``agent.actions`` as its command.

All of it blocks, some of it for as long as a dialog is open, so it runs in threads of its own and never in the one that
the panel talks to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.actions.by_clicking import in_the_tray
from agent.desktop.tray.menu import MODEL_PREFIX, Key
from agent.errors import AgentFault, AgentNotRunning, SapwoodError

if TYPE_CHECKING:
    from agent.desktop.folder_dialog import Folder
    from agent.paths import Paths

Tell = Callable[[str, str, str], object]
"""Shows a notification: a key that names its kind, a title, a text. Returns at once, never raises."""

_PAUSES = {Key.PAUSE_HOUR: "1h", Key.PAUSE_TOMORROW: "tomorrow", Key.PAUSE_FOR_GOOD: None}
_log = logging.getLogger("sapwood.tray")


@dataclass(frozen=True)
class Outside:
    """What a click asks of the desktop: to open a page, to open a folder, to ask for a folder. Tests bring others."""

    open_page: Callable[[Paths, str], object]
    open_folder: Callable[[str], object]
    ask_for_folder: Callable[[], Folder]
    tell: Tell


class Clicks:
    """The owner's clicks. ``do`` may be called by several threads at once."""

    def __init__(self, paths: Paths, outside: Outside) -> None:
        self._paths = paths
        self._outside = outside

    def do(self, key: str) -> str:
        """Do what an entry says and return what went wrong, in a few words; ``""``: nothing did. Blocks, never raises.

        What went wrong is also told as a notification: a menu closes with the click.
        """
        try:
            self._act(key)
        except Exception as error:
            _log.warning("what was clicked came to nothing: %s", key.partition(":")[0], exc_info=error)
            # The title alone: a detail may be a path, and notifications are shown where others see them.
            title = error.title if isinstance(error, SapwoodError) else f"that failed ({type(error).__name__})"
            hint = error.hint if isinstance(error, SapwoodError) else "`sapwood logs` says more"
            self._tell(f"click:{key}", f"Sapwood: {title}", hint)
            return title
        return ""

    def _tell(self, key: str, title: str, body: str) -> None:
        self._outside.tell(key, title, in_the_tray(body))

    def _act(self, key: str) -> None:
        if key == Key.OPEN:
            self._outside.open_page(self._paths, "")
        elif key in _PAUSES:
            self._pause(_PAUSES[Key(key)])
        elif key == Key.RESUME:
            self._resume()
        elif key.startswith(MODEL_PREFIX):
            self._use_model(key.removeprefix(MODEL_PREFIX))
        elif key == Key.ADD_FOLDER:
            self._add_folder()
        elif key == Key.BUG_REPORT:
            self._bug_report()
        elif key == Key.OPEN_LOGS:
            self._outside.open_folder(str(self._paths.log_dir))
        elif key == Key.AT_LOGIN:
            self._toggle_login()
        elif key == Key.QUIT:
            self._quit()

    def _pause(self, until: str | None) -> None:
        from agent.actions.home import open_home
        from agent.actions.pausing import pause

        with open_home(self._paths) as home:
            pause(home, until)

    def _resume(self) -> None:
        from agent.actions.home import open_home
        from agent.actions.pausing import resume

        with open_home(self._paths) as home:
            resume(home)

    def _use_model(self, name: str) -> None:
        from agent.actions.home import open_home
        from agent.actions.models import find_profile, use_model

        with open_home(self._paths) as home:
            profile = find_profile(home, name)
            if profile is None or home.intent.is_local(profile) or profile.has_consent():
                used = use_model(home, name)
                if used.problem:
                    self._tell(f"model:{name}", f"Sapwood: {name} cannot work yet", used.problem)
                return
        # What is sent where, and about how much of it there is, wants a page to be read on.
        self._outside.open_page(self._paths, f"models/{name}/consent")

    def _add_folder(self) -> None:
        from agent.desktop.folder_dialog import Came

        found = self._outside.ask_for_folder()
        if found.came is Came.NO_DIALOG:
            self._outside.open_page(self._paths, "sources/add")
        elif found.came is Came.CHOSEN:
            self._add(found.path)

    def _add(self, path: str) -> None:
        from agent.actions.home import open_home
        from agent.actions.sources import add

        with open_home(self._paths) as home:
            added = add(home, [path])
        items = "1 item" if added.items == 1 else f"{added.items:,} items"
        unread = f"; {len(added.unreadable):,} cannot be read, see `sapwood sources`" if added.unreadable else ""
        self._tell(f"added:{added.source_id}", "Sapwood: the folder is added", f"{items} found{unread}")

    def _bug_report(self) -> None:
        try:
            self._outside.open_page(self._paths, "help/bug-report")
        except AgentNotRunning:
            raise
        except AgentFault as problem:
            _log.info("the bug report is saved without being shown first: %s", problem.title)
            from agent.actions.bug_report import collect, save

            saved = save(collect(self._paths))
            self._outside.tell(
                "bug-report",
                "Sapwood: the bug report is saved",
                f"{saved}: look through it before you send it to anybody; nothing was sent",
            )

    def _toggle_login(self) -> None:
        from agent.actions.autostart import autostart_status, set_autostart

        set_autostart(not autostart_status(self._paths).enabled, self._paths)

    def _quit(self) -> None:
        from agent.actions.running import stop_agent

        stop_agent(self._paths)
