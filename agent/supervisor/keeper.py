"""What is watched: the paths of the sources, opened, opened again when they move, given up where the system refuses.

A source that the system does not watch keeps the others watched; it is said once, and tried again later.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.system.watching import Refusal, Watch, WatchBroken, Watching, WatchRefused

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.paths import Paths

STAT_EVERY_S = 10.0
RETRY_S = 600.0
MOST_FOLDERS = 20_000
"""In all sources. The library holds up the whole process while it begins to watch: a second for so many, at worst."""
INBOX = "\x00inbox"
"""Stands for the folder of all that was pushed; the folders in it are sources."""

# Where programs work; what is in there is read only where its owner says so, and then every now and then.
_WORK_FOLDERS = frozenset(
    ("node_modules", "__pycache__", "site-packages", "$RECYCLE.BIN", "System Volume Information", "lost+found")
)
_TEMPORARY_ENDS = ("~", ".swp", ".swo", ".swx", ".tmp", ".temp", ".part", ".crdownload", ".partial", ".lock", ".bak")
_RULES = ".sapwoodignore"

_log = logging.getLogger("sapwood.supervisor")


@dataclass(frozen=True)
class Target:
    """What one source is made of: folders with all below, and single files. ``hidden``: dot names count too."""

    roots: tuple[str, ...]
    hidden: bool = False
    own: tuple[str, ...] = ()  # folders of the agent itself


def targets_of(intent: Intent, paths: Paths) -> dict[str, Target]:
    """Return what is to be watched for each source of an intent, and for the inbox."""
    own = tuple(str(path) for path in (paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir))
    found = {source.id: Target(source.paths, source.hidden, own) for source in intent.sources if source.paths}
    found[INBOX] = Target((str(paths.inbox),))
    return found


def sources_of(path: str, targets: Mapping[str, Target]) -> set[str]:
    """Return the ids of the sources that a changed path concerns, as far as its name tells."""
    found = set()
    for source_id, target in targets.items():
        for root in target.roots:
            relative = _below(path, root)
            if relative is None:
                continue
            if source_id == INBOX:
                first, _, rest = relative.partition(os.sep)
                if rest and _counts(rest, hidden=False):
                    found.add(first)
            elif not relative or (not _is_own(path, root, target) and _counts(relative, hidden=target.hidden)):
                found.add(source_id)
    return found


def _is_own(path: str, root: str, target: Target) -> bool:
    return any(_below(path, own) is not None for own in target.own if _below(root, own) is None)


def _below(path: str, root: str) -> str | None:
    if path == root:
        return ""
    head = root.rstrip(os.sep) + os.sep
    return path[len(head) :] if path.startswith(head) else None


def _counts(relative: str, *, hidden: bool) -> bool:
    names = relative.split(os.sep)
    last = names[-1]
    if last == _RULES:
        return True
    if last.endswith(_TEMPORARY_ENDS) or last == "4913" or (last.startswith("#") and last.endswith("#")):
        return False
    return not any(name in _WORK_FOLDERS or (not hidden and name.startswith(".")) for name in names)


class Keeper:
    """Keeps a watch on the targets. ``want`` and ``reason`` may be called from any thread, the rest from one."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._lock = threading.Lock()
        self._wanted: Mapping[str, Target] = {}
        self._targets: Mapping[str, Target] | None = None
        self._named: Mapping[str, Target] = {}
        self._reasons: dict[str, str | None] = {}
        self._watch: Watch | None = None
        self._watched: dict[str, tuple[object, ...]] = {}
        self._refused: dict[str, Refusal] = {}
        self._said: set[tuple[str, Refusal]] = set()
        self._stat_at = 0.0
        self._retry_at = 0.0

    def want(self, targets: Mapping[str, Target]) -> None:
        """Watch these from the next turn on."""
        with self._lock:
            self._wanted = dict(targets)

    def reason(self, source_id: str) -> str | None:
        """Return why a source is not watched, or ``None`` where it is."""
        with self._lock:
            return self._reasons.get(source_id, "it is about to be watched")

    def turn(self, now: float) -> set[str]:
        """Return the sources that have changed since the last turn. Raises ``WatchBroken``; then ``close`` it."""
        with self._lock:
            wanted = self._wanted
        changed: set[str] = set()
        if wanted != self._targets or self._is_moved(now) or self._may_retry(now):
            changed |= self._open(wanted, now)
        return changed | self._take()

    def close(self) -> None:
        """Watch nothing. The next turn begins anew, and whatever is watched then counts as changed."""
        watch, self._watch = self._watch, None
        self._targets, self._watched = None, {}
        if watch is not None:
            watch.close()
        self._tell()

    def _take(self) -> set[str]:
        changed: set[str] = set()
        if self._watch is not None and self._targets:
            for path in self._watch.take():
                changed |= sources_of(path, self._named)
        return changed

    def _may_retry(self, now: float) -> bool:
        return now >= self._retry_at and any(refusal is not Refusal.MISSING for refusal in self._refused.values())

    def _is_moved(self, now: float) -> bool:
        """Return whether a watched path is another one by now: a folder made anew is watched by nobody."""
        if now < self._stat_at:
            return False
        self._stat_at = now + STAT_EVERY_S
        targets = self._targets or {}
        if any(_identity(targets[source_id]) != held for source_id, held in self._watched.items()):
            return True
        missing = [source_id for source_id, refusal in self._refused.items() if refusal is Refusal.MISSING]
        return any(_identity(targets[source_id]) for source_id in missing if source_id in targets)

    def _open(self, wanted: Mapping[str, Target], now: float) -> set[str]:
        changed = self._take() if self._targets is not None else set()
        before, old = self._watched, self._watch
        there = {source_id: identity for source_id, target in wanted.items() if (identity := _identity(target))}
        refused = {source_id: Refusal.MISSING for source_id in wanted if source_id not in there}
        refused |= self._too_large(wanted, there)
        for source_id in refused:
            there.pop(source_id, None)
        has_gap = False
        try:
            watch = self._try(wanted, list(there))
            if old is not None:
                # The new one may have taken a while to begin; until then the old one alone was told.
                try:
                    changed |= self._take()
                except WatchBroken:
                    has_gap = True
                self._watch = None
                old.close()
        except WatchRefused:
            # The old one stands in the way of the new one, or one of them is too much.
            if old is not None:
                old.close()
            has_gap = True
            watch, more = self._one_by_one(wanted, list(there))
            refused |= more
        self._targets, self._watch = wanted, watch
        self._named = {source_id: _with_real_names(target) for source_id, target in wanted.items()}
        self._watched = {source_id: identity for source_id, identity in there.items() if source_id not in refused}
        self._refused = refused
        self._retry_at = now + RETRY_S
        self._tell()
        begun = {
            source_id for source_id, identity in self._watched.items() if has_gap or before.get(source_id) != identity
        }
        return (changed | begun) - {INBOX}

    @staticmethod
    def _too_large(wanted: Mapping[str, Target], there: Iterable[str]) -> dict[str, Refusal]:
        """Return which sources have too many folders, the smaller ones before the larger ones."""
        sizes = {
            source_id: sum(_folders_below(root, MOST_FOLDERS + 1) for root in wanted[source_id].roots)
            for source_id in there
        }
        refused: dict[str, Refusal] = {}
        total = 0
        for source_id in sorted(sizes, key=lambda each: sizes[each]):
            total += sizes[source_id]
            if total > MOST_FOLDERS:
                refused[source_id] = Refusal.TOO_LARGE
        return refused

    def _try(self, wanted: Mapping[str, Target], source_ids: list[str]) -> Watch | None:
        roots = sorted({root for source_id in source_ids for root in wanted[source_id].roots})
        folders = [root for root in roots if os.path.isdir(root)]
        parents = sorted({os.path.dirname(root) for root in roots if root not in folders})
        return self._watching.open(folders, parents) if roots else None

    def _one_by_one(
        self, wanted: Mapping[str, Target], source_ids: list[str]
    ) -> tuple[Watch | None, dict[str, Refusal]]:
        refused: dict[str, Refusal] = {}
        watch: Watch | None = None
        held: list[str] = []
        for source_id in source_ids:
            if watch is not None:
                watch.close()  # both at once would take twice as much
            try:
                watch = self._try(wanted, [*held, source_id])
                held.append(source_id)
            except WatchRefused as refusal:
                refused[source_id] = refusal.refusal
                watch = self._again(wanted, held)
        return watch, refused

    def _again(self, wanted: Mapping[str, Target], held: list[str]) -> Watch | None:
        try:
            return self._try(wanted, held)
        except WatchRefused:
            held.clear()  # it was taken just now; the next turn but some tries again
            return None

    def _tell(self) -> None:
        reasons: dict[str, str | None] = {}
        for source_id, refusal in self._refused.items():
            reasons[source_id] = refusal.value
            if (source_id, refusal) not in self._said and refusal is not Refusal.MISSING:
                self._said.add((source_id, refusal))
                _log.warning("source %s is looked at only now and then: %s", source_id.strip("\x00"), refusal.value)
        with self._lock:
            self._reasons = {**dict.fromkeys(self._watched), **reasons}


def _with_real_names(target: Target) -> Target:
    """Return a target under both its names: FSEvents tells the real one, whatever it was asked to watch."""

    def both(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*paths, *map(os.path.realpath, paths)]))

    return replace(target, roots=both(target.roots), own=both(target.own))


def _folders_below(root: str, most: int) -> int:
    """Return how many folders there are, or ``most`` for that many and more. Blocks for a walk, other threads go on."""
    count, waiting = 1, [root]
    while waiting and count < most:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        count += len(found)
        waiting += found
    return min(count, most)


def _identity(target: Target) -> tuple[object, ...]:
    """Return what changes when one of the paths becomes another; empty where one is missing."""
    found: list[object] = []
    for root in target.roots:
        try:
            stat = os.stat(root)
        except OSError:
            return ()
        # A file that is replaced is noticed by its folder.
        found.append((stat.st_dev, stat.st_ino) if os.path.isdir(root) else "file")
    return tuple(found)
