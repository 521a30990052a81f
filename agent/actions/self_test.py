"""``sapwood self-test``: what a build runs on itself, with its real processes, in a home that is thrown away.

A frozen build lacks what nobody told it of, and only notices when an owner gets there. So every part is loaded, and
the program is started as its owner would start it: it grows the samples, is searched, shows its page and its icon, and
ends.
Nothing of the owner's is read or changed; their keyring is asked which of our names it holds.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agent.actions.checks.machine import look_at_sqlite
from agent.actions.checks.progress import Say, Told
from agent.actions.checks.result import Check, Diagnosis, guarded
from agent.actions.companions import CompanionStatus, companion_of
from agent.actions.demo import QUESTIONS, SAMPLES, throwaway_home
from agent.errors import AgentFault, SapwoodError
from agent.paths import Paths
from agent.states import CompanionState, KeyState
from agent.system.keyring import SystemKeyring, child_argv, child_environment

QUESTION = QUESTIONS[0]
ANSWER = "blue watering can"
"""Stands in two of the samples, and answers the question."""

GROW_S = 120.0
START_S = 20.0
TRAY_S = 10.0
END_S = 10.0
COMMAND_S = 30.0
LONGEST_QUOTE = 300
PAGE_BYTES = 1_000_000

REINSTALL = "this build lacks something: install Sapwood anew, and report it if that does not help"
REPORT = "please report this, with the words of this check"

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


@dataclass
class _Tried:
    """The throw-away agent: where it lives, how it is started, what was started and is still there."""

    paths: Paths
    samples: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return child_environment() | {
            "SAPWOOD_HOME": str(self.paths.config_dir.parent),
            # It works now, whatever the machine runs on, and speaks to nobody.
            "SAPWOOD_POWER__ENABLED": "false",
            "SAPWOOD_DESKTOP__NOTIFICATIONS": "false",
            "SAPWOOD_POOL__MAX_WORKERS": "2",
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start our own program with these words; what it complains of is kept."""
        with self.complaints.open("wb") as complaints:
            process = subprocess.Popen(
                [*_program(), *words],
                cwd=_beside(),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
            )
        self.running.append(process)
        return process

    @property
    def complaints(self) -> Path:
        return self.samples.parent / "complaints.txt"

    def last_words(self) -> str:
        """What the program that was started last said of its end, or else the last line of its log."""
        logs = sorted(self.paths.log_dir.glob("supervisor*.log"), key=lambda each: each.stat().st_mtime, reverse=True)
        for path in (self.complaints, *logs[:1]):
            with contextlib.suppress(OSError):
                words = " ".join(path.read_text("utf-8", "replace").split())
                if words:
                    return words[-LONGEST_QUOTE:]
        return "it said nothing"

    def close(self) -> None:
        """End whatever was started."""
        from agent.supervisor.control import call

        if any(process.poll() is None for process in self.running):
            with contextlib.suppress(SapwoodError, OSError):
                call(self.paths, "stop", 5.0)
        for process in self.running:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


Look = Callable[[_Tried], Iterator[Check]]


def self_test(*, say: Say | None = None) -> Diagnosis:
    """Try every part of this build and return what was found; blocks for ten seconds to a minute.

    Starts processes and ends all of them; ``say`` is told of each step. Never raises for what it finds.
    """
    told = Told(len(_LOOKS), say)
    checks: list[Check] = []
    with throwaway_home() as (paths, samples):
        tried = _Tried(paths, samples)
        try:
            for name, look in _LOOKS:
                told.step(name)
                checks += guarded(name, lambda look=look: look(tried))  # type: ignore[misc]
        finally:
            tried.close()
    return Diagnosis(all(check.ok for check in checks), tuple(checks))


def _program() -> list[str]:
    return child_argv("")[:-1]


def _beside() -> Path:
    return Path(__file__).resolve().parents[2]


# -- without processes ------------------------------------------------------------------------------------------------


def _modules(_tried: _Tried) -> Iterator[Check]:
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


def _libraries(_tried: _Tried) -> Iterator[Check]:
    """Yield whether those load that come into play only once a model or a keyring is asked."""
    from agent.models.providers.opening import load_sdk

    broken = []
    for provider in ("ollama", "openai", "anthropic"):
        broken += _problem(provider, load_sdk)
    more = _KEYRINGS.get(sys.platform, ("keyring.backends.macOS",))
    for name in ("keyring", "mcp", "uvicorn", "regex", "watchfiles", *more):
        broken += _problem(name, importlib.import_module)
    yield Check("libraries", not broken, "; ".join(broken) or "those of models, keyring and page load", REINSTALL)


def _data_files(_tried: _Tried) -> Iterator[Check]:
    missing = []
    for package, name, at_least in _FOLDERS:
        place = files(package)
        for part in name.split("/"):
            place = place / part
        found = 1 if place.is_file() else sum(1 for _ in place.iterdir()) if place.is_dir() else 0
        if found < at_least:
            missing.append(f"{package.replace('.', '/')}/{name}")
    yield Check("data files", not missing, f"missing: {', '.join(missing)}" if missing else "all there", REINSTALL)


def _meaning(_tried: _Tried) -> Iterator[Check]:
    from agent.models.builtin.embedding import BuiltinEmbedder

    vectors = BuiltinEmbedder().embed([QUESTION])
    yield Check("built-in model", bool(vectors.any()), "its table is read", REINSTALL)


def _sqlite(tried: _Tried) -> Iterator[Check]:
    yield from look_at_sqlite(tried.paths)


def _keyring(_tried: _Tried) -> Iterator[Check]:
    answer = SystemKeyring().look()
    if answer.state is KeyState.TIMED_OUT:
        yield Check("keyring", True, "its child was started; the keyring itself did not answer in time")
    elif answer.reason.startswith(_NO_ANSWERS):
        yield Check("keyring", False, answer.reason, REPORT)
    else:
        yield Check("keyring", True, f"its child answers: {answer.reason or answer.backend}")


# -- with the real processes ------------------------------------------------------------------------------------------


def _closed_streams(tried: _Tried) -> Iterator[Check]:
    """Yield whether commands come to their end that are started with stdin, stdout and stderr closed."""
    for words in (("--version",), ("status", "--json"), ("logs",)):
        code = _run_closed([*_program(), *words], tried.environment(), _beside())
        if code != 0:
            yield Check("closed streams", False, f"`sapwood {' '.join(words)}` ended with {code} without them", REPORT)
            return
    yield Check("closed streams", True, "commands need none")


def _run_closed(argv: list[str], environment: Mapping[str, str], folder: Path) -> int:
    """Run a program whose three streams are closed, not merely empty, and return its exit code."""
    if sys.platform == "win32":
        # No console and nothing inherited: that is how the login starts programs there.
        return subprocess.run(
            argv, cwd=folder, env=dict(environment), creationflags=0x8, timeout=COMMAND_S, check=False
        ).returncode
    # What runs from its source is found by the folder that -m starts in.
    actions = [(os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in (0, 1, 2)]
    given = dict(environment)
    if argv[1:2] == ["-m"]:
        given["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), given.get("PYTHONPATH"))))
    pid = os.posix_spawn(argv[0], argv, given, file_actions=actions)
    end = time.monotonic() + COMMAND_S
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, 9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _growing(tried: _Tried) -> Iterator[Check]:
    """Yield whether workers come up and grow the samples, and whether the answer is found in them."""
    from agent.actions.home import open_home
    from agent.actions.memory import search
    from agent.actions.sources import add

    with open_home(tried.paths) as home:
        for name, kind in SAMPLES:
            add(home, [str(tried.samples / name)], kind=kind)
    begun = time.monotonic()
    process = tried.start("run", "--once")
    try:
        code = process.wait(GROW_S)
    except subprocess.TimeoutExpired:
        yield Check("workers", False, f"the samples have not grown in {GROW_S:.0f} s", REPORT)
        return
    if code != 0:
        yield Check("workers", False, f"`sapwood run --once` ended with {code}: {tried.last_words()}", REPORT)
        return
    with open_home(tried.paths) as home:
        chunks, summaries = home.connection.all(
            "SELECT (SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = 'sealed'),"
            " (SELECT count(*) FROM mem_tree_summaries)"
        )[0]
        found = search(home, QUESTION, limit=3)
    grown = f"{chunks} passages, {summaries} summaries in {time.monotonic() - begun:.1f} s"
    yield Check("workers", bool(chunks and summaries), grown, REPORT)
    answered = any(ANSWER in " ".join(hit.text.split()) for hit in found.hits)
    yield Check("search", answered, f"{'found' if answered else 'did not find'} what was asked for", REPORT)


def _agent(tried: _Tried) -> Iterator[Check]:
    """Yield whether the agent starts; it runs for the looks that follow."""
    process = tried.start("run")
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            words = f"it ended with {process.returncode}: {tried.last_words()}"
            yield Check("agent", False, words, REPORT)
            return
        if _said(tried.paths).get("state") not in (None, "starting"):
            yield Check("agent", True, "runs")
            return
        time.sleep(0.05)
    yield Check("agent", False, f"it has not started in {START_S:.0f} s: {tried.last_words()}", REPORT)


def _said(paths: Paths) -> dict[str, Any]:
    from agent.supervisor.control import call

    with contextlib.suppress(SapwoodError, OSError):
        return call(paths, "status", 5.0)
    return {}


def _page(tried: _Tried) -> Iterator[Check]:
    """Yield whether the page comes up, lets in whoever has a link, once, and shows what was asked for."""
    from agent.actions.opening import page_link

    link = urlsplit(page_link(tried.paths))
    entered, headers, _ = _get(link.port, f"{link.path}?{link.query}" if link.query else link.path)
    cookie = headers.get("set-cookie", "").partition(";")[0]
    if not cookie:
        raise AgentFault("the page gave no session for its link", f"status {entered}", REPORT)
    again, headers, _ = _get(link.port, link.path)
    shown, _, body = _get(link.port, f"/?q={quote(QUESTION)}", cookie)
    style = _get(link.port, "/static/page.css", cookie)[0]
    problems = []
    if "set-cookie" in headers:
        problems.append(f"its link served twice (status {again})")
    if shown != HTTPStatus.OK or "watering" not in body:
        problems.append(f"it does not show what was asked for (status {shown})")
    if style != HTTPStatus.OK:
        problems.append(f"it has no style (status {style})")
    yield Check("page", not problems, "; ".join(problems) or "serves whoever comes by a link, and answers", REPORT)


def _get(port: int | None, path: str, cookie: str = "") -> tuple[int, dict[str, str], str]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=COMMAND_S)
    try:
        line.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = line.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read(PAGE_BYTES).decode("utf-8", "replace")
    finally:
        line.close()


def _tray(tried: _Tried) -> Iterator[Check]:
    """Yield whether there is an icon, or why this desktop has none."""
    end = time.monotonic() + TRAY_S
    found: CompanionStatus | None = None
    while time.monotonic() < end:
        found = companion_of(_said(tried.paths), "tray")
        if found is not None and found.state is not CompanionState.STARTING:
            break
        time.sleep(0.05)
    if found is None:
        yield Check("tray", False, "the agent says nothing of it", REPORT)
    elif found.is_up:
        yield Check("tray", True, found.words)
    elif found.state is CompanionState.IMPOSSIBLE and "lacks a part" not in found.reason:
        yield Check("tray", True, f"not tried, no desktop here: {found.reason}")
    else:
        yield Check("tray", False, found.words, REPORT)


def _ending(tried: _Tried) -> Iterator[Check]:
    """Yield whether the agent ends when it is told to, and all its processes with it."""
    from agent.actions.running import stop_agent
    from agent.system.identity import identify, is_alive

    pids = [process.pid for process in tried.running if process.poll() is None]
    children = [found for pid in pids for child in _children(pid) if (found := identify(child)) is not None]
    stopped = stop_agent(tried.paths, wait=True)
    end = time.monotonic() + END_S
    left = children
    while left and time.monotonic() < end:
        left = [child for child in left if is_alive(child)]
        time.sleep(0.02)
    words = f"{len(left)} of its processes live on" if left else f"and its {len(children)} processes with it"
    yield Check("end", stopped.ended and not left, f"the agent ends, {words}", REPORT)


def _children(pid: int) -> list[int]:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except (psutil.Error, OSError):
        return []


_LOOKS: tuple[tuple[str, Look], ...] = (
    ("modules", _modules),
    ("libraries", _libraries),
    ("data files", _data_files),
    ("built-in model", _meaning),
    ("sqlite", _sqlite),
    ("keyring", _keyring),
    ("closed streams", _closed_streams),
    ("workers", _growing),
    ("agent", _agent),
    ("page", _page),
    ("tray", _tray),
    ("end", _ending),
)
