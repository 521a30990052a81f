"""A small home of notes, mail and a chat, and its way through a model server that does what a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.actions.doctor import doctor
from agent.clock import FakeClock
from agent.config import load_intent
from agent.db import Connection, Database
from agent.models.keys import FakeKeys
from agent.models.summarising import ModelSummariser
from agent.models.surroundings import KEYS_KEY, MEMORY_KEY
from agent.paths import Paths
from agent.queue.enqueue import enqueue, enqueue_many_tx
from agent.queue.holds import HoldRow, read_hold
from agent.queue.registry import Registry, SweepContext
from agent.queue.run import LocalContext, drain_until_idle
from agent.queue.types import NewJob
from agent.system.memory import FakeMemory
from agent.tree.check import problems
from agent.tree.flush import close_all_tails, unfinished
from agent.worker.kinds import KIND_NAMES
from tests.scripted import Call, Serving

PROVIDERS = ("openai", "ollama", "anthropic")
MODEL = "scripted-chat"
PEOPLE = ("Anna", "Bertram", "Clara", "Dmitri", "Elena", "Fabio")
HOUR_MS = 3_600_000


def passage(number: int) -> str:
    who, other = PEOPLE[number % 6], PEOPLE[(number * 5 + 1) % 6]
    return (
        f"The pump in room {100 + number} was looked at by {who} on Monday. It needs a new valve before the winter. "
        f"Then {other} ordered one for {200 + number} EUR, and wants to hear from {who} when it comes. "
    )


def write_corpus(folder: Path) -> None:
    """Write what the owner has: three long notes and two of a line, six mails, one day of a chat."""
    (folder / "notes").mkdir(parents=True)
    for first, name in ((0, "pumps"), (70, "wells"), (90, "tanks")):
        long = "\n\n".join(passage(first + number) * 3 for number in range(6))
        (folder / "notes" / f"{name}.md").write_text(f"# {name.title()}\n\n{long}\n")
    (folder / "notes" / "lamp.md").write_text("ask Elena if the lamp in the hall goes\n")
    (folder / "notes" / "door.md").write_text("tell Fabio that the door of the shed is open\n")
    mails = [
        f"From a@example.org Mon Mar  3 10:00:00 2025\nFrom: {PEOPLE[number]} <a@example.org>\nTo: club@example.org\n"
        f"Subject: Pump {number}\nDate: Mon, 03 Mar 2025 {8 + number:02d}:00:00 +0000\n"
        f"Message-ID: <m{number}@example.org>\n\n{passage(30 + number) * 2}\n\n"
        for number in range(6)
    ]
    (folder / "mail.mbox").write_text("".join(mails))
    (folder / "chat").mkdir()
    lines = [f"[08:{minute:02d}] <{PEOPLE[minute % 6].lower()}> {passage(50 + minute)}" for minute in range(24)]
    (folder / "chat" / "2025-03-04.txt").write_text("\n".join(lines) + "\n")


def config_of(provider: str, base_url: str, folder: Path, **profile: Any) -> str:
    """Return ``config.toml`` with the sources and one profile, which is active."""
    values = {
        "name": "box",
        "provider": provider,
        "chat_model": MODEL,
        "base_url": base_url,
        "allow_http": True,
        "connect_seconds": 2.0,
        "read_seconds": 0.3,
        "total_seconds": 30.0,
    } | profile
    lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
    sources = [("notes", "folder", "notes"), ("mail", "mbox", "mail.mbox"), ("chat", "irc", "chat")]
    tables = [
        f'[[sources]]\nid = "{name}"\nkind = "{kind}"\nname = "{name}"\npaths = [{_toml(str(folder / path))}]\n'
        for name, kind, path in sources
    ]
    return (
        f'[models]\nactive = "{values["name"]}"\n\n' + "\n".join(tables) + "\n[[profiles]]\n" + "\n".join(lines) + "\n"
    )


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


@dataclass
class Growing:
    """The home, driven in this process on a clock that moves only when told to."""

    provider: str
    server: Serving
    paths: Paths
    database: Database
    context: LocalContext
    registry: Registry
    clock: FakeClock

    @property
    def connection(self) -> Connection:
        return self.context.connection

    def look(self) -> None:
        """Ask for a look at every source."""
        for source in self.context.intent.sources:
            enqueue(self.connection, NewJob.sync_source(source.id), self.clock.now_ms())

    def grow(self, horizon_ms: int = 2 * HOUR_MS, limit: int = 3_000) -> None:
        """Do what is due until nothing is within the horizon, closing the tails; time goes on by itself."""
        drain_until_idle(self.context, self.registry, flush=self._tails, horizon_ms=horizon_ms, limit=limit)

    def _tails(self, connection: Connection, now_ms: int) -> list[NewJob]:
        """Return the jobs that close the tails, but those that were parked: a sweep leaves them alone, too."""
        parked = {key for (key,) in connection.all("SELECT dedupe_key FROM mem_tree_jobs WHERE status = 'failed'")}
        return [job for job in close_all_tails(connection, now_ms) if job.dedupe_key not in parked]

    def turn(self, hours: float) -> None:
        """Let time pass and the sweeps look, as a supervisor does, until they find nothing more."""
        self.clock.advance(hours * 3_600)
        for _ in range(8):
            now_ms = self.clock.now_ms()
            context = SweepContext(self.connection, self.context.intent, now_ms, 500)
            jobs = [job for spec in self.registry if spec.sweep is not None for job in spec.sweep(context)]
            with self.connection.write():
                enqueue_many_tx(self.connection, jobs, now_ms, registry=self.registry)
            self.grow()
            self.clock.advance(60)

    def hold(self) -> HoldRow | None:
        return read_hold(self.connection, "box")

    def failed(self) -> list[tuple[str, str, str, str]]:
        """Return the failed rows: kind, class, code, and what the owner reads."""
        return [
            (str(kind), str(name), str(reason), str(error))
            for kind, name, reason, error in self.connection.all(
                """
                SELECT kind, failure_class, failure_reason, last_error
                  FROM mem_tree_jobs
                 WHERE status = 'failed'
                 ORDER BY id
                """
            )
        ]

    def waiting(self) -> list[tuple[str, str, str, int]]:
        """Return the ready rows of kinds that call a model: kind, code, reason, attempts."""
        return [
            (str(kind), str(code or ""), str(said or ""), int(attempts))
            for kind, code, said, attempts in self.connection.all(
                """
                SELECT kind, failure_reason, last_error, attempts
                  FROM mem_tree_jobs
                 WHERE status = 'ready' AND kind IN ('extract_chunk', 'seal', 'seal_document')
                """
            )
        ]

    def asked(self) -> list[Call]:
        """Return the chats that were answered to their end."""
        return [call for call in self.server.calls("chat") if call.how == "answered"]

    def degraded(self) -> tuple[int, int]:
        """Return how many summaries and chunks a fallback made."""
        summaries = self.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE degraded > 0")
        chunks = self.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE degraded > 0")
        return int(summaries), int(chunks)

    def models_own(self) -> int:
        """Return how many summaries the model wrote."""
        active = self.context.intent.active_profile
        assert active is not None
        own = ModelSummariser(active, None).signature
        return int(
            self.connection.value(
                "SELECT count(*) FROM mem_tree_summaries WHERE signature = ? AND degraded = 0", (own,)
            )
        )

    def usage(self) -> tuple[int, int, int]:
        """Return calls, calls in vain and tokens of both ways, as the meter has them."""
        return tuple(
            self.connection.all(
                "SELECT sum(calls), sum(invalid), sum(tokens_in + tokens_out) FROM mem_tree_usage WHERE profile = 'box'"
            )[0]
        )

    def assert_whole(self) -> None:
        """Everything is grown: nothing is left to do or failed, no invariant broken, every passage under a root."""
        assert unfinished(self.connection) == []
        assert self.failed() == []
        assert problems(self.connection) == []
        assert self.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = 'pending_extraction'") == 0
        admitted = self.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle != 'dropped'")
        assert admitted == self.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = 'sealed'")
        assert admitted > 10
        assert self.models_own() >= 4
        assert self.degraded() == (0, 0)

    def assert_doctor_is_content(self) -> None:
        """``sapwood doctor --deep`` finds nothing wrong with the memory."""
        found = {check.name: check for check in doctor(self.paths, deep=True).checks}
        # No test has a keyring, and the keys of these are in nobody's.
        wrong = {name: check for name, check in found.items() if not check.ok and name != "keys"}
        assert wrong == {}, wrong

    def paid_twice(self) -> Counter[str]:
        """Return the prompts that got a whole good answer more than once."""
        asked = Counter(str(call.body) for call in self.asked() if call.behaviour == "ok")
        return Counter({body: times for body, times in asked.items() if times > 1})


@contextmanager
def growing(provider: str, server: Serving, paths: Paths, folder: Path, **profile: Any) -> Iterator[Growing]:
    """Open a home over the corpus whose profile asks a server."""
    write_corpus(folder)
    paths.config_file.write_text(config_of(provider, server.base_url(provider), folder, **profile))
    paths.config_file.chmod(0o600)
    intent = load_intent(paths).intent
    clock = FakeClock()
    database = Database(paths.database, paths.write_turn)
    context = LocalContext(database.connection, clock, intent, paths)
    context.shared |= {
        KEYS_KEY: FakeKeys(anthropic="not-a-key", openai="not-a-key"),
        MEMORY_KEY: FakeMemory(available=8_000_000_000),
    }
    try:
        grown = Growing(provider, server, paths, database, context, Registry.load(KIND_NAMES), clock)
        grown.look()
        yield grown
    finally:
        database.close()
