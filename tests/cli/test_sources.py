"""What `sapwood sources`, `add` and `sync` say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.actions.home import open_home
from agent.cli.program import main
from agent.ledger import read_ledger
from agent.paths import Paths


@pytest.fixture
def asked(paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A source with a name as long as they get, about which there is a question."""
    folder = tmp_path / "A folder whose name is as long as a name of a source"
    folder.mkdir()
    (folder / "a.md").write_text("Some words.\n")
    assert run("add", str(folder)) == 0
    with open_home(paths) as home:
        source_id = home.intent.sources[0].id
        examples = json.dumps([f"a folder/with a long name/and a note in it number {n}.md" for n in range(5)])
        home.connection.run(
            "INSERT INTO mem_tree_questions VALUES (?, 'q', 12345, 20000, ?, 1000)", (source_id, examples)
        )
        home.connection.run(
            """
            INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms) VALUES (?, 'folder', 1700000000000)
            """,
            (source_id,),
        )
        home.connection.run(
            """
            INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state, masked)
            VALUES (?, 'a.md', 'document', '{}', x'00', 'current', 3)
            """,
            (source_id,),
        )
    capsys.readouterr()
    return source_id


def run(*words: str) -> int:
    return main(list(words))


def test_a_question_is_told_in_words_with_the_two_answers_within_80_columns(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("sources") == 0
    said = capsys.readouterr().out
    assert f"{asked}: 12345 of 20000 items are no longer there" in said.replace("\n", " ")
    assert "… and 12340 more" in said
    assert f"sapwood sync {asked} --accept" in said
    assert f"sapwood sync {asked} --refuse" in said
    assert "3 secrets were masked" in said.replace("\n", " ")
    assert max(map(len, said.splitlines())) <= 80


def test_sources_as_json_name_the_question(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sources", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["sources"]
    assert row["id"] == asked
    assert row["question"]["question_id"] == "q"
    assert (row["question"]["gone"], row["question"]["held"], len(row["question"]["examples"])) == (12345, 20000, 5)
    assert row["question"]["asked"].startswith("1970-01-01T")
    assert (row["masked"], row["include"], row["exclude"]) == (3, [], [])


@pytest.mark.parametrize(("option", "word"), [("--accept", "accept"), ("--refuse", "refuse")])
def test_an_answer_is_said_back(
    asked: str, option: str, word: str, paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("sync", option, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"queued": [asked], "answer": word, "gone": 12345, "held": 20000}
    assert {str(answer) for answer in read_ledger(paths).answers.values()} == {word}
    assert run("sync", option) == 2
    assert "there is no question" in capsys.readouterr().err


def test_two_answers_at_once_are_refused(asked: str, paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sync", asked, "--accept", "--refuse") == 2
    assert "give one" in capsys.readouterr().err
    assert read_ledger(paths).answers == {}
