"""Which files of a source are read: ``.sapwoodignore``, ``include`` and ``exclude``, and what is left out by itself.

Patterns are those of ``.gitignore``. An ignore file counts for its own folder and below, a deeper one over a higher
one; a folder that is left out is not looked into, so nothing in it can be let in again. What the owner's intent
excludes no ignore file lets in.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.ingest.readers.patience import in_time
from agent.paths import find_paths

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from agent.config import SourceIntent

IGNORE_FILE = ".sapwoodignore"
MAX_IGNORE_BYTES = 256 * 1024

# Whatever stands around them, these hold what programs made for themselves. Hidden ones count where a source has
# ``hidden``.
_GENERATED = """
    node_modules bower_components jspm_packages elm-stuff __pycache__ site-packages dist-packages __pypackages__
    DerivedData __MACOSX lost+found $RECYCLE.BIN RECYCLER $WinREAgent AppData
    .git .hg .svn .bzr .jj .cache .npm .yarn .pnpm-store .cargo .rustup .gradle .m2 .ivy2 .nuget .gem .bundle .venv
    .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache .hypothesis .ipynb_checkpoints .terraform .next .nuxt
    .parcel-cache .sass-cache .thumbnails .Trash .trash .Trashes .Spotlight-V100 .fseventsd .TemporaryItems
    .DocumentRevisions-V100 .dropbox.cache .stversions .obsidian .ssh .gnupg .snapshots
"""
SKIPPED_FOLDERS = frozenset({*_GENERATED.split(), "System Volume Information"})

# A folder that holds one of these is an environment, a cache, or our own data.
MARKERS = frozenset({"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG", "chunks.db", "config.last-good.toml"})

# Everyday words, which mean a product of building only where one of the others stands beside them.
_HOME = frozenset({".profile", ".bashrc", ".zshrc", ".config", ".local", ".CFUserTextEncoding"})
_BESIDE = {
    "target": frozenset({"Cargo.toml", "pom.xml", "build.sbt", "project.clj"}),
    "build": frozenset(
        {"build.gradle", "build.gradle.kts", "CMakeLists.txt", "setup.py", "pyproject.toml", "package.json"}
        | {"pubspec.yaml", "meson.build"}
    ),
    "dist": frozenset({"package.json", "setup.py", "pyproject.toml"}),
    "vendor": frozenset({"go.mod", "composer.json", "Gemfile"}),
    "Pods": frozenset({"Podfile"}),
    "deps": frozenset({"mix.exs"}),
    "_build": frozenset({"mix.exs", "dune-project", "rebar.config", "conf.py"}),
    "mod": frozenset({"sumdb"}),
    "snap": _HOME,
    "Library": _HOME,
    "Caches": frozenset({"Application Support", "Preferences"}),
}

# At the top of a file system only.
_TOP = """
    bin sbin lib lib32 lib64 libx32 usr etc var tmp boot dev proc sys run snap
    System Library Volumes private cores Windows ProgramData Recovery PerfLogs MSOCache Config.Msi
"""
_SYSTEM = frozenset({*_TOP.split(), "Program Files", "Program Files (x86)"})

_OFFLINE = 0x1000 | 0x40000 | 0x400000  # FILE_ATTRIBUTE_OFFLINE, _RECALL_ON_OPEN, _RECALL_ON_DATA_ACCESS
_DATALESS = 0x40000000  # SF_DATALESS
_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT
HAS_FLAGS = hasattr(os.stat_result, "st_flags") or hasattr(os.stat_result, "st_file_attributes")
"""Whether this platform's ``stat`` tells placeholders and junctions; where not, folders need none."""

ONLY_IN_THE_CLOUD = "only in the cloud; keep it on this device to have it read"
A_LINK = "a link; what it points to is not followed"
_KINDS = {stat.S_IFIFO: "not a file: a pipe", stat.S_IFSOCK: "not a file: a socket"}
_DEVICE = "not a file: a device"
NOT_OPENED = frozenset({ONLY_IN_THE_CLOUD, A_LINK, _DEVICE, *_KINDS.values()})
"""Every reason that ``why_not_opened`` gives."""


def why_not_opened(found: os.stat_result) -> str | None:
    """Return why something must not be opened, by what ``lstat`` says of it, or ``None``. Pure.

    Opening a placeholder downloads it; opening a pipe waits for whoever writes into it.
    """
    if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == _JUNCTION:
        return A_LINK
    if getattr(found, "st_flags", 0) & _DATALESS or getattr(found, "st_file_attributes", 0) & _OFFLINE:
        return ONLY_IN_THE_CLOUD
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return None
    return _KINDS.get(stat.S_IFMT(found.st_mode), _DEVICE)


def stub_of(name: str) -> str | None:
    """Return the name of the file that an iCloud stub (``.Name.md.icloud``) stands for, or ``None``. Pure."""
    if name.startswith(".") and name.endswith(".icloud") and len(name) > len("..icloud"):
        return name[1 : -len(".icloud")]
    return None


def compile_patterns(lines: Iterable[str]) -> tuple[GitIgnoreSpec | None, list[tuple[int, str]]]:
    """Return the patterns of some lines (``None`` where there is none) and the lines that are none, with their numbers.

    A broken line is left out; the others go on counting. Pure.
    """
    from pathspec import GitIgnoreSpec

    patterns = []
    broken: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        line = unicodedata.normalize("NFC", line.rstrip("\r\n"))
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found = list(GitIgnoreSpec.from_lines([line]).patterns)
        except (ValueError, re.error):
            found = []
        if found and found[0].include is not None:
            patterns.extend(found)
        else:
            broken.append((number, line.strip()))
    return (GitIgnoreSpec(patterns) if patterns else None), broken


class IgnoreFileClosed(OSError):
    """An ignore file is there and cannot be read: what its folder hides is not known, so nothing of it may be read."""


Chain = tuple[tuple[int, "GitIgnoreSpec"], ...]
"""The ignore files above a place, the deepest last: the length of the path of its folder, and its patterns."""


@dataclass
class Rules:
    """The rules of one source.

    ``say`` is called with the name and the fault where a pattern is broken, and what ``stat`` says of an ignore file.
    """

    source: SourceIntent
    say: Callable[[str, str, os.stat_result | None], None] = lambda name, fault, found: None
    hidden: bool = field(init=False)
    _include: GitIgnoreSpec | None = field(init=False)
    _exclude: GitIgnoreSpec | None = field(init=False)
    _own: frozenset[tuple[int, int]] = field(init=False)
    _own_inodes: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.hidden = self.source.hidden
        self._include = self._of_intent("include", self.source.include)
        self._exclude = self._of_intent("exclude", self.source.exclude)
        self._own = frozenset((found.st_ino, found.st_dev) for found in _own_folders())
        self._own_inodes = frozenset(inode for inode, _ in self._own)

    def _of_intent(self, name: str, lines: Sequence[str]) -> GitIgnoreSpec | None:
        if not lines:
            return None
        spec, broken = compile_patterns(lines)
        for _, line in broken:
            self.say(f"({name} of the source)", f"the pattern {line} is broken and was left out", None)
        return spec

    def enter(self, chain: Chain, folder: str, relative: str, names: Collection[str]) -> Chain:
        """Return the ignore files that count in a folder: those above it, and its own. Raises ``IgnoreFileClosed``.

        ``relative`` is the folder's path below its root, ``names`` what it holds.
        """
        if IGNORE_FILE not in names:
            return chain
        path = os.path.join(folder, IGNORE_FILE)
        shown = f"{relative}/{IGNORE_FILE}" if relative else IGNORE_FILE
        try:
            found, data = in_time(partial(_read_ignore_file, path))
        except FileNotFoundError:
            return chain
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise IgnoreFileClosed(f"not looked into: its {IGNORE_FILE} cannot be read ({reason})") from error
        if len(data) > MAX_IGNORE_BYTES:
            raise IgnoreFileClosed(f"not looked into: its {IGNORE_FILE} is larger than {MAX_IGNORE_BYTES // 1024} KB")
        spec, broken = compile_patterns(data.decode("utf-8-sig", "replace").split("\n"))
        if broken:
            self.say(shown, "; ".join(f"line {number} is no pattern: {line}" for number, line in broken[:5]), found)
        return chain if spec is None else (*chain, (len(relative) + 1 if relative else 0, spec))

    def is_patterned(self, chain: Chain) -> bool:
        """Return whether any pattern counts below these ignore files: without one, ``matches`` need not be asked."""
        return bool(chain) or self._include is not None or self._exclude is not None

    def matches(self, chain: Chain, relative: str, key: str, *, folder: bool) -> bool:
        """Return whether the owner's patterns leave a place out. ``key`` is its path with the prefix of its root."""
        end = "/" if folder else ""
        relative, key = _shown(relative) + end, _shown(key) + end
        if self._exclude is not None and _decides(self._exclude, relative, key):
            return True
        for length, spec in reversed(chain):
            found = spec.check_file(relative[length:], separators=()).include
            if found is not None:
                if found:
                    return True
                break
        # A folder is looked into even if it is not included itself: what is below it may be.
        return not folder and self._include is not None and not _decides(self._include, relative, key)

    def skips_folder(self, above: str, name: str, names: Collection[str]) -> bool:
        """Return whether a folder of this name is left out by itself; ``names`` is what stands beside it."""
        if name in SKIPPED_FOLDERS or name.startswith(".Trash-"):
            return True
        beside = _BESIDE.get(name)
        if beside is not None and not beside.isdisjoint(names):
            return True
        return name in _SYSTEM and os.path.dirname(above) == above

    def is_own(self, inode: int, path: str) -> bool:
        """Return whether a folder is one of Sapwood's own: a memory that reads itself never ends."""
        if inode not in self._own_inodes:
            return False
        try:
            return (inode, os.lstat(path).st_dev) in self._own
        except OSError:
            return False

    def owns_root(self, root: Path) -> bool:
        """Return whether the root of a source lies in one of Sapwood's own folders (the inbox's may)."""
        if self.source.kind == "inbox" or not self._own:
            return False
        real = Path(os.path.realpath(root))
        return any(self.is_own(_inode(str(place)), str(place)) for place in (real, *real.parents))


def _read_ignore_file(path: str) -> tuple[os.stat_result, bytes]:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise IgnoreFileClosed("it is not a file")
    with open(path, "rb") as stream:
        return found, stream.read(MAX_IGNORE_BYTES + 1)


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return -1


def _own_folders() -> list[os.stat_result]:
    paths = find_paths()
    found = []
    for folder in (paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir):
        try:
            found.append(os.stat(folder))
        except OSError:
            continue
    return found


def _decides(spec: GitIgnoreSpec, relative: str, key: str) -> bool:
    found = spec.check_file(relative, separators=()).include
    if found is None and key != relative:
        found = spec.check_file(key, separators=()).include
    return bool(found)


def _shown(path: str) -> str:
    return path if path.isascii() else unicodedata.normalize("NFC", path)
