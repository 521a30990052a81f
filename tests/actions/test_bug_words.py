"""What the program says is readable in a report, and what people are called is none of its words."""

from __future__ import annotations

import ast
import re

import pytest

from agent.actions.bug_masking import Known, Masker
from agent.actions.bug_words import is_word
from tests.conftest import REPOSITORY

_PLACEHOLDER = re.compile(r"%[-.\d]*[sdrfx]")


def messages() -> list[tuple[str, str]]:
    """Return every template that the program logs, with the file that logs it."""
    found = []
    for file in sorted((REPOSITORY / "agent").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in ("log", "_log")
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
            ):
                found.append((str(file.relative_to(REPOSITORY)), node.args[0].value))
    return found


def test_whatever_the_program_logs_is_readable_in_a_report() -> None:
    masker = Masker(Known())
    found = messages()
    assert len(found) > 50
    hidden = []
    for file, template in found:
        said = _PLACEHOLDER.sub("7", template)
        if masker.text(said) != said:
            hidden.append(f"{file}: {template!r} becomes {masker.text(said)!r}")
    assert hidden == []


_PEOPLE_AND_PLACES = """
Anna Maria Peter Thomas Michael Susanne Jürgen Giulia Olga Иван 王芳 Müller Schmidt Novak Smith Johnson Garcia London
Berlin Praha Tokyo Zürich Sparkasse Deutsche Diagnose Scheidung divorce salary therapist pregnant
"""


@pytest.mark.parametrize("name", _PEOPLE_AND_PLACES.split())
def test_names_of_people_and_places_are_no_words_of_the_program(name: str) -> None:
    assert not is_word(name)


@pytest.mark.parametrize(
    ("run", "is_ours"),
    [
        ("quick_check", True),
        ("ConnectError", True),
        ("failed_quince", False),
        ("12ms", True),
        ("4b", True),
        ("123456", True),
        ("1234567", False),
        ("a1b2c3d4", False),
        ("hunter2", False),
        ("203.0.113.77", False),
        ("x", True),
        ("é", False),
    ],
)
def test_figures_and_joined_words_are_told_from_secrets(run: str, is_ours: bool) -> None:
    assert is_word(run) is is_ours


@pytest.mark.parametrize(
    "said",
    [
        "database disk image is malformed",
        "[Errno 28] No space left on device",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "SSL: CERTIFICATE_VERIFY_FAILED certificate verify failed: self signed certificate",
        "HTTP 429 rate_limit_error: Too Many Requests",
        "worker 1.3 ended: signal 9",
        "cannot reach http://127.0.0.1:11434/…",
        "2026-03-01T10:00:00.000+00:00",
    ],
)
def test_what_systems_and_servers_say_is_readable(said: str) -> None:
    assert Masker(Known()).text(said) == said


def test_somebodys_sentence_is_cut_at_its_first_strange_word() -> None:
    shown = Masker(Known()).text("job failed: Susanne told Peter that the therapist said the test is open")
    assert shown == "job failed: […]"
