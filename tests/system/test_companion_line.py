"""What passes between the supervisor and a tray or a page: plain JSON, and nobody waits for who does not read."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest

from agent.paths import Paths
from agent.system.companion import EXIT_IMPOSSIBLE, CompanionArgs, CompanionLine, CompanionSender, Say
from agent.system.entry import EXIT_UNCAUGHT
from tests.conftest import REPOSITORY

LONG = "x" * 50_000


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = multiprocessing.Pipe(duplex=True)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_both_sides_speak_and_what_is_no_message_is_passed_over(ends: tuple[Connection, Connection]) -> None:
    ours, theirs = CompanionLine(ends[0]), CompanionLine(ends[1])
    assert ours.send(Say.STATE, state="idle", serial=3)
    assert theirs.receive() == {"say": "state", "state": "idle", "serial": 3}
    assert theirs.send(Say.UP, detail="here")
    assert ours.receive() == {"say": "up", "detail": "here"}
    for nonsense in (b"\xff", b"[]", b'"up"', b"{}"):
        ends[1].send_bytes(nonsense)
    theirs.send(Say.BYE)
    assert ours.receive() == {"say": "bye"}


def test_the_other_side_s_end_is_none_and_nothing_is_raised(ends: tuple[Connection, Connection]) -> None:
    ours = CompanionLine(ends[0])
    ends[1].close()
    assert ours.poll()
    assert ours.receive() is None
    assert not ours.send(Say.STOP)


def test_nobody_waits_for_who_never_reads_and_a_late_reader_hears_the_newest(
    ends: tuple[Connection, Connection], wait_until: Callable[..., None]
) -> None:
    sender, theirs = CompanionSender(CompanionLine(ends[0])), CompanionLine(ends[1])

    def post() -> None:
        """25 MB into a pipe of some hundred KB."""
        for serial in range(500):
            sender.post(Say.STATE, serial=serial, reason=LONG)
        sender.post(Say.STOP)

    posting = threading.Thread(target=post, daemon=True)
    posting.start()
    posting.join(5.0)
    assert not posting.is_alive(), "it waits for a reader"
    heard: list[dict[str, object]] = []

    def read() -> None:
        while (message := theirs.receive()) is not None:
            heard.append(message)

    reading = threading.Thread(target=read)
    reading.start()
    wait_until(lambda: len(heard) > 1 and heard[-1].get("serial") == 499, what="the newest")
    ends[0].close()
    sender.close()
    reading.join(10)
    assert len(heard) < 100, "old news are dropped"
    words = [message["say"] for message in heard]
    assert words.index("stop") == len(words) - 2, "and the end is said before the newest of them"


def test_sender_ends_with_its_reader_even_where_it_was_just_sending(
    ends: tuple[Connection, Connection], wait_until: Callable[..., None]
) -> None:
    sender = CompanionSender(CompanionLine(ends[0]))
    for serial in range(50):
        sender.post(Say.STATE, serial=serial, reason=LONG * 20)
    ends[1].close()
    sender.close(patience_s=10)
    assert ends[0].closed


@pytest.mark.parametrize(
    ("target", "code", "word"),
    [
        ("tests.system.no_such_part:main", EXIT_IMPOSSIBLE, "tests.system.no_such_part"),
        ("tests.system.test_companion_line:lacks_a_part", EXIT_IMPOSSIBLE, "a_toolkit_that_is_not_there"),
        ("tests.system.test_companion_line:fails", EXIT_UNCAUGHT, ""),
    ],
)
def test_what_is_not_installed_is_impossible_and_what_fails_has_failed(
    paths: Paths, target: str, code: int, word: str
) -> None:
    program = f"""
import multiprocessing, os, sys
from pathlib import Path
from agent.paths import paths_under
from agent.system.companion import CompanionArgs, CompanionLine
from agent.system.entry import enter
ours, theirs = multiprocessing.Pipe()
child = os.fork()
if child == 0:
    paths = paths_under(Path({str(paths.config_dir.parent)!r}))
    enter({target!r}, os.getppid(), CompanionArgs(paths, "tray", 0), theirs)
theirs.close()
print(CompanionLine(ours).receive())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False
    )
    message, ended = done.stdout.splitlines()
    assert int(ended) == code
    assert word in message
    assert message.startswith("{'say': 'impossible'") is bool(word)


def lacks_a_part(args: CompanionArgs, connection: Connection) -> None:
    """Run by the test above in a process of its own."""
    import a_toolkit_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401


def fails(args: CompanionArgs, connection: Connection) -> None:
    """Run by the test above in a process of its own."""
    raise RuntimeError("on purpose")
