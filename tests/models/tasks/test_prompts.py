"""The texts of prompts: part of the package, part of the signature, a sentence for every rule."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent.models import prompting
from agent.models.extracting import ModelExtractor
from agent.models.prompting import PROMPTS, length_in_words, load_prompts
from agent.models.summarising import ModelSummariser
from tests.conftest import REPOSITORY
from tests.models.tasks.scripted import BOX

FILES = sorted(path.name for path in PROMPTS.glob("*.md"))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        (tmp_path / name).write_bytes((PROMPTS / name).read_bytes())
    monkeypatch.setattr(prompting, "PROMPTS", tmp_path)
    load_prompts.cache_clear()
    return tmp_path


@pytest.fixture(autouse=True)
def read_anew() -> object:
    yield
    load_prompts.cache_clear()


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_any_file_changes_its_tasks_signature_and_no_other(copied: Path, name: str) -> None:
    def signatures() -> dict[str, str]:
        load_prompts.cache_clear()
        return {"summary": ModelSummariser(BOX, None).signature, "extract": ModelExtractor(BOX, None).signature}

    before = signatures()
    path = copied / name
    path.write_text(path.read_text(encoding="utf-8") + "\nx: And one thing more.\n", encoding="utf-8")
    after = signatures()
    assert [task for task in before if before[task] != after[task]] == [name.partition(".")[0]]


def test_line_ends_of_a_checkout_change_no_signature(copied: Path) -> None:
    before = load_prompts("summary").hash
    for name in FILES:
        (copied / name).write_bytes((copied / name).read_bytes().replace(b"\n", b"\r\n"))
    load_prompts.cache_clear()
    assert load_prompts("summary").hash == before


@pytest.mark.parametrize(
    ("task", "problems"),
    [
        ("summary", "no_json shape wrong_shape cut empty too_long unknown_name unknown_number"),
        ("extract", "no_json shape wrong_shape cut empty missing importance kind not_in_text"),
    ],
)
def test_every_rule_that_can_be_broken_is_told_in_a_sentence(task: str, problems: str) -> None:
    assert sorted(load_prompts(task).rules) == sorted(problems.split())


@pytest.mark.parametrize("task", ["summary", "extract"])
def test_every_place_of_a_prompt_is_filled(task: str) -> None:
    values = {"language": "English", "length": "9 words", "what": "this", "count": "2"}
    for problem in ("", "no_json"):
        for message in load_prompts(task).messages(values, "CONTENT", problem):
            assert "{{" not in message.text.replace("{{content}}", "")
    assert "CONTENT" in load_prompts(task).messages(values, "CONTENT")[1].text


def test_a_length_is_in_words_or_where_there_are_none_in_characters() -> None:
    assert length_in_words(200, "English") == "100 words"
    assert length_in_words(200, "Chinese") == "160 characters"


@pytest.mark.slow
def test_the_prompts_are_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode and "No module named hatchling" in done.stderr:
        pytest.skip("hatchling is not installed: pip install hatchling")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        shipped = {Path(name).name for name in packed.namelist() if name.startswith("agent/models/prompts/")}
    assert shipped == set(FILES)
