"""What was sent to models and what it cost: a row a day, and a line a call beside the ledger.

A row is written in the transaction that stores the answer it paid for (openhuman 6319: usage showed 0 tokens). The
line in ``usage.jsonl`` is on the disk as soon as the answer is there, so neither a crash in that moment nor a memory
that is grown again makes what was spent look less; whichever of both knows more is right, column by column.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from agent.db import Connection
    from agent.paths import Paths

COMPACT_BYTES = 256 * 1024
_COUNTS = ("calls", "invalid", "estimated", "tokens_in", "tokens_out", "cost_micros")
_LARGEST = 1 << 53  # no count of ours; a file that somebody handed over may say anything
_log = logging.getLogger("sapwood.models")


class Account(NamedTuple):
    """What usage is summed up by: ISO day of the owner's zone, profile, model, kind of job or what else asked."""

    day: str
    profile: str
    model: str
    kind: str


@dataclass(frozen=True)
class Spent:
    """Counts of an account. ``invalid``: calls whose answer was of no use; ``estimated``: calls that were counted here
    because the server did not say; ``cost_micros``: millionths of a US dollar.
    """

    calls: int = 0
    invalid: int = 0
    estimated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def __bool__(self) -> bool:
        return any(astuple(self))

    def most(self, other: Spent) -> Spent:
        """Return the greater of each count."""
        return Spent(*(max(mine, its) for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def lacks(self, other: Spent) -> Spent:
        """Return what the other counts more than this one."""
        return Spent(*(max(0, its - mine) for mine, its in zip(astuple(self), astuple(other), strict=True)))


def cost_micros(tokens_in: int, tokens_out: int, price_in: float | None, price_out: float | None) -> int:
    """Return the cost in millionths of a US dollar; prices are dollars per million tokens, nothing where not known."""
    return round(tokens_in * (price_in or 0.0) + tokens_out * (price_out or 0.0))


def meter_tx(connection: Connection, account: Account, spent: Spent) -> None:
    """Add to an account's row inside the caller's transaction."""
    connection.run(
        """
        INSERT INTO mem_tree_usage
               (day, profile, model, kind, calls, invalid, estimated, tokens_in, tokens_out, cost_micros)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (day, profile, model, kind) DO UPDATE
           SET calls = calls + excluded.calls, invalid = invalid + excluded.invalid,
               estimated = estimated + excluded.estimated, tokens_in = tokens_in + excluded.tokens_in,
               tokens_out = tokens_out + excluded.tokens_out, cost_micros = cost_micros + excluded.cost_micros
        """,
        (*account, *astuple(spent)),
    )


def read_rows(connection: Connection, since_day: str = "") -> dict[Account, Spent]:
    """Return the rows of all accounts from a day on."""
    rows = connection.all(
        """
        SELECT day, profile, model, kind, calls, invalid, estimated, tokens_in, tokens_out, cost_micros
          FROM mem_tree_usage
         WHERE day >= ?
         ORDER BY day, profile, model, kind
        """,
        (since_day,),
    )
    return {Account(*row[:4]): Spent(*row[4:]) for row in rows}


def read_row(connection: Connection, account: Account) -> Spent:
    """Return the row of one account, nothing spent where there is none."""
    row = connection.one(
        """
        SELECT calls, invalid, estimated, tokens_in, tokens_out, cost_micros
          FROM mem_tree_usage
         WHERE day = ?
           AND profile = ?
           AND model = ?
           AND kind = ?
        """,
        account,
    )
    return Spent() if row is None else Spent(*row)


# -- the file ---------------------------------------------------------------------------------------------------------


def usage_file(paths: Paths) -> Path:
    """Return the file of lines beside the ledger. Not the ledger itself: every change of that makes plans stale."""
    return paths.config_dir / "usage.jsonl"


def note_spent(paths: Paths, account: Account, spent: Spent) -> bool:
    """Write one line and wait for the disk; return whether it is there.

    Never raises: a disk that is full must not cost an answer that is paid for. The database's row says the same.
    """
    try:
        with _locked(paths):
            _append(paths, [(account, spent)])
            _compact_if_long(paths)
    except OSError as error:
        _log.warning("what a call took could not be written beside the ledger: %s", error.strerror or error)
        return False
    return True


def read_file(paths: Paths) -> dict[Account, Spent]:
    """Return what the file sums up to; lines that cannot be read count for nothing. Raises ``OSError``."""
    try:
        return _sum(usage_file(paths).read_bytes())
    except FileNotFoundError:
        return {}


def reconcile(connection: Connection, paths: Paths) -> int:
    """Let the database and the file know of each other's accounts, the greater count wins; return how many differed.

    For a start, when nobody is between the line and the row of a call. Writes nothing where both say the same.
    """
    with _locked(paths):
        lines, rows = read_file(paths), read_rows(connection)
        to_rows = {account: rows.get(account, Spent()).lacks(spent) for account, spent in lines.items()}
        to_lines = {account: lines.get(account, Spent()).lacks(spent) for account, spent in rows.items()}
        missing = [(account, spent) for account, spent in to_lines.items() if spent]
        if missing:
            _append(paths, missing)
        lost = {account: spent for account, spent in to_rows.items() if spent}
        if lost:
            with connection.write(full=True):
                for account, spent in lost.items():
                    meter_tx(connection, account, spent)
    return len({*lost, *(account for account, _ in missing)})


def unite_usage(paths: Paths, other: bytes) -> int:
    """Take over what another such file (of a backup) counts more than this one; return how many accounts that were."""
    theirs = _sum(other)
    if not theirs:
        return 0
    with _locked(paths):
        ours = read_file(paths)
        missing = {account: ours.get(account, Spent()).lacks(spent) for account, spent in theirs.items()}
        lines = [(account, spent) for account, spent in missing.items() if spent]
        if lines:
            _append(paths, lines)
    return len(lines)


def _sum(data: bytes) -> dict[Account, Spent]:
    found: dict[Account, Spent] = {}
    for line in data.split(b"\n"):
        try:
            entry: dict[str, Any] = json.loads(line)
            account = Account(*(str(entry[name]) for name in Account._fields))
            spent = Spent(*(min(max(0, int(entry.get(name, 0))), _LARGEST) for name in _COUNTS))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue
        found[account] = found.get(account, Spent()) + spent
    return found


def _line(account: Account, spent: Spent) -> bytes:
    counts = {name: count for name, count in zip(_COUNTS, astuple(spent), strict=True) if count}
    return json.dumps({**account._asdict(), **counts}, separators=(",", ":")).encode() + b"\n"


def _locked(paths: Paths) -> Any:
    from filelock import FileLock

    paths.config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(paths.config_dir / "usage.lock", timeout=10, fallback_to_soft=False)


def _append(paths: Paths, entries: Iterable[tuple[Account, Spent]]) -> None:
    text = b"".join(_line(account, spent) for account, spent in entries)
    path = usage_file(paths)
    fresh = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                text = b"\n" + text  # a line that a crash cut short is no line
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if fresh:
        from agent.config_edit import sync_folder

        sync_folder(paths.config_dir)


def _compact_if_long(paths: Paths) -> None:
    """Make one line of each account where the file has grown; the first line says how long it was when it was short."""
    path = usage_file(paths)
    size = path.stat().st_size
    if size <= COMPACT_BYTES:
        return
    with path.open("rb") as stream:
        first = stream.readline(200)
    try:
        compacted = int(json.loads(first)["compacted"])
    except (ValueError, TypeError, KeyError):
        compacted = 0
    if size <= 2 * compacted:
        return
    from agent.config_edit import write_atomically

    body = b"".join(_line(account, spent) for account, spent in sorted(read_file(paths).items()))
    write_atomically(path, json.dumps({"compacted": len(body)}) + "\n" + body.decode())
