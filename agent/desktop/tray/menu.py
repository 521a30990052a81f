"""The menu of the tray: a pure function of what there is to show. No window, no process, no clock of its own.

A key names what an entry does and never changes; a label may. Back ends give keys their own numbers (``Numbers``), so
that a panel that has the menu open finds the same entry again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent.actions.by_clicking import in_the_tray, needs_beside, pause_words
from agent.actions.capabilities import BUILT, Capability
from agent.actions.glance import Glance
from agent.desktop.tray.pictures import Picture, picture_of
from agent.states import AgentState

LINE_LENGTH = 64
"""Of the state line: a menu as wide as a sentence is no menu."""
MODEL_PREFIX = "model:"
NAME = "Sapwood"


class Key(StrEnum):
    """What an entry does. Those of the model profiles are ``model:NAME``."""

    STATE = "state"
    OPEN = "open"
    PAUSE = "pause"
    PAUSE_HOUR = "pause-hour"
    PAUSE_TOMORROW = "pause-tomorrow"
    PAUSE_FOR_GOOD = "pause-for-good"
    RESUME = "resume"
    MODEL = "model"
    ADD_FOLDER = "add-folder"
    BUG_REPORT = "bug-report"
    OPEN_LOGS = "open-logs"
    AT_LOGIN = "at-login"
    QUIT = "quit"


class Mark(StrEnum):
    """What stands before a label."""

    NONE = ""
    CHECK = "checkmark"
    RADIO = "radio"


@dataclass(frozen=True)
class Entry:
    """One line of the menu; an empty label is a line between groups."""

    key: str
    label: str = ""
    is_enabled: bool = True
    mark: Mark = Mark.NONE
    is_marked: bool = False
    below: tuple[Entry, ...] = ()

    @property
    def is_separator(self) -> bool:
        """Whether this is a line between groups."""
        return not self.label


@dataclass(frozen=True)
class Shown:
    """All that a tray shows. ``wants_attention``: the icon asks to be looked at."""

    picture: Picture
    tooltip: str
    entries: tuple[Entry, ...]
    wants_attention: bool = False


@dataclass(frozen=True)
class Facts:
    """What the menu is made of. ``starts_at_login`` is ``None`` where that cannot be had here.

    ``trouble`` is what came of the owner's last click, where it came to nothing.
    """

    glance: Glance
    starts_at_login: bool | None = None
    trouble: str = ""
    capabilities: frozenset[Capability] = BUILT


def show(facts: Facts, now_ms: int) -> Shown:
    """Return what the tray shows at a moment (UTC ms). Pure, but for the zone that the machine is in."""
    line = facts.trouble or state_line(facts.glance, now_ms)
    found = facts.glance
    needs = "".join(f"\n{in_the_tray(need)}" for need in needs_beside(found, found.reason))
    return Shown(
        picture_of(found),
        f"{NAME}: {line}{needs}" if needs else f"{NAME}: {line}",
        tuple(_tidy(_entries(facts, shortened(line)))),
        wants_attention=found.state in (AgentState.ATTENTION, AgentState.ERROR),
    )


def _entries(facts: Facts, line: str) -> list[Entry]:
    found, has = facts.glance, facts.capabilities
    entries = [Entry(Key.STATE, line, is_enabled=False), _between(1), Entry(Key.OPEN, f"Open {NAME}")]
    if Capability.DIGEST in has:
        entries.append(Entry("digest", "Today's digest"))
    entries.append(_between(2))
    if found.running:
        # Also what the machine's state holds back can be let go on: `resume` does that.
        entries.append(_pause() if found.state is not AgentState.PAUSED else Entry(Key.RESUME, "Resume"))
    if Capability.MODELS in has:
        radios = tuple(
            Entry(f"{MODEL_PREFIX}{each.name}", _model_label(each.name, each.where), True, Mark.RADIO, is_active)
            for each in found.profiles
            for is_active in [each.name == found.profile]
        )
        entries.append(Entry(Key.MODEL, "Model", below=radios))
    if Capability.SOURCES in has:
        entries.append(Entry(Key.ADD_FOLDER, "Add folder…"))
    entries.append(_between(3))
    if Capability.HELP in has:
        entries += [Entry(Key.BUG_REPORT, "Save bug report…"), Entry(Key.OPEN_LOGS, "Open logs")]
    if facts.starts_at_login is not None:
        entries.append(Entry(Key.AT_LOGIN, "Start at login", True, Mark.CHECK, facts.starts_at_login))
    return [*entries, _between(4), Entry(Key.QUIT, f"Quit {NAME}")]


def _between(number: int) -> Entry:
    return Entry(f"between-{number}")


def _tidy(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without lines that part nothing."""
    kept: list[Entry] = []
    for entry in entries:
        if not (entry.is_separator and (not kept or kept[-1].is_separator)):
            kept.append(entry)
    return kept


def _pause() -> Entry:
    return Entry(
        Key.PAUSE,
        "Pause",
        below=(
            Entry(Key.PAUSE_HOUR, "For an hour"),
            Entry(Key.PAUSE_TOMORROW, "Until tomorrow"),
            Entry(Key.PAUSE_FOR_GOOD, "Until I resume"),
        ),
    )


def _model_label(name: str, where: str) -> str:
    return {"here": "Built in (nothing leaves this machine)", "local": f"{name} (on this machine)"}.get(
        where, f"{name} (cloud)"
    )


def state_line(found: Glance, now_ms: int) -> str:
    """Return what the agent does in a few words, to be read by a person who glances at it."""
    if found.state is AgentState.PAUSED and found.paused_until_ms is not None:
        return f"Paused {pause_words(found, now_ms)}"
    if found.is_offline and found.state in (AgentState.IDLE, AgentState.GROWING):
        return f"Offline: {_plain(found.reason.partition('; until')[0])}"
    return {
        AgentState.IDLE: "Idle" if not found.words else f"Idle: {_plain(found.words)}",
        AgentState.GROWING: f"Growing {found.words}",
        AgentState.PAUSED: f"Paused: {_plain(found.reason)}",
        AgentState.ATTENTION: f"Attention: {_plain(found.reason)}",
        AgentState.ERROR: f"Error: {_plain(found.reason)}",
        AgentState.STARTING: "Starting",
        AgentState.STOPPED: "Not running",
    }[found.state]


def _plain(reason: str) -> str:
    """Return a reason without what is to be typed: who looks at a menu has no terminal before them."""
    clauses = [clause for clause in reason.split("; ") if "`" not in clause]
    return "; ".join(clauses) or in_the_tray(reason)


def shortened(line: str) -> str:
    """Return a line that fits into a menu."""
    line = " ".join(line.split())
    if len(line) <= LINE_LENGTH:
        return line
    cut = line[: LINE_LENGTH - 1].rpartition(" ")[0] or line[: LINE_LENGTH - 1]
    return f"{cut.rstrip(' ,;:')}…"


@dataclass
class Numbers:
    """The numbers that a menu's entries have for a panel; a key keeps its number for as long as the process lives."""

    _given: dict[str, int] = field(default_factory=dict)

    def number(self, key: str) -> int:
        """Return the number of a key, 1 or more."""
        return self._given.setdefault(key, len(self._given) + 1)

    def key(self, number: int) -> str | None:
        """Return the key with a number, ``None`` where no entry ever had it."""
        return next((key for key, given in self._given.items() if given == number), None)


def flat(entries: Sequence[Entry]) -> list[Entry]:
    """Return all entries, those below others too."""
    return [each for entry in entries for each in (entry, *flat(entry.below))]


def shape_of(entries: Sequence[Entry]) -> tuple[object, ...]:
    """Return what two menus have in common between which only labels and marks differ."""
    return tuple((entry.key, shape_of(entry.below)) for entry in entries)
