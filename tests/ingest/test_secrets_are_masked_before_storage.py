"""Secrets never reach the database, lines stay where they are, prose stays what it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from agent.ingest.mask import mask_secrets
from tests.ingest.conftest import Memory

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
