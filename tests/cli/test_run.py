"""The command as an owner starts it: real processes, from nothing to a finished memory."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Sapwood, widths
from tests.cli.picture import README, headings, picture_in

COMMAND = [sys.executable, "-m", "agent.cli.main"]
TIMEOUT_S = 120

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / "home"


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start the command as a process of its own session; what is left of it at the end is killed."""
    started = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in err, err
    return Ran(process.returncode, out, err)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    with as_file(files("agent.actions").joinpath("samples")) as shipped:
        return Path(shutil.copytree(shipped, tmp_path / "samples"))


def test_run_once_grows_everything_and_ends(start: Start, sapwood: Sapwood, samples: Path) -> None:
    added = [
        sapwood("add", str(samples / name), "--json").document for name in ("notes", "club-mail.mbox", "club-chat")
    ]
    assert [(each["kind"], each["items"]) for each in added] == [("folder", 13), ("mbox", 25), ("irc", 3)]
    assert "the agent is not running; nothing is read until `sapwood run`" in sapwood("sync").err

    ran = finish(start("run", "--once", "--workers", "2"))
    assert ran.code == 0, ran.err
    assert "everything is grown" in ran.out

    found = sapwood("status", "--json").document
    assert found["queue"] | {"done": 0} == dict.fromkeys(found["queue"], 0)
    assert found["chunks"]["sealed"] > 20
    assert found["summaries"] > 3
    assert found["chunks"]["pending_extraction"] == found["chunks"]["admitted"] == found["chunks"]["buffered"] == 0
    assert sapwood("search", "greenhouse key", "--json").document["searched"] == "full"
    assert sapwood("doctor", "--json").document["ok"]

    # Nothing changed: a second run makes nothing anew.
    before = {tree["id"]: tree["summary_ids"] for tree in sapwood("tree", "--json").document["trees"]}
    assert finish(start("run", "--once", "--headless", "--json")).document["ended"] == "finished"
    assert {tree["id"]: tree["summary_ids"] for tree in sapwood("tree", "--json").document["trees"]} == before
    assert not sapwood("jobs", "--status", "ready", "--json").document["jobs"], "it ended with work left"

    # Something new: every run looks at all sources first, and reads what it finds.
    new = samples / "notes" / "found-later.md"
    new.write_text("# Found later\n\nThe zeppelin mooring is booked for the ninth of October.\n")
    assert finish(start("run", "--once", "--headless", "--json")).document["ended"] == "finished"
    assert "zeppelin" in sapwood("search", "zeppelin mooring", "--json").document["hits"][0]["text"]


def test_run_once_names_a_source_that_waits_for_an_answer(start: Start, sapwood: Sapwood, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(6):
        (notes / f"{number}.md").write_text(f"# Bed {number}\n\nRow {number} of the beans is sown.\n")
    sapwood("add", str(notes))
    ran = finish(start("run", "--once"))
    assert (ran.code, ran.out.strip()) == (0, "everything is grown")
    for number in range(5):
        (notes / f"{number}.md").unlink()
    ran = finish(start("run", "--once"))
    assert ran.code == 0, ran.err
    assert ran.out.strip().startswith("everything is grown, but much of notes is gone")
    assert "`sapwood sources`" in ran.out
    assert finish(start("run", "--once", "--json")).document["questions"] == ["notes"]
    assert "much of notes is gone" in sapwood("status").out
    assert sapwood("status", "--json").document["questions"] == ["notes"]
    sapwood("sync", "notes", "--refuse")
    assert "much of notes" not in sapwood("status").out
    assert finish(start("run", "--once")).out.strip() == "everything is grown"


def test_agent_runs_is_asked_and_stops(
    start: Start, sapwood: Sapwood, samples: Path, wait_until: Callable[..., None]
) -> None:
    agent = start("run")
    wait_until(lambda: sapwood("status", "--json").document["state"] == "idle", 30, "an idle agent")
    told = sapwood("add", str(samples / "notes"))
    assert told.code == 0
    assert told.err == ""
    wait_until(lambda: sapwood("sources", "--json").document["sources"][0]["chunks"] > 10, 30, "its reading")
    workers = sapwood("status", "--json").document["workers"]
    assert workers
    assert {"id", "pid", "job", "rss_bytes"} <= set(workers[0])

    second = finish(start("run"))
    assert second.code == 0
    assert second.out.strip() == "the agent is running already; see `sapwood status`"
    assert "Ctrl-C" not in second.err
    once = finish(start("run", "--once"))
    assert once.code == 0
    assert "sapwood status" in once.out

    assert sapwood("stop", "--wait").code == 0
    ran = finish(agent)
    assert ran.code == 0
    assert "the agent has ended" in ran.out
    assert sapwood("stop").code == 3


def test_paused_agent_says_so(start: Start, sapwood: Sapwood, wait_until: Callable[..., None]) -> None:
    start("run")
    wait_until(lambda: sapwood("status", "--json").document["state"] == "idle", 30, "an idle agent")
    sapwood("pause", "1h")
    found = sapwood("status", "--json").document
    assert found["state"] == "paused"
    assert found["paused_until"] in found["reason"]
    sapwood("resume")
    wait_until(lambda: sapwood("status", "--json").document["state"] == "idle", 30, "an idle agent again")


def test_interrupted_run_ends_cleanly_with_130(start: Start, sapwood: Sapwood, wait_until: Callable[..., None]) -> None:
    agent = start("run")
    wait_until(lambda: sapwood("status", "--json").document["state"] == "idle", 30, "an idle agent")
    os.killpg(agent.pid, signal.SIGINT)
    assert finish(agent).code == 130


def test_demo_shows_everything_and_leaves_nothing(home: Path, start: Start) -> None:
    ran = finish(start("demo"))
    assert ran.code == 0, ran.err
    assert max(widths(ran.out)) <= 80
    for part in ("notes (folder): 13 items", "The trees", "from a leaf to the root", "sapwood search", "sapwood add"):
        assert part in ran.out
    assert len(re.findall(r"^ *\d  ", ran.out, re.MULTILINE)) == 6
    shown = picture_in(README.read_text("utf-8"))
    assert shown.splitlines()[0] == ran.out.splitlines()[0]
    assert headings(shown) == headings(ran.out), "show it anew: python -m tests.cli.picture"
    assert max(widths(shown)) <= 80
    assert not home.exists()
    assert list(home.parent.glob("sapwood-demo-*")) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_demo_leaves_nothing(name: str, home: Path, start: Start, wait_until: Callable[..., None]) -> None:
    demo = start("demo")
    wait_until(lambda: list(home.parent.glob("sapwood-demo-*/home/run/agent.json")), 30, "the demo's agent")
    os.killpg(demo.pid, getattr(signal, name))
    assert finish(demo).code == 130
    assert list(home.parent.glob("sapwood-demo-*")) == []


def test_agent_starts_from_the_installed_script(home: Path) -> None:
    script = Path(sys.executable).with_name("sapwood")
    if not script.exists():
        pytest.skip("the package is not installed beside this Python")
    done = subprocess.run([script, "run", "--once"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
