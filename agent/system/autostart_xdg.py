"""Start at login on Linux: a desktop entry in the folder of the XDG autostart specification.

Words of ``Exec`` are quoted twice, as the desktop entry specification says: inside double quotes for whoever starts the
program, and once more as a string of the file. GLib reads that so; systemd, which GNOME and Plasma have start it, does
not undo what stands for a few rare letters (version 252), and neither finds a program with a ``%`` in its path. That is
told, because it would show at the next login alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.system.autostart import NAME, Found, Mechanism, Start

FILE = "sapwood.desktop"
GROUP = "[Desktop Entry]"
SWITCHED_OFF = "it is switched off in the system's settings"
_RESERVED = frozenset(" \t\n\"'\\><~|&;$*?#()`%")
_BEHIND_A_BACKSLASH = frozenset('"`$\\')
_DOUBTFUL = '%$`"\\'
_STRING_ESCAPES = {"s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_ENCODING = ("utf-8", "surrogateescape")


def autostart_folder(environ: Mapping[str, str]) -> Path:
    """Return the owner's autostart folder. A relative path in ``XDG_CONFIG_HOME`` counts as none, by its rules."""
    named = environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".config"
    return base / "autostart"


def exec_value(argv: Sequence[str]) -> str:
    """Return the value of ``Exec`` for these words, as it stands in the file."""
    return _as_string(" ".join(map(_quoted, argv)))


def _quoted(word: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in _BEHIND_A_BACKSLASH else letter for letter in word)
    escaped = escaped.replace("%", "%%")
    return f'"{escaped}"' if not word or _RESERVED & set(word) else escaped


def _as_string(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _from_string(text: str) -> str:
    found, letters = [], iter(text)
    for letter in letters:
        if letter != "\\":
            found.append(letter)
            continue
        escaped = next(letters, "")
        found.append(_STRING_ESCAPES.get(escaped, f"\\{escaped}"))
    return "".join(found)


def exec_words(value: str) -> tuple[str, ...]:
    """Return the words of an ``Exec`` as it stands in a file; field codes (``%U``) are left out.

    Raises ``ValueError`` where a quote is not closed.
    """
    words: list[str] = []
    word: str | None = None
    quoting = False
    letters = iter(_from_string(value))
    for letter in letters:
        if quoting and letter == "\\":
            word = (word or "") + next(letters, "")
        elif letter == '"':
            quoting, word = not quoting, word or ""
        elif letter in " \t" and not quoting:
            if word is not None:
                words.append(word)
            word = None
        elif letter == "%":
            code = next(letters, "")
            if code == "%":
                word = (word or "") + "%"
        else:
            word = (word or "") + letter
    if quoting:
        raise ValueError("a quote in Exec is not closed")
    if word is not None:
        words.append(word)
    return tuple(words)


def _doubt(start: Start) -> str:
    rare = sorted({letter for word in start.argv for letter in word if letter in _DOUBTFUL})
    if not rare:
        return ""
    return f"not every desktop starts what has {' '.join(rare)} in a path; move it to a folder without, to be sure"


def entry_text(start: Start) -> str:
    """Return a whole entry."""
    lines = (
        GROUP,
        "Type=Application",
        "Version=1.0",
        f"Name={NAME}",
        "Comment=Grows your private, searchable memory",
        "Icon=sapwood",
        f"TryExec={_as_string(start.program[0])}",
        f"Exec={exec_value(start.argv)}",
        "Terminal=false",
        "StartupNotify=false",
        "X-GNOME-Autostart-enabled=true",
    )
    return "".join(f"{line}\n" for line in lines)


class XdgEntry:
    """``sapwood.desktop`` in an autostart folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism.XDG

    @property
    def path(self) -> str:
        return str(self._file)

    def read(self) -> Found | None:
        try:
            text = self._file.read_text(*_ENCODING)
        except FileNotFoundError:
            return None
        keys = _keys(text)
        if "Exec" not in keys:
            if keys.get("Hidden", "").lower() == "true":
                return None  # that is how a user says that an entry of the system is as if it were deleted
            raise ValueError("it has no Exec")
        start = Start.parse(exec_words(keys.get("Exec", "")))
        for key, off in (("Hidden", "true"), ("X-GNOME-Autostart-enabled", "false")):
            if keys.get(key, "").lower() == off:
                return Found(start, f"{SWITCHED_OFF} ({key}={off})")
        if "%" in "".join(start.program):
            return Found(start, f"no desktop starts a program with % in its path: move it from {start.program[0]}")
        return Found(start, doubt=_doubt(start))

    def write(self, start: Start) -> None:
        if any("\0" in word for word in start.argv):
            raise ValueError("a path has a zero byte in it")
        self._put(entry_text(start))

    def mend(self, start: Start) -> None:
        text = self._file.read_text(*_ENCODING)
        keys = {"Exec": exec_value(start.argv), "TryExec": _as_string(start.program[0])}
        self._put(_with_keys(text, keys))

    def remove(self) -> bool:
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        return True

    def _put(self, text: str) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._file.with_name(f".{FILE}.{os.getpid()}")
        try:
            draft.write_text(text, *_ENCODING)
            os.replace(draft, self._file)
        finally:
            draft.unlink(missing_ok=True)


def _keys(text: str) -> dict[str, str]:
    """Return the keys of the entry's own group; those of actions behind it are other programs."""
    return dict(pair for _, pair in _pairs(text.splitlines()))


def _with_keys(text: str, keys: Mapping[str, str]) -> str:
    lines = text.splitlines()
    for at, (key, _) in list(_pairs(lines)):
        if key in keys:
            lines[at] = f"{key}={keys[key]}"
    return "".join(f"{line}\n" for line in lines)


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, str]]]:
    inside = False
    for at, line in enumerate(lines):
        if line.startswith("["):
            inside = line.strip() == GROUP
        elif inside and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            yield at, (key.strip(), value.strip())
