"""A home that is lived in: notes, mail and a chat on the disk, changed at random, read by the real queue in this
process, and killed in the middle."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.actions.forgetting import forget, preview, wanted_of
from agent.actions.home import Home
from agent.actions.sources import sources, sync
from agent.clock import FakeClock
from agent.config import Intent, SourceIntent
from agent.db import Connection, Database
from agent.db.check import vectors
from agent.db.serving import serving_signature
from agent.models.builtin.embedding import BuiltinEmbedder
from agent.models.profiles import open_profile
from agent.models.protocol import Profile
from agent.paths import Paths, paths_under
from agent.queue.enqueue import enqueue, enqueue_many_tx
from agent.queue.recovery import recover_stale_locks
from agent.queue.registry import JobSpec, Registry, SweepContext
from agent.queue.run import LocalContext, drain_until_idle, run_due
from agent.queue.types import Job, NewJob, Plan
from agent.states import Answer
from agent.tree.check import problems
from agent.tree.flush import close_all_tails, unfinished
from agent.worker.embedding_batch import windows_of
from agent.worker.kinds import KIND_NAMES
from agent.worker.profile import OPENER_KEY
from agent.worker.reembed_sweep import Unembedded, Wanted, is_due
from tests.naive.builder import grow_memory

WORDS = (
    "apple barrel copper dormer ember fallow garden harbour inlet juniper kettle lantern meadow needle orchard pebble "
    "quarry ribbon saddle timber umber velvet willow yarrow zephyr anchor bramble candle ditch engine ferry gravel"
)
VOCABULARY = WORDS.split()
PEOPLE = ("Marta Ellwood", "Tobias Renner", "Ines Calder", "Samuel Okoro", "Lin Yue")


class Killed(BaseException):
    """A worker ends here, whatever it was doing."""


@dataclass
class Lived:
    """One home with its sources on the disk. ``folder`` holds what the owner writes."""

    folder: Path
    paths: Paths
    database: Database
    context: LocalContext
    registry: Registry
    mails: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)  # what the second, overlapping export holds
    number: int = 0
    embeds_otherwise: bool = False

    @property
    def connection(self) -> Connection:
        return self.context.connection

    # -- what the owner does ------------------------------------------------------------------------------------------

    def notes(self) -> list[Path]:
        return sorted((self.folder / "notes").rglob("*.md"))

    def write_note(self, chance: random.Random) -> None:
        self.number += 1
        path = self.folder / "notes" / chance.choice(["", "work", "home/old"]) / f"note-{self.number:03d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "\n\n".join(paragraph(chance) for _ in range(chance.choice([1, 2, 6, 30])))
        path.write_text(f"# {chance.choice(VOCABULARY).title()} {self.number}\n\n{body}\n")

    def edit_note(self, chance: random.Random) -> None:
        for path in _some(chance, self.notes()):
            parts = path.read_text().split("\n\n")
            at = chance.randrange(len(parts))
            match chance.choice(["change", "insert", "drop"]):
                case "change":
                    parts[at] = paragraph(chance)
                case "insert":
                    parts.insert(at, paragraph(chance))
                case _:
                    parts.pop(at)
            path.write_text("\n\n".join(parts))

    def rename_note(self, chance: random.Random) -> None:
        for path in _some(chance, self.notes()):
            self.number += 1
            kept = chance.random() < 0.5
            target = (
                self.folder
                / "notes"
                / chance.choice(["", "moved"])
                / (path.name if kept else f"renamed-{self.number:03d}.md")
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)

    def rename_folder(self, chance: random.Random) -> None:
        folders = [path for path in (self.folder / "notes").iterdir() if path.is_dir()]
        for path in _some(chance, folders):
            self.number += 1
            path.rename(path.with_name(f"shelf-{self.number:03d}"))

    def delete_note(self, chance: random.Random) -> None:
        for path in _some(chance, self.notes()):
            path.unlink()

    def get_mail(self, chance: random.Random) -> None:
        for _ in range(chance.choice([1, 4, 15])):
            self.number += 1
            mail = message(chance, self.number)
            self.mails.append(mail)
            if chance.random() < 0.3:
                self.copies.append(mail)
        self._write_mail()

    def delete_mail(self, chance: random.Random) -> None:
        for _ in range(min(len(self.mails), chance.choice([1, 3]))):
            self.mails.pop(chance.randrange(len(self.mails)))
        if self.copies and chance.random() < 0.5:
            self.copies.pop(chance.randrange(len(self.copies)))
        self._write_mail()

    def _write_mail(self) -> None:
        (self.folder / "mail.mbox").write_text("".join(self.mails))
        (self.folder / "export.mbox").write_text("".join(self.copies))

    def say(self, chance: random.Random) -> None:
        day = chance.randrange(1, 6)
        path = self.folder / "chat" / f"2025-03-{day:02d}.txt"
        path.parent.mkdir(exist_ok=True)
        had = path.read_text().splitlines() if path.exists() else []
        for _ in range(chance.choice([1, 6, 25])):
            minute = len(had)
            who = chance.choice(PEOPLE).split()[0].lower()
            had.append(f"[{8 + minute // 60:02d}:{minute % 60:02d}] <{who}> {sentence(chance)}")
        path.write_text("\n".join(had) + "\n")

    # -- what the owner asks for --------------------------------------------------------------------------------------

    @property
    def home(self) -> Home:
        return Home(self.paths, self.context.intent, None, self.database, self.context.clock)

    def accept(self) -> None:
        """Say that what is no longer there is meant to be gone, wherever that is asked."""
        for row in sources(self.home).sources:
            if row.question is not None:
                sync(self.home, row.id, answer=Answer.ACCEPT)

    def forget(self, chance: random.Random) -> None:
        """Forget a passage, an item, or every passage with some words in a row."""
        held = self.connection.all("SELECT chunk_id, source_id, item_key, text FROM mem_tree_chunks ORDER BY chunk_id")
        if not held:
            return
        chunk_id, source_id, item_key, text = chance.choice(held)
        match chance.choice(["chunk", "chunk", "item", "mentions"]):
            case "chunk":
                wanted = wanted_of(self.home, chunk=chunk_id)
            case "item":
                wanted = wanted_of(self.home, source=source_id, item=item_key)
            case _:
                words = text.split("\n")[-1].split()
                at = chance.randrange(max(1, len(words) - 2))
                wanted = wanted_of(self.home, mentions=" ".join(words[at : at + 3]))
        forget(self.home, wanted, preview(self.home, wanted)[1])

    def switch(self, chance: random.Random) -> None:
        """Change the embedding model, and mostly let its back-fill begin."""
        self.embeds_otherwise = not self.embeds_otherwise
        self.context.shared.pop(OPENER_KEY, None)
        if self.embeds_otherwise:
            self.context.shared[OPENER_KEY] = _embedding_otherwise
        if chance.random() < 0.7:
            enqueue(self.connection, NewJob.reembed_backfill(self.signature), self.context.clock.now_ms())

    @property
    def signature(self) -> str:
        return OtherEmbedder.signature if self.embeds_otherwise else OtherEmbedder.plain.signature

    # -- what the agent does ------------------------------------------------------------------------------------------

    def look(self) -> None:
        for source in self.context.intent.sources:
            enqueue(self.connection, NewJob.sync_source(source.id), self.context.clock.now_ms())

    def work(self, jobs: int) -> None:
        run_due(self.connection, self.registry, self.context, limit=jobs)

    def crash(self, chance: random.Random) -> None:
        """Let a handler's process end before or after its plan was made, and be found by recovery."""
        left = [chance.randrange(12)]

        def dying(spec: JobSpec) -> JobSpec:
            def handle(context: Any, job: Job) -> Plan:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                plan = spec.handle(context, job)
                if left[0] == 1:
                    raise Killed
                return plan

            return replace(spec, handle=handle, batch=None, batch_size=1)

        registry = Registry.of(dying(spec) for spec in self.registry)
        try:
            run_due(self.connection, registry, self.context, limit=30)
        except Killed:
            self.context.clock.advance(3_600)  # type: ignore[attr-defined]
            recover_stale_locks(self.connection, self.context.clock.now_ms(), crash_limit=1_000)

    def lose_queue(self) -> None:
        with self.connection.write() as connection:
            connection.run("DELETE FROM mem_tree_jobs")

    def sweep(self) -> None:
        now = self.context.clock.now_ms()
        context = SweepContext(self.connection, self.context.intent, now, 500)
        jobs = [job for spec in self.registry if spec.sweep is not None for job in spec.sweep(context)]
        if is_due(self.connection, Wanted(self.signature)):
            jobs.append(NewJob.reembed_backfill(self.signature))
        with self.connection.write() as connection:
            enqueue_many_tx(connection, jobs, now, registry=self.registry)

    def finish(self) -> None:
        """Look at everything and grow until nothing is left, with lost work found by sweeps."""
        for _ in range(50):
            self.look()
            drain_until_idle(self.context, self.registry, flush=close_all_tails)
            self.accept()
            self.sweep()
            if not drain_until_idle(self.context, self.registry, flush=close_all_tails):
                break
        assert unfinished(self.connection) == []

    # -- what it is held to -------------------------------------------------------------------------------------------

    def assert_sound(self) -> None:
        """No invariant is broken, and the trees are those of the naive builder over the chunks that are held."""
        assert problems(self.connection) == []
        summariser = open_profile(self.context.intent, {}).summariser
        naive = grow_memory(self.connection, summariser)
        assert self.fingerprints() == naive.fingerprints()
        roots = self.connection.all("SELECT tree_id, root_id FROM mem_tree_trees WHERE root_id IS NOT NULL")
        assert dict(roots) == naive.roots

    def assert_embedded(self) -> None:
        """Every node has the vectors of its text by the model in use, which serves, and no other vector is left."""
        wanted = Wanted(self.signature)
        assert not is_due(self.connection, wanted)
        assert list(vectors(self.connection)) == []
        assert serving_signature(self.connection, self.signature) == self.signature
        embedder = OtherEmbedder() if self.embeds_otherwise else OtherEmbedder.plain
        rows = self.connection.all("SELECT node, windows FROM mem_tree_vectors")
        stored: dict[int, bytes] = dict(rows)
        for node, text, title, heading_path in self.connection.all(
            """
            SELECT seq, text, title, heading_path FROM mem_tree_chunks WHERE lifecycle <> 'dropped'
            UNION ALL
            SELECT -seq, text, title, NULL FROM mem_tree_summaries
            """
        ):
            windows = windows_of(embedder, Unembedded(node, text, title, heading_path))
            assert stored.pop(node) == embedder.embed(windows).tobytes()
        assert not stored

    def fingerprints(self) -> set[tuple[str, str]]:
        from tests.naive.builder import sha256

        rows = self.connection.all("SELECT summary_id, text FROM mem_tree_summaries")
        return {(summary, sha256(text)) for summary, text in rows}

    def passages(self) -> list[tuple[Any, ...]]:
        """What the memory holds of its sources, without the order in which it came."""
        return self.connection.all(
            """
            SELECT source_id, item_key, chunk_id, title, heading_path, author, time_ms, text, lifecycle = 'dropped',
                   CASE source_id WHEN 'mail' THEN NULL ELSE locator END
              FROM mem_tree_chunks
             ORDER BY source_id, sort_key, order_key
            """
        )

    def assert_mails_lie_where_they_are_said_to(self) -> None:
        """Which of two equal copies a mail is shown at is history; that it lies there is not."""
        for item_key, locator in self.connection.all(
            "SELECT item_key, locator FROM mem_tree_chunks WHERE source_id = 'mail'"
        ):
            place = json.loads(locator)
            box = (self.folder / str(place["path"]).partition("/")[0]).read_bytes()
            mail = box[place["offset"] : place["offset"] + place["length"]]
            assert f"Message-ID: <{item_key}>".encode() in mail
            assert mail.count(b"Message-ID:") == 1


class OtherEmbedder:
    """Another model's vectors: the built-in ones, turned round."""

    plain = BuiltinEmbedder()
    signature = "other:turned@256"
    dimensions = plain.dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        return -self.plain.embed(texts)

    def windows(self, text: str) -> list[str]:
        return self.plain.windows(text)

    def trusts(self, query: str) -> bool:
        return self.plain.trusts(query)


def _embedding_otherwise(intent: Intent, shared: dict[str, Any]) -> Profile:
    return replace(open_profile(intent, shared), embedder=OtherEmbedder())


def paragraph(chance: random.Random) -> str:
    return " ".join(sentence(chance) for _ in range(chance.randint(1, 12)))


def sentence(chance: random.Random) -> str:
    words = [chance.choice(VOCABULARY) for _ in range(chance.randint(4, 14))]
    if chance.random() < 0.3:
        words.insert(1, chance.choice(PEOPLE))
    return " ".join(words).capitalize() + "."


def message(chance: random.Random, number: int) -> str:
    sender = chance.choice(PEOPLE)
    address = sender.split()[0].lower() + "@example.org"
    return (
        f"From {address} Mon Mar  3 10:00:00 2025\n"
        f"From: {sender} <{address}>\nTo: club@example.org\nSubject: About {chance.choice(VOCABULARY)} {number}\n"
        f"Date: Mon, 03 Mar 2025 {8 + number // 60 % 12:02d}:{number % 60:02d}:00 +0000\n"
        f"Message-ID: <m{number}@example.org>\n\n"
        + "\n\n".join(paragraph(chance) for _ in range(chance.choice([1, 3])))
        + "\n\n"
    )


def _some(chance: random.Random, paths: list[Path]) -> list[Path]:
    return [chance.choice(paths)] if paths else []


@contextmanager
def opened(folder: Path, home: Path) -> Iterator[Lived]:
    """Open a home over what lies in a folder."""
    paths = paths_under(home).make()
    sources = (
        SourceIntent("notes", "folder", "notes", (str(folder / "notes"),)),
        SourceIntent("mail", "mbox", "mail", (str(folder / "mail.mbox"), str(folder / "export.mbox"))),
        SourceIntent("chat", "irc", "chat", (str(folder / "chat"),)),
    )
    database = Database(paths.database, paths.write_turn)
    context = LocalContext(database.connection, FakeClock(), Intent(sources=sources), paths)
    try:
        yield Lived(folder, paths, database, context, Registry.load(KIND_NAMES))
    finally:
        database.close()


@contextmanager
def lived_home() -> Iterator[Lived]:
    """A fresh home with empty sources, thrown away afterwards."""
    root = Path(tempfile.mkdtemp(prefix="sapwood-lived-"))
    try:
        for name in ("notes", "chat"):
            (root / "owner" / name).mkdir(parents=True)
        for name in ("mail.mbox", "export.mbox"):
            (root / "owner" / name).write_text("")
        with opened(root / "owner", root / "home") as home:
            yield home
    finally:
        shutil.rmtree(root, ignore_errors=True)
