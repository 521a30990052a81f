"""Whose program is at the other end of a connection within this machine.

A port of 127.0.0.1 is within reach of every user of the machine, and what lets a browser in can get away: a link stands
in the process table while the browser starts, a cookie goes to every port of the host. Linux's table of connections
says who made one. Other systems do not say it to programs without rights; there nothing is known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from enum import StrEnum
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING = "0A"
# As the tables write 127.0.0.1, by itself and as IPv6 programs reach it.
_HOSTS = frozenset({"0100007F", "0000000000000000FFFF00000100007F"})
_LOOKS = 3


class Peer(StrEnum):
    """Whose the other end is."""

    OWN = "own"  # of this user, or of the machine's administrator, whom nothing keeps out
    OTHER = "other"  # of another user
    GONE = "gone"  # closed already: there is nobody to answer, and nobody can say any more who it was
    UNKNOWN = "unknown"  # this system does not tell


def peer_of(client_port: int, own_port: int) -> Peer:
    """Return whose the program is that connected from a port of 127.0.0.1 to ours. Reads two small files of Linux."""
    if sys.platform != "linux":
        return Peer.UNKNOWN
    own = {os.getuid(), os.geteuid()}
    found = Peer.UNKNOWN
    for _ in range(_LOOKS):
        found = judge_peer(_rows(), client_port, own_port, own)
        if found is not Peer.GONE:
            break  # a row may be missed while others come and go
    if found is Peer.GONE and "microsoft" in os.uname().release.lower():
        return Peer.UNKNOWN  # Linux within Windows: a browser of Windows has no row here
    return found


def judge_peer(rows: Iterable[str], client_port: int, own_port: int, own: Collection[int]) -> Peer:
    """Return whose a connection is, from the rows of the tables. Pure.

    A table that does not even hold our own listening port is no table to go by.
    """
    is_table = False
    found = Peer.GONE
    for row in rows:
        fields = row.split()
        if len(fields) < 10:
            continue
        (host, port), (far_host, far_port) = _end(fields[1]), _end(fields[2])
        if fields[3] == _LISTENING:
            is_table = is_table or port == own_port
        elif port == client_port and far_port == own_port and {host, far_host} <= _HOSTS and fields[9] != "0":
            # Without an inode it is closed, and its user is written as 0 whoever it was.
            found = Peer.OWN if int(fields[7]) in (0, *own) else Peer.OTHER
    return found if is_table else Peer.UNKNOWN


def _end(field: str) -> tuple[str, int]:
    host, _, port = field.partition(":")
    try:
        return host, int(port, 16)
    except ValueError:
        return host, -1


def _rows() -> list[str]:
    rows: list[str] = []
    for table in _TABLES:
        try:
            rows += table.read_text("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
    return rows
