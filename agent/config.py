"""The owner's intent: ``config.toml``.

Written atomically under a lock, the last good copy kept. A broken file never stops the agent: it goes on with the
last good copy and says so. Any value can be overridden by ``SAPWOOD_<SECTION>__<KEY>``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec

from agent.errors import ConfigBroken
from agent.paths import Paths
from agent.profile_intent import BUILTIN, ProfileIntent, profile_problem

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


@dataclass(frozen=True)
class QueueIntent:
    """Leases and what happens to jobs that fail."""

    lease_seconds: Seconds = 300.0
    crash_limit: Count = 3
    poll_seconds: Seconds = 5.0
    extract_batch: Count = 32
    keep_done_days: Seconds = 7.0
    keep_done_rows: Count = 50_000
    max_ready_ingest: Count = 200


@dataclass(frozen=True)
class LimitsIntent:
    """After how many seconds a run of each kind is ended, and how large workers and files may be (bytes)."""

    extract_chunk: Seconds = 120.0
    append_buffer: Seconds = 30.0
    seal: Seconds = 300.0
    flush_stale: Seconds = 30.0
    reembed_backfill: Seconds = 120.0
    seal_document: Seconds = 300.0
    sync_source: Seconds = 300.0
    ingest_file: Seconds = 300.0
    other: Seconds = 300.0
    worker_rss_bytes: Count = 1_500_000_000
    recycle_rss_bytes: Count = 400_000_000
    document_bytes: Count = 16 * 1024 * 1024
    mail_bytes: Count = 64 * 1024 * 1024


@dataclass(frozen=True)
class PoolIntent:
    """How many workers there are."""

    min_workers: Count = 1
    max_workers: Count = 4
    idle_seconds: Seconds = 60.0


@dataclass(frozen=True)
class SupervisorIntent:
    """Restarts and the tick."""

    failure_limit: Count = 5
    failure_window_seconds: Seconds = 600.0
    healthy_seconds: Seconds = 600.0
    backoff_base_seconds: Seconds = 1.0
    backoff_cap_seconds: Seconds = 60.0
    slow_retry_seconds: Seconds = 600.0
    tick_busy_seconds: Seconds = 15.0
    tick_idle_seconds: Seconds = 30.0
    wake_grace_seconds: Seconds = 30.0


@dataclass(frozen=True)
class SweepIntent:
    """The bounds of the sweeps that find work again from domain state."""

    batch: Count = 500
    interval_s: Seconds = 10.0


@dataclass(frozen=True)
class TreeIntent:
    """When tails are closed."""

    flush_leaves_seconds: Seconds = 3_600.0
    flush_above_seconds: Seconds = 86_400.0


@dataclass(frozen=True)
class ScheduleIntent:
    """When sources are looked at again, and the zone that days are cut in (IANA name; empty: the system's).

    ``watch``: changes are noticed as they happen, at least ``watch_seconds`` apart; the look every ``sync_seconds``
    stays as the safety net.
    """

    sync_seconds: Seconds = 900.0
    watch: bool = True
    watch_seconds: Annotated[float, msgspec.Meta(ge=1)] = 2.0
    timezone: str = ""


@dataclass(frozen=True)
class ModelsIntent:
    """Which profile is active, and what counts as local: hosts besides this machine, and how many of their models fit
    into memory at once.
    """

    active: str = BUILTIN
    local_hosts: tuple[str, ...] = ()
    local_permits: Count = 1


@dataclass(frozen=True)
class PowerIntent:
    """When the machine's own state holds the work back.

    On battery nothing that loads the machine starts below ``battery_floor`` (0 … 1). Memory is short below
    ``memory_bytes`` available; the processor is busy above ``cpu_busy`` (0 … 1, our own share subtracted). A state is
    left after ``dwell_seconds`` at the earliest.
    """

    enabled: bool = True
    battery_floor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 500_000_000
    cpu_busy: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.75
    sample_seconds: Seconds = 30.0
    dwell_seconds: Seconds = 60.0


@dataclass(frozen=True)
class DesktopIntent:
    """What of the agent is seen on the desktop."""

    tray: bool = True
    notifications: bool = True


@dataclass(frozen=True)
class GatewayIntent:
    """The local page. ``port`` 0 is any free one; without a page open it ends after ``idle_seconds``."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    idle_seconds: Seconds = 1_800.0


@dataclass(frozen=True)
class AssistantsIntent:
    """What assistants (``sapwood mcp``) may read. ``private``: the sources named private too."""

    private: bool = False


@dataclass(frozen=True)
class SourceIntent:
    """One source the owner named. ``id`` never changes; ``paths`` are absolute.

    ``include`` and ``exclude`` are patterns in the syntax of ``.gitignore``; with ``include`` only what matches is
    read. ``hidden``: names that begin with a dot are read too. ``max_bytes`` overrides ``limits.document_bytes``.
    """

    id: str
    kind: str
    name: str
    paths: tuple[str, ...]
    private: bool = False
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    hidden: bool = False
    max_bytes: Count | None = None


@dataclass(frozen=True)
class WrongProfile:
    """A table of ``profiles`` that is none: why, and what helps. It stops nothing but itself."""

    name: str
    problem: str
    hint: str


@dataclass(frozen=True)
class Intent:
    """All of ``config.toml``. ``wrong_profiles`` are left out of ``profiles``."""

    queue: QueueIntent = field(default_factory=QueueIntent)
    limits: LimitsIntent = field(default_factory=LimitsIntent)
    pool: PoolIntent = field(default_factory=PoolIntent)
    supervisor: SupervisorIntent = field(default_factory=SupervisorIntent)
    sweep: SweepIntent = field(default_factory=SweepIntent)
    tree: TreeIntent = field(default_factory=TreeIntent)
    schedule: ScheduleIntent = field(default_factory=ScheduleIntent)
    models: ModelsIntent = field(default_factory=ModelsIntent)
    power: PowerIntent = field(default_factory=PowerIntent)
    desktop: DesktopIntent = field(default_factory=DesktopIntent)
    gateway: GatewayIntent = field(default_factory=GatewayIntent)
    assistants: AssistantsIntent = field(default_factory=AssistantsIntent)
    profiles: tuple[ProfileIntent, ...] = ()
    sources: tuple[SourceIntent, ...] = ()
    wrong_profiles: tuple[WrongProfile, ...] = ()

    def source(self, source_id: str) -> SourceIntent | None:
        """Return the source with this id, or ``None``."""
        return next((source for source in self.sources if source.id == source_id), None)

    def profile(self, name: str) -> ProfileIntent | None:
        """Return the profile with this name, or ``None``: there is none, or it is the built-in one."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    @property
    def active_profile(self) -> ProfileIntent | None:
        """The active profile; ``None`` for the built-in one and for a name that no profile has."""
        return self.profile(self.models.active)

    @property
    def active_problem(self) -> tuple[str, str] | None:
        """Why no model can be asked for what waits, and what helps; ``None`` for a profile that says enough.

        Nothing is failed for that: what needs a model waits until its owner has mended it.
        """
        name, profile = self.models.active, self.active_profile
        if name == BUILTIN:
            return None
        if profile is None:
            wrong = next((each for each in self.wrong_profiles if each.name == name), None)
            if wrong is not None:
                return f"the model profile '{name}' cannot be used: {wrong.problem}", wrong.hint
            known = ", ".join([BUILTIN, *(each.name for each in self.profiles)])
            return f"there is no model profile '{name}'", f"`sapwood model use NAME`; there are: {known}"
        if profile.embedding_model and profile.embedding_dimensions is None:
            return (
                f"it is not known yet how long the vectors of {profile.embedding_model} are",
                f"`sapwood model test {name}` finds that out",
            )
        return None

    def is_local(self, profile: ProfileIntent) -> bool:
        """Return whether what is sent to a profile's address stays on this machine or one the owner named as local."""
        return profile.is_local(self.models.local_hosts)

    def is_private(self, source_id: str) -> bool:
        """Return whether nothing of this source may go to a cloud.

        So it is with a source that nobody names (any more): what its owner would say of it is not known.
        """
        source = self.source(source_id)
        return source is None or source.private

    def time_limit_s(self, kind: str) -> float:
        """Return after how many seconds a run of this kind is ended."""
        limit: float = getattr(self.limits, kind, self.limits.other)
        return limit


@dataclass(frozen=True)
class Loaded:
    """An intent and where it came from. ``problem`` says why it is the last good copy, where it is."""

    intent: Intent
    stamp: tuple[int, int, int]
    problem: str | None = None


def parse_intent(text: str, environ: Mapping[str, str] | None = None) -> Intent:
    """Return the intent in a TOML text with the environment's overrides.

    Raises ``ConfigBroken``, as ``EnvironmentBroken`` where an override is at fault.
    """
    try:
        data: dict[str, Any] = tomllib.loads(text)
        _override(data, os.environ if environ is None else environ)
        data.pop("wrong_profiles", None)
        tables = data.pop("profiles", [])
        intent = msgspec.convert(data, Intent, strict=True)
        return replace(intent, **_profiles(tables, intent.models.local_hosts))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        raise ConfigBroken(
            "config.toml cannot be read", str(error), "mend what is named with `sapwood config edit`"
        ) from error


def _profiles(tables: Any, local_hosts: tuple[str, ...]) -> dict[str, Any]:
    """Return the profiles that can be used and those that cannot. Raises ``ValueError`` where these are no tables."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("profiles are tables of their own - at `$.profiles`")
    sound: dict[str, ProfileIntent] = {}
    wrong: list[WrongProfile] = []
    for at, table in enumerate(tables):
        name = str(table.get("name", f"number {at + 1}"))
        try:
            profile = msgspec.convert(table, ProfileIntent, strict=True)
        except msgspec.ValidationError as error:
            said = str(error).replace("`$", f"`$.profiles[{at}]")
            wrong.append(WrongProfile(name, said, "mend it with `sapwood config edit`"))
            continue
        problem = key_problem(profile) or profile_problem(profile, local_hosts)
        if problem is None and name in sound:
            problem = ("another profile has this name", "give one of the two another name with `sapwood config edit`")
        if problem is None:
            sound[name] = profile
        else:
            wrong.append(WrongProfile(name, *problem))
    return {"profiles": tuple(sound.values()), "wrong_profiles": tuple(wrong)}


def key_problem(profile: ProfileIntent) -> tuple[str, str] | None:
    """Return the problem of a profile that has a key in the place of a key's name. It is not repeated anywhere."""
    key = profile.key
    if not key:
        return None
    from agent.masking.mask import mask_secrets
    from agent.masking.shapes import telling_beginnings

    begins = key.startswith(tuple(telling_beginnings())) and any(map(str.isdigit, key))
    if not begins and mask_secrets(key) == key:
        return None
    return (
        "a key stands in config.toml, where the name of one belongs",
        f"take it out and make a new one at the provider; `sapwood key set {profile.provider}` keeps it",
    )


class EnvironmentBroken(ConfigBroken):
    """The environment's word on a setting cannot be read; no file is at fault."""


def _environment_broken(detail: str, variable: str) -> EnvironmentBroken:
    return EnvironmentBroken("a setting in the environment cannot be read", detail, f"mend or unset {variable}")


def _override(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    sections = {item.name: hint for item, hint in _sections()}
    for name, raw in environ.items():
        if not name.startswith("SAPWOOD_") or "__" not in name:
            continue
        section, _, key = name.removeprefix("SAPWOOD_").lower().partition("__")
        kind = sections.get(section)
        if kind is None or key not in {item.name for item in fields(kind)}:
            raise _environment_broken(f"{name} names no setting", name)
        hint = get_type_hints(kind)[key]
        try:
            data.setdefault(section, {})[key] = msgspec.convert(raw, hint, strict=False)
        except msgspec.ValidationError as error:
            raise _environment_broken(f"{name}: {error}", name) from error


def _sections() -> list[tuple[Any, Any]]:
    hints = get_type_hints(Intent)
    return [(item, hints[item.name]) for item in fields(Intent) if is_dataclass(hints[item.name])]


def load_intent(paths: Paths, environ: Mapping[str, str] | None = None) -> Loaded:
    """Return the intent; where the file is broken, the last good copy with the problem in words.

    Raises ``ConfigBroken`` only where there is no good copy either. A missing file is an empty intent.
    """
    stamp = stamp_of(paths.config_file)
    try:
        text = paths.config_file.read_text("utf-8")
    except FileNotFoundError:
        return Loaded(parse_intent("", environ), stamp)
    except (OSError, UnicodeDecodeError) as error:
        return _last_good(paths, stamp, f"{paths.config_file}: {error}", environ)
    try:
        return Loaded(parse_intent(text, environ), stamp)
    except EnvironmentBroken:
        raise  # an older copy of the file would not help
    except ConfigBroken as error:
        return _last_good(paths, stamp, error.detail, environ)


def _last_good(paths: Paths, stamp: tuple[int, int, int], problem: str, environ: Mapping[str, str] | None) -> Loaded:
    try:
        text = paths.last_good_config.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigBroken(
            "config.toml cannot be read", problem, f"mend it with `sapwood config edit`, or remove {paths.config_file}"
        ) from error
    return Loaded(parse_intent(text, environ), stamp, problem)


def stamp_of(path: Path | str) -> tuple[int, int, int]:
    """Return what changes when the file does: inode, size, time of change (ns); zeros where it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


class IntentWatcher:
    """The intent as of now: looks at the file's stamp on each call and reads it again only when that changed.

    ``on_good`` is called with the paths after a sound file was read: the supervisor keeps its last good copy there.
    """

    def __init__(self, paths: Paths, on_good: Callable[[Paths], object] | None = None) -> None:
        self._paths = paths
        self._on_good = on_good
        self._file = str(paths.config_file)  # looked at before every job: building the path costs more than the look
        self._loaded = load_intent(paths)
        self._tell()

    @property
    def current(self) -> Intent:
        """The intent, read again if the file changed. Never raises: a broken file leaves the last one in force."""
        stamp = stamp_of(self._file)
        if stamp != self._loaded.stamp:
            try:
                found = load_intent(self._paths)
            except ConfigBroken as error:
                found = Loaded(self._loaded.intent, stamp, error.detail)
            if found.problem is not None:
                # The copy may be older than what is in force: an owner's own edit must not be undone by a slip.
                found = replace(found, intent=self._loaded.intent)
            self._loaded = found
            self._tell()
        return self._loaded.intent

    def _tell(self) -> None:
        if self._on_good is not None and self._loaded.problem is None:
            self._on_good(self._paths)

    @property
    def problem(self) -> str | None:
        """Why the file could not be read, or ``None``."""
        return self._loaded.problem
