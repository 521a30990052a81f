"""What the server saw of its calls: counted while they run, kept afterwards, and written as lines of JSON."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ANSWERED, CLOSED_BY_CLIENT, CUT = "answered", "closed_by_client", "cut"


@dataclass
class Call:
    """One request. ``kind``: ``chat``, ``embed``, ``models``, ``facts`` or ``other``. Times are monotonic seconds.

    ``ended`` and ``how``: when and how it ended (``answered``, ``closed_by_client``, ``cut`` by the server); ``None``
    and ``""`` while it is in flight. When it began, ``side_by_side`` calls were in flight, it included.
    """

    number: int
    protocol: str
    kind: str
    model: str
    path: str
    body: Any
    headers: dict[str, str]
    peer_port: int
    behaviour: str
    began: float
    wall: float
    side_by_side: int = 0
    first_byte: float | None = None
    bytes_sent: int = 0
    ended: float | None = None
    how: str = ""

    @property
    def is_model_call(self) -> bool:
        return self.kind in ("chat", "embed")


@dataclass
class Record:
    """All calls. ``most`` is the most that were ever in flight at once; only chat and embedding count."""

    log: Path | None = None
    in_flight: int = 0
    most: int = 0
    _calls: list[Call] = field(default_factory=list)
    change: threading.Condition = field(default_factory=threading.Condition)
    _handle: int = -1

    def begin(self, make: Callable[[int], Call]) -> Call:
        with self.change:
            call = make(len(self._calls))
            if call.is_model_call:
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
            call.side_by_side = self.in_flight
            self._calls.append(call)
            self.change.notify_all()
        self._write("began", asdict(call))
        return call

    def sent(self, call: Call, size: int) -> None:
        with self.change:
            first = call.first_byte is None
            call.first_byte = call.first_byte or time.monotonic()
            call.bytes_sent += size
            self.change.notify_all()
        if first:
            self._write("first_byte", {"number": call.number, "first_byte": call.first_byte})

    def end(self, call: Call, how: str) -> None:
        """Take in that a call is over, the first word counts; before its last byte, which lets a caller go on."""
        with self.change:
            if call.ended is not None:
                return
            call.ended, call.how = time.monotonic(), how
            if call.is_model_call:
                self.in_flight -= 1
            self.change.notify_all()
        self._write("ended", {"number": call.number, "ended": call.ended, "how": how, "bytes_sent": call.bytes_sent})

    def calls(self) -> list[Call]:
        with self.change:
            return list(self._calls)

    def state(self) -> dict[str, int]:
        with self.change:
            return {"calls": len(self._calls), "in_flight": self.in_flight, "most": self.most}

    def clear(self) -> None:
        """Forget the calls that are over, and the most there were."""
        with self.change:
            self._calls = [call for call in self._calls if call.ended is None]
            self.most = self.in_flight

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _write(self, event: str, values: dict[str, Any]) -> None:
        if self.log is None:
            return
        if self._handle < 0:
            self._handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._handle, json.dumps({"event": event, **values}).encode("utf-8") + b"\n")


def calls_from(log: Path) -> list[Call]:
    """Return the calls that a log tells of, as they stand by now."""
    calls: dict[int, Call] = {}
    if not log.exists():
        return []
    for line in log.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if values.pop("event") == "began":
            calls[values["number"]] = Call(**values)
            continue
        for name, value in values.items():
            setattr(calls[values["number"]], name, value)
    return list(calls.values())
