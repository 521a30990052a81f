"""Files that were made to hurt: each is listed with its reason, and what lies beside them is read all the same.

The command itself runs here, with its own processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

GOOD = "# Quinces\n\nThe quinces behind the signal hut are ripe when they smell through the closed window.\n"
MEMORY_BYTES = 400_000_000


def sapwood(home: Path, *arguments: str, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli.main", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "SAPWOOD_HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def listed(home: Path) -> dict[str, str]:
    """Return what could not be read, with the reasons."""
    found: dict[str, Any] = json.loads(sapwood(home, "sources", "--json").stdout)
    return {each["item"]: each["reason"] for source in found["sources"] for each in source["unreadable"]}


def finds(home: Path, words: str) -> bool:
    hits = json.loads(sapwood(home, "search", "--json", words).stdout)["hits"]
    return any(words.split()[0] in hit["text"] for hit in hits)


def grow(home: Path, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    added = sapwood(home, "add", str(folder))
    assert added.returncode == 0, added.stderr
    grown = sapwood(home, "run", "--once", timeout=300, **env)
    assert grown.returncode == 0, grown.stderr
    return grown


# Between us and the agent: what a process is said to have held begins with what its parent held when it made it, and a
# test run that has seen much holds hundreds of megabytes.
MEASURING = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def peak_of_growing(home: Path) -> int:
    """Let a memory grow and return the most memory (bytes) that any process of that held."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURING, sys.executable, "-m", "agent.cli.main", "run", "--once"],
        cwd=REPOSITORY,
        env={**os.environ, "SAPWOOD_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def is_leased(path: Path) -> Iterator[None]:
    """Hold a lease on a file: whoever opens it waits until it is given back, or is refused if it does not wait."""
    import fcntl
    import signal

    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_each_hostile_file_is_listed_with_its_reason_and_the_good_one_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD)
    (folder / "binary.md").write_bytes(bytes(range(256)) * 400)
    (folder / "nul.txt").write_bytes(b"words and\0a NUL\n")
    (folder / "latin.txt").write_bytes("Die Quitten sind f\xfcr Marta\n".encode("latin-1"))
    (folder / "invalid.md").write_bytes(b"# Invalid\n\nbroken \xff\xfe\xc3 bytes, but words around them\n")
    (folder / "empty.md").write_bytes(b"")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "self.md").symlink_to(folder / "self.md")
    (folder / "out.md").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe.md")
    (folder / ("n" * 240 + ".md")).write_text("# A long name\n\nNames may be long.\n")
    (folder / "new\nline.md").write_text("# New line\n\nNames may hold a line end.\n")
    home = tmp_path / "home"
    grow(home, folder)
    reasons = listed(home)
    assert reasons == {
        "binary.md": "not a text: it contains NUL bytes",
        "nul.txt": "not a text: it contains NUL bytes",
        "pipe.md": "not a file: a pipe",
        **dict.fromkeys(("loop", "self.md", "out.md"), "a link; what it points to is not followed"),
    }
    state = json.loads(sapwood(home, "status", "--json").stdout)
    assert sum(state["items"].values()) == 6
    assert json.loads(sapwood(home, "jobs", "--status", "failed", "--json").stdout)["jobs"] == []
    assert finds(home, "quinces signal hut")
    assert finds(home, "broken words")
    assert finds(home, "Quitten Marta")
    assert not finds(home, (Path("/etc/hostname").read_text() or "x").strip())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="what a process used is told otherwise there")
def test_a_line_of_a_gigabyte_is_refused_by_its_size_in_bounded_memory(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD)
    block = b"a" * (1 << 20)
    for name in ("line.md", "page.html"):
        with (folder / name).open("wb") as stream:
            for _ in range(1024):
                stream.write(block)
    home = tmp_path / "home"
    assert sapwood(home, "add", str(folder)).returncode == 0
    peak = peak_of_growing(home)
    assert set(listed(home)) == {"line.md", "page.html"}
    assert finds(home, "quinces signal hut")
    (folder / "line.md").unlink()
    (folder / "page.html").unlink()
    box = tmp_path / "post.mbox"
    with box.open("wb") as stream:
        stream.write(b"From a@example.org Mon Mar  3 10:00:00 2025\nFrom: a@example.org\nSubject: long\n\n")
        for _ in range(1024):
            stream.write(block)
        stream.write(
            b"\n\nFrom b@example.org Mon Mar  3 11:00:00 2025\nFrom: b@example.org\nSubject: short\n"
            b"Message-ID: <short@example.org>\n\nThe marrows are late this year.\n"
        )
    assert sapwood(home, "add", str(box)).returncode == 0
    peak = max(peak, peak_of_growing(home))
    box.unlink()
    assert finds(home, "marrows late")
    (reason,) = [reason for item, reason in listed(home).items() if item not in ("line.md", "page.html")]
    assert reason.startswith("larger than 64 MB: it has 1024 MB")
    assert peak < MEMORY_BYTES


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="leases on files are Linux's")
def test_a_file_that_another_program_does_not_give_away_is_listed_and_read_later(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD)
    kept = folder / "kept.md"
    kept.write_text("# Kept\n\nNobody reads this for now.\n")
    home = tmp_path / "home"
    with is_leased(kept):
        grow(home, folder)
        assert finds(home, "quinces signal hut")
        assert set(listed(home)) == {"kept.md"}
    grown = sapwood(home, "run", "--once")
    assert grown.returncode == 0, grown.stderr
    assert listed(home) == {}
    assert finds(home, "Nobody reads this")


HANGING = """
import os, time

def around(call):
    def wrapped(path=".", *more, **named):
        while os.path.exists({gate!r}) and str(path).endswith({ending!r}):
            time.sleep(0.05)
        return call(path, *more, **named)
    return wrapped

os.open, os.scandir = around(os.open), around(os.scandir)
"""


@contextmanager
def hangs(tmp_path: Path, ending: str) -> Iterator[dict[str, str]]:
    """Give the settings of a machine where a call to what ends like this never comes back, in every process."""
    shim, gate = tmp_path / "shim", tmp_path / "gate"
    shim.mkdir()
    gate.touch()
    (shim / "sitecustomize.py").write_text(HANGING.format(gate=str(gate), ending=ending))
    try:
        yield {"PYTHONPATH": str(shim), "SAPWOOD_LIMITS__SYNC_SOURCE": "3", "SAPWOOD_LIMITS__INGEST_FILE": "3"}
    finally:
        gate.unlink()


@pytest.mark.slow
def test_a_read_that_hangs_is_given_up_and_listed_and_the_others_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD)
    (folder / "hung.md").write_text("# Hung\n\nNobody reads this for now.\n")
    (folder / "later.md").write_text("# Later\n\nThe marrows are late this year.\n")
    home = tmp_path / "home"
    assert sapwood(home, "add", str(folder)).returncode == 0
    with hangs(tmp_path, "hung.md") as settings:
        for _ in range(2):  # the second look hangs no worker
            grown = sapwood(home, "run", "--once", **settings)
            assert grown.returncode == 0, grown.stderr
            assert sapwood(home, "sync").returncode == 0
        assert finds(home, "quinces signal hut")
        assert finds(home, "marrows late")
        assert listed(home) == {"hung.md": "reading it does not come to an end"}
        assert ended(home) == 1
    grown = sapwood(home, "run", "--once")
    assert grown.returncode == 0, grown.stderr
    assert listed(home) == {}
    assert finds(home, "Nobody reads this")


@pytest.mark.slow
def test_a_folder_whose_listing_hangs_is_said_and_the_other_source_is_read(tmp_path: Path) -> None:
    for name in ("hung", "good"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(GOOD)
    home = tmp_path / "home"
    for name in ("hung", "good"):
        assert sapwood(home, "add", str(tmp_path / name)).returncode == 0
    with hangs(tmp_path, "/hung") as settings:
        grown = sapwood(home, "run", "--once", **settings)
        assert grown.returncode == 0, grown.stderr
        assert finds(home, "quinces signal hut")
        rows = {row["id"]: row for row in json.loads(sapwood(home, "sources", "--json").stdout)["sources"]}
        assert "does not come to an end" in rows["hung"]["error"]
        assert rows["good"]["error"] is None
        assert rows["good"]["items"] == 1


def ended(home: Path) -> int:
    """Return how many workers were ended for a limit, as the logs tell."""
    return sum(path.read_text().count(" is ended: ") for path in home.rglob("*.log"))
