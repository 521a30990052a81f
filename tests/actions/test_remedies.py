"""What helps against a failed job stands in one table, and is told by jobs and by the doctor alike."""

from __future__ import annotations

import pytest

from agent.actions.doctor import doctor
from agent.actions.home import Home
from agent.actions.jobs import jobs
from agent.actions.remedies import OTHERWISE, remedies_of, remedy_of
from agent.paths import Paths
from agent.queue.types import NewJob
from agent.states import Hold


def fail(home: Home, code: str, scope: str | None, times: int = 1) -> None:
    for number in range(times):
        home.enqueue(NewJob("seal", "{}", f"{code}:{scope}:{number}"))
        home.connection.run(
            """
            UPDATE mem_tree_jobs
               SET status = 'failed', failure_class = 'unrecoverable', failure_reason = ?, failure_scope = ?,
                   last_error = 'it was refused', completed_at_ms = 1
             WHERE id = (SELECT max(id) FROM mem_tree_jobs)
            """,
            (code, scope),
        )


@pytest.mark.parametrize(
    "code",
    [
        *(str(code) for code in Hold),
        *("context_overflow", "bad_output", "not_local", "private_source", "crash_loop", "unreadable_row"),
    ],
)
def test_every_cause_that_a_model_has_names_what_helps(code: str) -> None:
    words = remedy_of(code, "far")
    assert words != OTHERWISE
    assert "PROFILE" not in words


def test_what_helps_names_the_profile_that_it_is_about() -> None:
    assert "`sapwood model test far`" in remedy_of("unreachable", "far")
    assert "`sapwood model test NAME`" in remedy_of("unreachable")


def test_each_cause_is_told_once_with_how_many_the_most_frequent_first(home: Home) -> None:
    fail(home, "auth_failed", "far")
    fail(home, "model_missing", "box", 3)
    fail(home, "model_missing", "den", 2)
    fail(home, "of_its_own", None)
    found = jobs(home, status="failed").remedies
    assert [(each.code, each.scope, each.count) for each in found] == [
        ("model_missing", "box", 3),
        ("model_missing", "den", 2),
        ("auth_failed", "far", 1),
        ("", None, 1),
    ]
    assert "profiles.den.chat_model" in found[1].words


def test_rows_that_did_not_fail_have_no_remedy(home: Home) -> None:
    home.enqueue(NewJob("seal", "{}", "one"))
    assert remedies_of(jobs(home).jobs) == []


def test_the_doctor_tells_the_same(home: Home, paths: Paths) -> None:
    fail(home, "model_missing", "box")
    found = next(check for check in doctor(paths).checks if check.name == "failed seal")
    assert found.remedy == remedy_of("model_missing", "box")
