"""Looks of ``sapwood self-test`` that need no other process: modules, libraries, files, the built-in model, SQLite."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files

from agent.actions.checks.machine import look_at_sqlite
from agent.actions.checks.result import Check
from agent.actions.demo import SAMPLES
from agent.actions.self_test_trying import QUESTION, REINSTALL, REPORT, Tried
from agent.states import KeyState
from agent.system.keyring import SystemKeyring

_OF_ONE_SYSTEM = {"dbus_fast": "linux", "winreg": "win32", "_winapi": "win32"}
"""Libraries that only one system has; modules that use them are loaded there alone."""

_KEYRINGS = {"linux": ("secretstorage", "jeepney"), "win32": ("keyring.backends.Windows",)}
_NO_ANSWERS = ("the keyring cannot be asked", "the keyring's library")
"""What ``SystemKeyring`` says where its child is no good; every other answer is one of the keyring's own."""

_FOLDERS: tuple[tuple[str, str, int], ...] = (
    # package, what is in it, how many files at the least
    ("agent.models", "builtin/static256_i4.npz", 1),
    ("agent.models", "builtin/vocab.txt", 1),
    ("agent.models", "builtin/NOTICE", 1),
    ("agent.models", "prompts", 4),
    ("agent.gateway", "templates", 10),
    ("agent.gateway", "static", 2),
    ("agent.desktop", "icons", 3),
    *(("agent.actions", f"samples/{name}", 1) for name, _ in SAMPLES),
)


def look_at_modules(_tried: Tried) -> Iterator[Check]:
    """Yield whether every module loads, and all that the supervisor and the workers find by a name in a string."""
    import agent
    from agent.actions import running
    from agent.system.entry import find
    from agent.worker.kinds import KIND_NAMES

    count = 0
    broken = []
    for found in pkgutil.walk_packages(agent.__path__, "agent.", onerror=lambda _: None):
        count += 1
        broken += _problem(found.name, importlib.import_module)
    named = [value for name, value in vars(running).items() if name.isupper() and str(value).startswith("agent.")]
    for dotted in (*named, *KIND_NAMES):
        broken += _problem(dotted, find)
    if broken or not count:
        yield Check("modules", False, "; ".join(broken) or "none is found", REINSTALL)
    else:
        yield Check("modules", True, f"{count} loaded, and the {len(named) + len(KIND_NAMES)} that are found by name")


def _problem(name: str, load: Callable[[str], object]) -> list[str]:
    try:
        load(name)
    except ImportError as error:
        lacking = (error.name or "").partition(".")[0]
        if _OF_ONE_SYSTEM.get(lacking, sys.platform) != sys.platform:
            return []
        return [f"{name}: {error}"]
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"]
    return []


def look_at_libraries(_tried: Tried) -> Iterator[Check]:
    """Yield whether those load that come into play only once a model or a keyring is asked."""
    from agent.models.providers.opening import load_sdk

    broken = []
    for provider in ("ollama", "openai", "anthropic"):
        broken += _problem(provider, load_sdk)
    more = _KEYRINGS.get(sys.platform, ("keyring.backends.macOS",))
    for name in ("keyring", "mcp", "uvicorn", "regex", "watchfiles", *more):
        broken += _problem(name, importlib.import_module)
    yield Check("libraries", not broken, "; ".join(broken) or "those of models, keyring and page load", REINSTALL)


def look_at_data_files(_tried: Tried) -> Iterator[Check]:
    """Yield whether what we read as files is there."""
    missing = []
    for package, name, at_least in _FOLDERS:
        place = files(package)
        for part in name.split("/"):
            place = place / part
        found = 1 if place.is_file() else sum(1 for _ in place.iterdir()) if place.is_dir() else 0
        if found < at_least:
            missing.append(f"{package.replace('.', '/')}/{name}")
    yield Check("data files", not missing, f"missing: {', '.join(missing)}" if missing else "all there", REINSTALL)


def look_at_meaning(_tried: Tried) -> Iterator[Check]:
    """Yield whether the built-in model reads its table."""
    from agent.models.builtin.embedding import BuiltinEmbedder

    vectors = BuiltinEmbedder().embed([QUESTION])
    yield Check("built-in model", bool(vectors.any()), "its table is read", REINSTALL)


def look_at_sqlite_itself(tried: Tried) -> Iterator[Check]:
    """Yield whether the SQLite of this build may be used."""
    yield from look_at_sqlite(tried.paths)


def look_at_keyring(_tried: Tried) -> Iterator[Check]:
    """Yield whether our child that asks the keyring answers; a login without a keyring is an answer."""
    answer = SystemKeyring().look()
    if answer.state is KeyState.TIMED_OUT:
        yield Check("keyring", True, "its child was started; the keyring itself did not answer in time")
    elif answer.reason.startswith(_NO_ANSWERS):
        yield Check("keyring", False, answer.reason, REPORT)
    else:
        yield Check("keyring", True, f"its child answers: {answer.reason or answer.backend}")
