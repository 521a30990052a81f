"""Secrets never reach the database, lines stay where they are, prose stays what it is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from agent.ingest.sync import plan_sync
from agent.masking import assigned
from agent.masking.mask import mask, mask_secrets
from agent.queue.enqueue import enqueue
from agent.queue.registry import JobSpec, Registry
from agent.queue.run import drain_until_idle
from agent.queue.types import NewJob, SyncSourcePayload
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES
from tests.ingest.conftest import Memory
from tests.ingest.labelled.harmless import HARMLESS
from tests.ingest.labelled.secrets import POSITIVES

AKIA = "AKIA" + "QWERTYUIOPASDFGH"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
STRIPE = "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc"
OPENAI = "sk-" + "proj-" + "T3BlbkFJabcdefghij1234567890"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"key {AKIA} here", AKIA),
        (f"export TOKEN={GITHUB}", GITHUB),
        (f"stripe: {STRIPE}", STRIPE),
        (f"openai {OPENAI}.", OPENAI),
        (f"cookie {JWT}", JWT),
        ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ("password=hunter22", "hunter22"),
        ("DB_PASSWORD: 'corr3ct horse'", "corr3ct horse"),
        ('{"api_key": "abcd1234efgh"}', "abcd1234efgh"),
        ("postgres://bob:s3cret@host/db", "s3cret"),
        ("card 4111 1111 1111 1111, please", "4111 1111 1111 1111"),
        ("card 5500-0055-5555-5559", "5500-0055-5555-5559"),
    ],
)
def test_known_shapes_are_masked(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert "[masked: " in masked
    assert masked.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "My password is hard to remember.",
        "Password: forgotten",
        "The token: whatever it means in linguistics.",
        "Write to john_doe@x.example about task-sk-1.",
        "Call 4111 1111 1111 1112 or +49 30 1234567890.",
        "A bearer of bad news came at 2024-03-05 12:30:45.",
        "https://example.org/path?page=2",
        "ISBN 978-3-16-148410-0",
    ],
)
def test_prose_is_left_alone(text: str) -> None:
    assert mask_secrets(text) == text


def test_a_private_key_goes_and_its_lines_stay() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA75abcdefgh\n" * 12 + "-----END RSA PRIVATE KEY-----"
    text = f"Before.\n{key}\nAfter."
    masked = mask_secrets(text)
    assert "MIIE" not in masked
    assert masked.startswith("Before.\n")
    assert masked.endswith("\nAfter.")
    assert masked.count("\n") == text.count("\n")


def test_a_key_that_never_ends_takes_no_prose_with_it() -> None:
    text = "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75abcdefgh\n\nThen we went home, and it was late."
    masked = mask_secrets(text)
    assert "MIIE" not in masked
    assert "Then we went home, and it was late." in masked


def test_no_secret_reaches_the_database(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    memory.write("notes/a.md", f"# Keys\n\nThe key is {AKIA}.\n\nAnd this stays.\n")
    memory.write("mail/a.eml", mail_bytes(1, f"Use token={GITHUB} for it."))
    memory.write("chat/2024-01-01.txt", f"[10:00] <ada> it is {STRIPE}\n[10:01] <bob> thanks\n")
    for source_id, kind in (("notes", "folder"), ("mail", "eml"), ("chat", "irc")):
        memory.add(source_id, kind, memory.folder / source_id)
    memory.sync()
    assert len(memory.chunks()) == 3
    for chunk in memory.chunks():
        assert "[masked: " in chunk["text"]
    memory.connection.all("PRAGMA wal_checkpoint(TRUNCATE)")
    data = memory.context.paths.database.read_bytes()
    for secret in (AKIA, GITHUB, STRIPE):
        assert secret.encode() not in data
        assert secret.lower().encode() not in data
    lines = (memory.folder / "notes/a.md").read_text().split("\n")
    (chunk,) = memory.chunks("notes")
    place = lines[chunk["locator"]["line"] - 1 : chunk["locator"]["end_line"]]
    assert place[-1] == chunk["text"].split("\n")[-1]


def test_a_token_behind_what_only_begins_like_one_is_masked() -> None:
    assert JWT not in mask_secrets(f"eyJabcdefghijkl-{JWT}")
    assert mask_secrets("see eyJabcdefghijkl there") == "see eyJabcdefghijkl there"


def test_an_endless_run_that_looks_like_a_token_costs_its_length() -> None:
    run = "eyJaaaaaaaaaa-" * 60_000
    begun = time.process_time()
    assert mask_secrets(run) == run
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in POSITIVES}))
def test_labelled_secrets_are_found_where_people_leave_them(kind: str) -> None:
    labelled = [(secret, text) for of, secret, text in POSITIVES if of == kind]
    missed = [text for secret, text in labelled if secret in mask_secrets(text)]
    assert len(missed) <= 0.02 * len(labelled), missed
    for _, text in labelled:
        masked = mask(text)
        assert masked.text.count("\n") == text.count("\n")
        assert mask(masked.text) == (masked.text, 0), "what was masked is not masked again"


def test_what_only_looks_like_a_secret_stays() -> None:
    assert len(HARMLESS) >= 200
    assert [text for text in HARMLESS if mask(text).secrets] == []


@pytest.mark.parametrize(
    "run",
    ["sk-", "eyJaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "password=", "api_key: ", "://a:", "4111 1111 ", "DE89 "],
)
def test_an_endless_run_of_what_begins_a_secret_costs_its_length(run: str) -> None:
    def once(text: str) -> float:
        begun = time.process_time()
        mask(text)
        return time.process_time() - begun

    def cost(size: int) -> float:
        # The best of some: the processor's other guests slow down one now and then, never all.
        return min(once(run * (size // len(run))) for _ in range(5))

    cost(1_000)
    short = cost(40_000)
    assert cost(320_000) < 8 * 4 * short + 0.05, "eight times the length, at most about eight times the time"


HINTS = ("api_key=", "AccountKey=", "SharedAccessKey=", "api_key: ", "password: ", "key ", "token ", "DE89 ")


@pytest.mark.slow
@pytest.mark.parametrize("hint", HINTS)
def test_five_megabytes_of_nothing_but_a_hint_cost_three_seconds_at_most(hint: str) -> None:
    text = hint * (5_000_000 // len(hint))
    begun = time.process_time()
    mask(text)
    assert time.process_time() - begun < 3


def test_what_is_remembered_of_a_text_that_repeats_itself_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(8)
    pieces = [
        *HINTS,
        "password=",
        "--token ",
        "|",
        "\n",
        " ",
        "'",
        "hunter22x",
        "aB3dE5fG7hJ9kL1m",
        "ask Marta",
        "é",
        "x" * 90,
    ]
    for _ in range(25):
        # Repeated in part, so that the same words stand in the same surroundings and in others.
        once = "".join(chance.choice(pieces) for _ in range(chance.randint(2, 120)))
        text = (once * chance.randint(2, 12) + chance.choice(pieces)) * 3
        monkeypatch.setattr(assigned, "_MANY", 10**9)
        plain = mask(text)
        for many, most in ((0, 500), (3, 2)):
            monkeypatch.setattr(assigned, "_MANY", many)
            monkeypatch.setattr(assigned, "_MOST", most)
            assert mask(text) == plain


def test_titles_subjects_authors_and_names_are_masked_and_counted(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    memory.write(f"notes/{GITHUB}.md", "No heading here, so the name of the file is the title.\n")
    memory.write("notes/b.md", f"# The key {AKIA}\n\nWhat it is for.\n\n## And {STRIPE}\n\nNothing else.\n")
    memory.write("mail/a.eml", mail_bytes(1, "Good morning to all.", Subject=f"token {OPENAI} for the gate"))
    memory.write("mail/b.eml", mail_bytes(2, "Nothing to hide here, said the bee."))
    memory.add("notes", "folder", memory.folder / "notes")
    memory.add("mail", "eml", memory.folder / "mail")
    memory.sync()
    shown = str(memory.connection.all("SELECT title, masked FROM mem_tree_items"))
    shown += str(memory.connection.all("SELECT text, title, heading_path, author FROM mem_tree_chunks"))
    for secret in (GITHUB, AKIA, STRIPE, OPENAI):
        assert secret not in shown
    counts = dict(memory.connection.all("SELECT title, masked FROM mem_tree_items"))
    assert counts["[masked: GitHub token]"] == 1
    assert counts["The key [masked: AWS key]"] == 2
    assert counts["token [masked: OpenAI key] for the gate"] == 1
    assert 0 in counts.values()


def test_a_planted_secret_is_in_no_byte_of_a_grown_memory(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    planted = [secret for kind, secret, _ in POSITIVES if kind in ("provider", "card", "iban")]
    story = "The shed of the club stands by the river, and Ada Lovelace mends its roof every spring with Marta.\n\n"
    texts = [text for kind, _, text in POSITIVES if kind in ("provider", "card", "iban")]
    memory.write("notes/a.md", f"# {STRIPE}\n\n" + "".join(f"{story}{text}\n\n" for text in texts))
    memory.write("mail/a.eml", mail_bytes(1, f"{story}Use token={GITHUB} for it.", Subject=f"The key {AKIA}"))
    memory.write("chat/2024-01-01.txt", f"[10:00] <ada> {story.strip()}\n[10:01] <bob> {OPENAI} thanks\n")
    for source_id, kind in (("notes", "folder"), ("mail", "eml"), ("chat", "irc")):
        memory.add(source_id, kind, memory.folder / source_id)
        enqueue(memory.connection, NewJob.sync_source(source_id), memory.context.clock.now_ms())
    looking = Registry.of(
        [
            JobSpec("sync_source", lambda context, job: plan_sync(context, job.payload(SyncSourcePayload))),
        ]
    )
    drain_until_idle(memory.context, looking)
    before_reading = _bytes_below(memory)
    drain_until_idle(memory.context, Registry.load(KIND_NAMES), flush=close_all_tails)
    assert memory.connection.value("SELECT count(*) FROM mem_tree_summaries")
    after = _bytes_below(memory)
    for secret in (*planted, STRIPE, GITHUB, AKIA, OPENAI):
        for data in (before_reading, after):
            assert secret.encode() not in data
            assert secret.lower().encode() not in data.lower()


def _bytes_below(memory: Memory) -> bytes:
    memory.connection.all("PRAGMA wal_checkpoint(PASSIVE)")
    folder = memory.context.paths.data_dir
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
