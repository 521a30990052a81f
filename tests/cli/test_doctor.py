"""``sapwood doctor`` as an owner and a script meet it."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import apsw
import pytest

from agent.cli.steps import Steps
from agent.paths import find_paths
from tests.cli.conftest import Sapwood, widths


def test_deep_look_at_a_grown_memory_says_that_all_is_well(sapwood: Sapwood, grown: Path) -> None:
    ran = sapwood("doctor", "--deep")
    assert ran.code == 0, ran.out
    assert ran.out.rstrip().endswith("all is well")
    assert "each admitted chunk is reached once from its root" in " ".join(ran.out.split())
    assert max(widths(ran.out)) <= 80


def test_what_scripts_rely_on_is_there(sapwood: Sapwood, grown: Path) -> None:
    document = sapwood("doctor", "--deep", "--json").document
    assert document["ok"] is True
    assert {tuple(check) for check in document["checks"]} == {("name", "ok", "detail", "remedy")}
    quick = sapwood("doctor", "--json").document
    assert {check["name"] for check in quick["checks"]} < {check["name"] for check in document["checks"]}


def test_what_is_broken_ends_with_1_and_what_to_do(sapwood: Sapwood, tmp_path: Path) -> None:
    assert sapwood("status").code == 0
    raw = apsw.Connection(str(find_paths().database))
    raw.execute("INSERT INTO mem_tree_results VALUES ('t', 't', 's', 'i', 'gone', 'words', 0)").fetchall()
    raw.close()
    ran = sapwood("doctor", "--deep")
    assert ran.code == 1
    assert "a model's answer belongs to node gone, which is gone" in " ".join(ran.out.split())
    assert "`sapwood rebuild`" in ran.out
    assert "1 of " in ran.out
    assert max(widths(ran.out)) <= 80
    assert sapwood("doctor").code == 0


def test_one_remedy_for_several_findings_is_said_once(sapwood: Sapwood, tmp_path: Path) -> None:
    assert sapwood("status").code == 0
    raw = apsw.Connection(str(find_paths().database))
    raw.execute("INSERT INTO mem_tree_results VALUES ('t', 't', 's', 'i', 'gone', 'words', 0)").fetchall()
    raw.execute("INSERT INTO mem_tree_text (rowid, body) VALUES (7, 'lost words')").fetchall()
    raw.close()
    said = " ".join(sapwood("doctor", "--deep").out.split())
    assert "index rows, stray rows: `sapwood rebuild`" in said
    assert said.count("`sapwood rebuild`") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock(*moments: float) -> Callable[[], float]:
    """A clock that says these one after the other, and stands still at the last."""
    said = chain(moments, repeat(moments[-1]))
    return lambda: next(said)


def test_a_short_look_says_nothing_on_the_way() -> None:
    stream, now = Terminal(), clock(0.0, 0.5, 0.9)
    with Steps(stream, now) as steps:
        steps.say("chunk ids", 1, 4)
        steps.say("reach", 2, 4)
    assert stream.getvalue() == ""


def test_a_long_look_draws_one_line_and_wipes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream, now = Terminal(), clock(0.0, 2.0, 3.0)
    with Steps(stream, now) as steps:
        steps.say("chunk ids", 2, 4)
        steps.say("the words of the index, one by one", 3, 4)
    drawn = stream.getvalue().split("\r")
    assert "2 of 4: chunk" in drawn[1]
    assert all(len(line.removesuffix("\x1b[K")) < 40 for line in drawn)
    assert drawn[-1] == "\x1b[K"


def test_a_pipe_gets_a_line_now_and_then() -> None:
    stream, now = io.StringIO(), clock(0.0, 2.0, 3.0, 8.0)
    with Steps(stream, now) as steps:
        for number, name in enumerate(("one", "two", "three"), 1):
            steps.say(name, number, 3)
    assert stream.getvalue() == "1 of 3: one\n3 of 3: three\n"


def test_nobody_who_reads_it_stops_no_look() -> None:
    stream = io.StringIO()
    steps = Steps(stream, clock(0.0, 2.0, 9.0))
    stream.close()
    steps.say("one", 1, 2)
    steps.say("two", 2, 2)
