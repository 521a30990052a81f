"""What a report says of the machine, this build, the settings and the agent. All words go through the masking."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent.clock import iso

if TYPE_CHECKING:
    from agent.actions.bug_masking import Masker
    from agent.config import Intent
    from agent.paths import Paths

ANSWER_SECONDS = 3.0
_LIBRARIES = (
    "anthropic apsw dbus-fast filelock httpx jinja2 keyring mcp msgspec numpy ollama openai pillow platformdirs psutil "
    "pydantic pystray starlette uvicorn watchfiles"
)
# The values of these say what a desktop is; what is not known of them is masked like anything else.
_DESKTOP = ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "DESKTOP_SESSION")
# Of these it counts only whether they are there.
_PRESENCE = (
    "DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR SSH_CONNECTION APPIMAGE FLATPAK_ID SNAP "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY"
)

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> tuple[T | None, str]:
    """Return what ``work`` returns and ``""``, or ``None`` and why not; waits no longer than so many seconds.

    What hangs goes on in a thread of its own that nobody waits for.
    """
    outcome: list[T] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="bug report", daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome:
        return outcome[0], ""
    if failure:
        return None, f"{type(failure[0]).__name__}: {failure[0]}"
    return None, f"no answer in {seconds:.0f} s"


def build_lines(masker: Masker) -> Iterator[str]:
    """Yield the versions of the program and of what it is made of."""
    from importlib import metadata

    from agent import __version__

    frozen = ", a frozen build" if getattr(sys, "frozen", False) else ""
    yield f"- sapwood {__version__}{frozen}"
    version = ".".join(map(str, sys.version_info[:3]))
    yield f"- Python {version}, {masker.text(platform.python_implementation())}, {platform.architecture()[0]}"
    with suppress(ImportError):
        import apsw

        yield f"- SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}"
    found = []
    for library in _LIBRARIES.split():
        try:
            found.append(f"{library} {_version(metadata.version(library))}")
        except metadata.PackageNotFoundError:
            found.append(f"{library} –")
    yield f"- libraries: {', '.join(found)}"


def _version(text: str) -> str:
    # Four figures of one would be taken for the address of a machine.
    return text if re.fullmatch(r"[0-9][0-9a-z.+-]{0,30}", text) else "[…]"


def machine_lines(paths: Paths, masker: Masker, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield what the program runs on."""
    from agent.actions.checks.machine import file_system_of, nearest
    from agent.actions.checks.result import size_words

    environ = os.environ if environ is None else environ
    # Who builds a kernel names it: only its figures are taken.
    release = re.match(r"[0-9]+(?:\.[0-9]+){0,3}", platform.release())
    figures = release[0] if release else ""
    yield f"- system: {masker.text(platform.system())} {figures} {masker.text(platform.machine())}"
    if sys.platform == "linux":
        with suppress(OSError):
            named = platform.freedesktop_os_release()
            yield f"- distribution: {masker.text(named.get('ID', ''))} {masker.text(named.get('VERSION_ID', ''))}"
    elif sys.platform == "darwin":
        yield f"- macOS {masker.text(platform.mac_ver()[0])}"
    for name in _DESKTOP:
        yield f"- {name}: {masker.text(environ[name].replace(':', ' ')) if environ.get(name) else 'not set'}"
    there = [name for name in _PRESENCE.split() if environ.get(name)]
    yield f"- also set: {', '.join(there) or 'none'}"
    yield f"- text encoding: {masker.text(sys.getfilesystemencoding())}; time zone {_zone()}"
    with suppress(Exception):
        import psutil  # type: ignore[import-untyped,unused-ignore]

        memory = psutil.virtual_memory()
        yield f"- memory: {size_words(memory.available)} available of {size_words(memory.total)}; {os.cpu_count()} CPUs"
        battery = getattr(psutil, "sensors_battery", lambda: None)()
        if battery is not None:
            yield f"- battery: {battery.percent:.0f} %, {'on mains' if battery.power_plugged else 'discharging'}"
    for name, folder in (("data", paths.data_dir), ("log", paths.log_dir), ("runtime", paths.runtime_dir)):
        with suppress(OSError):
            usage = shutil.disk_usage(nearest(folder))
            kind = masker.text(file_system_of(nearest(folder)) or "unknown")
            there_is = "" if folder.exists() else ", not there yet"
            yield f"- disk of the {name} folder: {size_words(usage.free)} free, {kind}{there_is}"


def _zone() -> str:
    from datetime import datetime

    # The offset alone: the zone's name tells where somebody lives.
    return datetime.now().astimezone().strftime("UTC%z")


def settings_lines(intent: Intent, masker: Masker) -> Iterator[str]:
    """Yield the settings that differ from what they are by default, sources and profiles by number."""
    from agent.config import Intent

    fresh = Intent()
    differs = False
    for section in dataclasses.fields(intent):
        ours, theirs = getattr(intent, section.name), getattr(fresh, section.name)
        if not dataclasses.is_dataclass(ours):
            continue
        for field in dataclasses.fields(ours):
            value = getattr(ours, field.name)
            if value != getattr(theirs, field.name):
                differs = True
                yield f"- {section.name}.{field.name}: {_value(value, masker)}"
    if not differs:
        yield "- all others as they are by default"
    for number, profile in enumerate(intent.profiles, 1):
        local = "local" if intent.is_local(profile) else "cloud"
        agreed = "with consent" if profile.consent else "without consent"
        yield (
            f"- profile-{number}: {profile.provider}, {local}, {agreed}, at {masker.text(profile.address)}, "
            f"chat {masker.text(profile.chat_model)}, embedding "
            f"{masker.text(profile.embedding_model) if profile.embedding_model else 'built in'}"
        )
    for wrong in intent.wrong_profiles:
        yield f"- a profile that is none: {masker.text(wrong.problem)}"
    for number, source in enumerate(intent.sources, 1):
        there = sum(os.path.exists(path) for path in source.paths)
        facts = [f"{there} of {len(source.paths)} paths there"]
        facts += [word for word, holds in (("private", source.private), ("hidden", source.hidden)) if holds]
        facts += [
            f"{len(held)} {word}" for word, held in (("include", source.include), ("exclude", source.exclude)) if held
        ]
        yield f"- source-{number}: {masker.text(source.kind)}, {', '.join(facts)}"


def _value(value: Any, masker: Masker) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str):
        known = masker.mark(value)
        return known if known.startswith(("source-", "profile-")) else masker.text(value)
    if isinstance(value, tuple):
        return f"{len(value)} named"
    return "set"


def agent_lines(paths: Paths, masker: Masker) -> Iterator[str]:
    """Yield what the running agent says of itself, its tray and its page."""
    from agent.supervisor.control import call, running_agent

    if running_agent(paths) is None:
        yield "- it is not running"
        return
    answer, problem = within(ANSWER_SECONDS + 1, lambda: call(paths, "status", ANSWER_SECONDS))
    if answer is None:
        yield f"- it runs and does not answer: {masker.text(problem)}"
        return
    for name in sorted(answer):
        if name in ("ok", "watching"):
            continue
        yield from _said(name, answer[name], masker)


def _said(name: str, value: Any, masker: Masker) -> Iterator[str]:
    label = masker.text(str(name))
    if isinstance(value, Mapping):
        inner = "; ".join(f"{masker.text(str(key))}: {masker.text(str(value[key]))}" for key in sorted(value, key=str))
        yield f"- {label}: {inner or 'none'}"
    elif isinstance(value, list):
        yield f"- {label}: {len(value)}"
        yield from (f"  - {masker.text(str(each))}" for each in value[:20])
    else:
        yield f"- {label}: {masker.text(str(value)) if value not in (None, '') else 'none'}"


def doctor_lines(paths: Paths, masker: Masker, seconds: float) -> Iterator[str]:
    """Yield what the doctor finds, as much as it finds in so many seconds."""
    from agent.actions.checks.result import Check
    from agent.actions.doctor import looking

    found: list[Check] = []

    def look() -> bool:
        for check in looking(paths):
            found.append(check)
        return True

    _, problem = within(seconds, look)
    for check in list(found):
        detail = masker.text(check.detail)
        yield f"- {'ok' if check.ok else 'NOT OK'} {masker.text(check.name)}: {detail}"
    if problem:
        yield f"- broken off: {masker.text(problem)}"


def folder_lines(paths: Paths) -> Iterator[str]:
    """Yield what lies beside the memory, by its own names alone."""
    from agent.actions.checks.result import size_words

    for name, path in (
        ("config.toml", paths.config_file),
        ("config.last-good.toml", paths.last_good_config),
        ("ledger.jsonl", paths.ledger),
        ("agent.json", paths.agent_file),
        ("gateway.json", paths.gateway_file),
    ):
        yield f"- {name}: {_size(path, size_words)}"


def _size(path: Path, words: Callable[[float], str]) -> str:
    try:
        info = path.stat()
    except FileNotFoundError:
        return "none"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    return f"{words(info.st_size)}, changed {iso(info.st_mtime_ns // 1_000_000)}"
