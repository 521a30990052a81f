"""Looks of ``sapwood self-test`` at the real processes: commands, workers, agent, page, assistants, icon, end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agent.actions.checks.result import Check
from agent.actions.companions import CompanionStatus, companion_of
from agent.actions.demo import SAMPLES
from agent.actions.self_test_trying import ANSWER, END_S, QUESTION, REPORT, Tried, beside, program
from agent.errors import AgentFault, SapwoodError
from agent.paths import Paths
from agent.states import CompanionState

GROW_S = 120.0
START_S = 20.0
TRAY_S = 10.0
COMMAND_S = 30.0
PAGE_BYTES = 1_000_000


def look_at_closed_streams(tried: Tried) -> Iterator[Check]:
    """Yield whether commands come to their end that are started with stdin, stdout and stderr closed."""
    for words in (("--version",), ("status", "--json"), ("logs",)):
        code = run_closed([*program(), *words], tried.environment(), beside())
        if code != 0:
            yield Check("closed streams", False, f"`sapwood {' '.join(words)}` ended with {code} without them", REPORT)
            return
    yield Check("closed streams", True, "commands need none")


def run_closed(argv: list[str], environment: Mapping[str, str], folder: Path) -> int:
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


def look_at_growing(tried: Tried) -> Iterator[Check]:
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


def look_at_agent(tried: Tried) -> Iterator[Check]:
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


def look_at_page(tried: Tried) -> Iterator[Check]:
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


def look_at_assistants(tried: Tried) -> Iterator[Check]:
    """Yield whether an assistant that starts ``sapwood mcp`` is answered, and offered the memory."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "self-test", "version": "1"}}
    asked = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    )
    process = subprocess.Popen(
        [*program(), "mcp"],
        cwd=beside(),
        env=tried.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # A pipe has no time limit of its own: ended, it says nothing more.
    overdue = threading.Timer(COMMAND_S, process.kill)
    overdue.start()
    tools: list[str] = []
    try:
        process.stdin.write("".join(json.dumps(each) + "\n" for each in asked).encode())
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == asked[-1]["id"]:
                tools = [tool["name"] for tool in answer.get("result", {}).get("tools", ())]
                break
        process.stdin.close()
        process.wait()
    finally:
        overdue.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    words = f"offered {', '.join(tools)}" if tools else f"no tools; `sapwood mcp` ended with {process.returncode}"
    yield Check("assistants", "search_memory" in tools and process.returncode == 0, words, REPORT)


def look_at_tray(tried: Tried) -> Iterator[Check]:
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


def look_at_ending(tried: Tried) -> Iterator[Check]:
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
