"""Notices of the operating system that something under a folder has changed.

The system is asked through ``watchfiles``: its own thread takes the notices in, we collect them. Folders are watched
with all below them, files through the folder that they stand in, for a file that is replaced is another file.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

_PAUSES_S = (0.05, 0.25)


class Refusal(Enum):
    """Why a path is not watched. The value says it and what the owner can do."""

    MISSING = "it is not there"
    TOO_MANY_FOLDERS = (
        "the system watches no more folders: raise fs.inotify.max_user_watches "
        "(sudo sysctl fs.inotify.max_user_watches=524288)"
    )
    TOO_MANY_WATCHERS = (
        "the system allows no more watchers: raise fs.inotify.max_user_instances "
        "(sudo sysctl fs.inotify.max_user_instances=512) or the limit of open files"
    )
    TOO_LARGE = "it has too many folders to be watched (20,000 in all sources)"
    NOT_SUPPORTED = "its file system tells nobody of changes"


class WatchRefused(Exception):  # what the system said, not a fault of ours
    """The system does not watch these paths. ``detail`` is its own text."""

    def __init__(self, refusal: Refusal, detail: str = "") -> None:
        super().__init__(detail or refusal.value)
        self.refusal = refusal
        self.detail = detail


class WatchBroken(Exception):
    """A watch that worked tells nothing any more; what changed meanwhile is not known."""


class Watch(Protocol):
    """Some watched paths."""

    def take(self) -> set[str]:
        """Return the paths that have changed since the last call, maybe none. Blocks for a few ms.

        Raises ``WatchBroken``.
        """
        ...

    def close(self) -> None:
        """Let the system forget it. May be called twice."""
        ...


class Watching(Protocol):
    """The system's way to watch."""

    def open(self, folders: Iterable[str], parents: Iterable[str]) -> Watch:
        """Watch ``folders`` with all that is below, and ``parents`` without. Blocks for a walk; ``WatchRefused``."""
        ...


@dataclass
class _SystemWatch:
    notifiers: list[Any]

    def take(self) -> set[str]:
        found: set[str] = set()
        for notifier in self.notifiers:
            try:
                changes = notifier.watch(0, 1, 1, None)
            except Exception as error:
                # What the library raises here has no common class; whatever it is, the notices may have gaps now.
                raise WatchBroken(str(error)) from error
            if not isinstance(changes, str):
                found.update(path for _, path in changes)
        return found

    def close(self) -> None:
        for notifier in self.notifiers:
            with contextlib.suppress(Exception):
                notifier.close()
        self.notifiers = []


class SystemWatching:
    """inotify, FSEvents, ReadDirectoryChangesW."""

    def open(self, folders: Iterable[str], parents: Iterable[str]) -> Watch:
        folders, parents = list(folders), list(parents)
        for pause_s in _PAUSES_S:
            try:
                return self._open(folders, parents)
            except WatchRefused as refused:
                if refused.refusal not in (Refusal.TOO_MANY_FOLDERS, Refusal.TOO_MANY_WATCHERS):
                    raise
                # What was closed just now, or refused halfway, is given back by another thread in its own time.
                time.sleep(pause_s)
        return self._open(folders, parents)

    @staticmethod
    def _open(folders: list[str], parents: list[str]) -> Watch:
        from watchfiles._rust_notify import RustNotify

        watch = _SystemWatch([])
        try:
            for paths, with_all_below in ((folders, True), (parents, False)):
                if not paths:
                    continue
                try:
                    watch.notifiers.append(RustNotify(paths, False, False, 0, with_all_below, False))
                except PermissionError:
                    # Some folder in there is closed to us. Left out without a word is then every folder that the
                    # system refuses, so whether it is at its limit is asked apart.
                    watch.notifiers.append(RustNotify(paths, False, False, 0, with_all_below, True))
                    RustNotify(paths[:1], False, False, 0, False, False).close()
        except Exception as error:
            watch.close()
            raise WatchRefused(_refusal_of(error), str(error)) from error
        return watch


def _refusal_of(error: Exception) -> Refusal:
    """Return why, from a text: the library gives no error number."""
    said = str(error)
    if isinstance(error, FileNotFoundError):
        return Refusal.MISSING
    if "MaxFilesWatch" in said or "watch limit" in said or "os error 28" in said:
        return Refusal.TOO_MANY_FOLDERS
    if "os error 24" in said or "os error 23" in said:
        return Refusal.TOO_MANY_WATCHERS
    return Refusal.NOT_SUPPORTED


class FakeWatching:
    """Watches nothing: a test says what changed (``change``) and what is refused (``refused``: path → why)."""

    def __init__(self) -> None:
        self.refused: dict[str, Refusal] = {}
        self.open_paths: set[str] = set()
        self.opened = 0
        self.broken = False
        self._changed: set[str] = set()

    def open(self, folders: Iterable[str], parents: Iterable[str]) -> Watch:
        paths = {*folders, *parents}
        for path in sorted(paths):
            if path in self.refused:
                raise WatchRefused(self.refused[path])
        self.opened += 1
        self.open_paths |= paths
        return _FakeWatch(self, paths)

    def change(self, *paths: str) -> None:
        """Let these paths have changed, where somebody watches."""
        self._changed.update(path for path in paths if any(_is_below(path, root) for root in self.open_paths))

    def taken(self) -> set[str]:
        """Return and forget what changed."""
        found, self._changed = self._changed, set()
        return found


@dataclass
class _FakeWatch:
    watching: FakeWatching
    paths: set[str]

    def take(self) -> set[str]:
        if self.watching.broken:
            self.watching.broken = False
            raise WatchBroken("made to")
        return self.watching.taken()

    def close(self) -> None:
        self.watching.open_paths -= self.paths
        self.paths = set()


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
