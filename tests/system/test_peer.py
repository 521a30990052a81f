"""Whose program a connection within this machine is of."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent.system.peer import Peer, judge_peer, peer_of

PORT, CLIENT, ME = 0xB3C1, 0xD6F0, 1000
LISTEN = "0: 0100007F:B3C1 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 562759 1 0 100 0 0 10 0"
OURS = "1: 0100007F:B3C1 0100007F:D6F0 01 00000000:00000000 00:00000000 00000000 1000 0 77 1 0 20 4 30 10 -1"
MAPPED = "0000000000000000FFFF00000100007F"


def theirs(user: int, inode: int = 78, host: str = "0100007F", state: str = "01") -> str:
    zeros = "00000000:00000000 00:00000000 00000000"
    return f"2: {host}:D6F0 {host}:B3C1 {state} {zeros} {user} 0 {inode} 1 0 20 4 30 10 -1"


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (theirs(ME), Peer.OWN),
        (theirs(0), Peer.OWN),
        (theirs(1001), Peer.OTHER),
        (theirs(65534), Peer.OTHER),
        (theirs(1001, host=MAPPED), Peer.OTHER),
        (theirs(ME, host=MAPPED), Peer.OWN),
        (theirs(0, inode=0, state="05"), Peer.GONE),
        (theirs(0, inode=0, state="06"), Peer.GONE),
        ("", Peer.GONE),
        ("2: rubbish", Peer.GONE),
    ],
)
def test_a_connection_is_of_who_made_it(row: str, wanted: Peer) -> None:
    assert judge_peer([LISTEN, OURS, row], CLIENT, PORT, {ME}) is wanted


def test_without_a_table_nothing_is_known() -> None:
    assert judge_peer([], CLIENT, PORT, {ME}) is Peer.UNKNOWN
    assert judge_peer([theirs(1001)], CLIENT, PORT, {ME}) is Peer.UNKNOWN


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who made a connection")
def test_a_browser_of_the_windows_around_a_linux_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(name: str) -> None:
        monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "box", name, "#1", "x86_64")))

    monkeypatch.setattr("agent.system.peer._rows", lambda: [LISTEN])
    release("6.6.87.2-microsoft-standard-WSL2")
    assert peer_of(CLIENT, PORT) is Peer.UNKNOWN
    monkeypatch.setattr("agent.system.peer._rows", lambda: [LISTEN, OURS, theirs(Path("/proc/self").stat().st_uid + 1)])
    assert peer_of(CLIENT, PORT) is Peer.OTHER
    monkeypatch.setattr("agent.system.peer._rows", lambda: [LISTEN])
    release("6.12.0-generic")
    assert peer_of(CLIENT, PORT) is Peer.GONE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who made a connection")
@pytest.mark.parametrize("family", ["inet", "inet6"])
def test_a_real_connection_of_this_user_is_its_own_and_gone_once_closed(family: str) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        if family == "inet":
            client = socket.create_connection(("127.0.0.1", port))
        else:
            client = socket.socket(socket.AF_INET6)
            try:
                client.connect(("::ffff:127.0.0.1", port))
            except OSError:
                client.close()
                pytest.skip("this machine has no IPv6")
        with client, listening.accept()[0] as accepted:
            number = accepted.getpeername()[1]
            assert peer_of(number, port) is Peer.OWN
            client.close()
            assert peer_of(number, port) is Peer.GONE


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can be another user for a moment")
def test_a_real_connection_of_another_user_is_another_s() -> None:
    program = (
        "import encodings.idna, os, socket, sys; os.setuid(65534); "
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(20)
        port = listening.getsockname()[1]
        argv = [sys.executable, "-I", "-S", "-c", program, str(port)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as other:
            try:
                with listening.accept()[0] as accepted:
                    assert peer_of(accepted.getpeername()[1], port) is Peer.OTHER
            finally:
                other.communicate(b"")
