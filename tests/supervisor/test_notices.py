"""Which notifications are shown: what lasts, once, four an hour at most, and nothing of what the memory holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from agent.actions.notifying import what_is_needed
from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent
from agent.db import Connection, Database
from agent.db.state import NOTICES_KEY, get_state
from agent.paths import Paths
from agent.supervisor import SupervisorArgs
from agent.supervisor.notices import HOUR_MS, MOST_IN_AN_HOUR, SETTLED_MS, Notices, Seen, Subject, notice
from agent.supervisor.noticewatch import LOOK_S, NoticeWatch
from agent.supervisor.status import Facts
from agent.supervisor.storage import Storage
from agent.system.notifications import FakeNotifier

MINUTE_MS = 60_000


class Owner:
    """Looks every minute and keeps what was shown when."""

    def __init__(self) -> None:
        self.notices = Notices()
        self.now_ms = 1_000_000_000
        self.shown: list[tuple[int, Subject]] = []

    def look(self, *on: Subject, after_ms: int = MINUTE_MS, seen: Seen | None = None) -> list[Subject]:
        self.now_ms += after_ms
        told = [each.subject for each in self.notices.look(on, self.now_ms, seen)]
        self.shown += [(self.now_ms, subject) for subject in told]
        return told

    def restart(self) -> None:
        stored = self.notices.stored
        self.notices = Notices()
        self.notices.load(stored)


def test_what_lasts_is_told_once_however_long_it_lasts() -> None:
    owner = Owner()
    assert owner.look(Subject.MODEL) == [], "a moment is not worth a word"
    assert owner.look(Subject.MODEL) == [Subject.MODEL]
    for _ in range(300):
        assert owner.look(Subject.MODEL) == []
    owner.restart()
    for _ in range(3):
        assert owner.look(Subject.MODEL) == [], "nor at the next start"


def test_what_is_over_at_once_is_not_told() -> None:
    owner = Owner()
    for _ in range(100):
        assert owner.look(Subject.MEMORY, after_ms=SETTLED_MS - 1) == []
        assert owner.look(after_ms=1) == []


def test_a_thousand_flips_are_one_notification_an_hour() -> None:
    owner = Owner()
    for _ in range(1000):
        owner.look(Subject.MEMORY, after_ms=MINUTE_MS // 2)
        owner.look(Subject.MEMORY, after_ms=MINUTE_MS // 2)
        owner.look(after_ms=MINUTE_MS)
    moments = [at for at, _ in owner.shown]
    assert len(moments) > 10, "it is told again when it comes again later"
    assert all(later - earlier >= HOUR_MS for earlier, later in pairwise(moments))


def test_there_are_never_more_than_four_in_an_hour_and_the_rest_is_told_later() -> None:
    owner, chance = Owner(), Random(5)
    for _ in range(3000):
        owner.look(*(subject for subject in Subject if chance.random() < 0.7), after_ms=15_000)
        recent = [at for at, _ in owner.shown if owner.now_ms - at < HOUR_MS]
        assert len(recent) <= MOST_IN_AN_HOUR
    owner = Owner()
    everything = [subject for subject in Subject if subject is not Subject.FIRST_MEMORY]
    for _ in range(180):
        owner.look(*everything)
    assert {subject for _, subject in owner.shown} == set(everything)
    assert [subject for _, subject in owner.shown][:4] == everything[:4], "the most pressing first"


def test_a_clock_that_was_set_back_silences_nothing() -> None:
    owner = Owner()
    before = (Subject.MEMORY, Subject.DAMAGED, Subject.SETTINGS, Subject.WORKER)
    owner.look(*before)
    assert owner.look(*before) == list(before)
    owner.now_ms -= 30 * 24 * HOUR_MS
    owner.look(Subject.QUESTION)
    assert owner.look(Subject.QUESTION) == [Subject.QUESTION]


def test_the_first_memory_is_told_once_ever() -> None:
    owner = Owner()
    grown = Seen(holds_any=True, is_grown=True)
    owner.look(seen=Seen())
    owner.look(seen=Seen(holds_any=True))
    owner.restart()
    owner.look(seen=grown)
    assert owner.look(seen=grown) == [Subject.FIRST_MEMORY]
    owner.restart()
    for _ in range(200):
        assert owner.look(seen=Seen(holds_any=True)) == []
        assert owner.look(seen=grown) == []


def test_a_memory_that_was_there_before_is_no_first_one() -> None:
    owner = Owner()
    for _ in range(5):
        assert owner.look(seen=Seen(holds_any=True, is_grown=True)) == []


def test_what_another_version_stored_is_read_as_far_as_it_goes() -> None:
    for stored in (None, "", "[]", "{", '{"told": 3}', '{"told": {"memory": "x"}}', '{"first": "other"}'):
        notices = Notices()
        notices.load(stored)
        assert notices.stored == Notices().stored
    notices = Notices()
    notices.load('{"told": {"comets": 5, "model": 7}, "standing": ["comets", "model"], "more": 1}')
    assert "comets" not in notices.stored
    assert "model" in notices.stored


@pytest.mark.parametrize("subject", list(Subject))
def test_every_subject_has_words_that_fit(subject: Subject) -> None:
    said = notice(subject)
    assert 0 < len(said.title) <= 50
    assert 0 < len(said.body) <= 110
    assert not set(said.title + said.body) & set("<>&\n")


# -- at work ----------------------------------------------------------------------------------------------------------


def seen_nothing(paths: Paths, connection: Connection, intent: Intent, now_ms: int) -> Seen:
    return Seen()


def failing(paths: Paths, connection: Connection, intent: Intent, now_ms: int) -> Seen:
    raise OSError("the ledger cannot be read")


def args(paths: Paths, hook: str = "seen_nothing") -> SupervisorArgs:
    return SupervisorArgs(paths, "none:none", (), needs_hook=f"{__name__}:{hook}")


@pytest.fixture
def storage(paths: Paths, database: Database) -> Storage:
    assert database.connection
    storage = Storage(paths)
    assert storage.open(0.0)
    return storage


def look_for(watch: NoticeWatch, storage: Storage, facts: Facts, *, minutes: int, intent: Intent | None = None) -> None:
    for turn in range(minutes * 6):
        now = turn * LOOK_S
        watch.turn(lambda: facts, storage, intent or Intent(), now, 1_000_000_000 + round(now * 1000))


def test_a_worker_that_gave_up_is_shown_and_kept_in_mind(
    paths: Paths, storage: Storage, wait_until: Callable[..., None]
) -> None:
    notifier = FakeNotifier()
    facts = Facts(given_up=1, last_failure="it said secret words of the memory")
    look_for(NoticeWatch(args(paths), notifier), storage, facts, minutes=5)
    wait_until(lambda: notifier.shown)
    assert [key for key, _, _ in notifier.shown] == ["worker"]
    assert "secret" not in str(notifier.shown), "only our own words"
    assert storage.connection is not None
    assert "worker" in str(get_state(storage.connection, NOTICES_KEY))
    look_for(NoticeWatch(args(paths), notifier), storage, facts, minutes=5)
    assert len(notifier.shown) == 1, "another start knows it"


def test_it_is_looked_at_again_only_while_something_is_not_told_yet(paths: Paths, storage: Storage) -> None:
    watch, facts = NoticeWatch(args(paths), FakeNotifier()), Facts()
    wall_ms = 1_000_000_000

    def turn(now: float) -> float | None:
        watch.turn(lambda: facts, storage, Intent(), now, wall_ms + round(now * 1000))
        return watch.again_at

    assert turn(0.0) is None
    facts = Facts(given_up=1)
    assert turn(LOOK_S) == 2 * LOOK_S
    assert turn(LOOK_S + 1) == 2 * LOOK_S
    assert turn(2 * LOOK_S) is None, "it is told"
    assert turn(100.0) is None


def test_a_desktop_that_hangs_keeps_nobody_waiting(paths: Paths, storage: Storage) -> None:
    go, began, ended = threading.Event(), threading.Event(), threading.Event()

    class Hangs:
        def show(self, key: str, title: str, body: str) -> bool:
            began.set()
            go.wait(3)
            ended.set()
            return False

    try:
        look_for(NoticeWatch(args(paths), Hangs()), storage, Facts(problem="the disk is full"), minutes=1)
        assert not ended.is_set(), "it did not wait for that"
        assert began.wait(10)
    finally:
        go.set()


def test_switched_off_it_looks_at_nothing(paths: Paths, storage: Storage) -> None:
    notifier = FakeNotifier()
    off = replace(Intent(), desktop=replace(Intent().desktop, notifications=False))
    look_for(NoticeWatch(args(paths, "failing"), notifier), storage, Facts(given_up=1), minutes=2, intent=off)
    assert not notifier.shown
    assert storage.connection is not None
    assert get_state(storage.connection, NOTICES_KEY) is None


def test_a_look_that_fails_ends_nothing(paths: Paths, storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    look_for(NoticeWatch(args(paths, "failing"), FakeNotifier()), storage, Facts(), minutes=1)
    assert "could not be looked at" in caplog.text


def test_trouble_with_the_memory_itself_is_told_without_it(paths: Paths, wait_until: Callable[..., None]) -> None:
    notifier = FakeNotifier()
    closed = Storage(paths)
    look_for(NoticeWatch(args(paths), notifier), closed, Facts(problem="the disk is full"), minutes=2)
    wait_until(lambda: notifier.shown)
    assert [key for key, _, _ in notifier.shown] == ["memory"]


# -- what the memory tells --------------------------------------------------------------------------------------------


def put_job(connection: Connection, status: str, at_ms: int = 0, *, alone: bool = True) -> None:
    with connection.write():
        if alone:
            connection.run("DELETE FROM mem_tree_jobs")
        connection.run(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms)
            VALUES ('seal', '{}', ?, 5, ?, 0)
            """,
            (status, at_ms),
        )


def test_what_wants_the_owner_is_what_status_says(paths: Paths, connection: Connection, clock: FakeClock) -> None:
    now_ms = clock.now_ms()

    def needed(intent: Intent | None = None) -> frozenset[Subject]:
        return what_is_needed(paths, connection, intent or Intent(), now_ms).on

    gone = replace(Intent(), models=ModelsIntent(active="gone"))
    assert needed() == needed(gone) == frozenset(), "nothing waits for a model"
    put_job(connection, "ready", now_ms + 1_000_000)
    assert needed() == frozenset()
    assert needed(gone) == {Subject.MODEL}
    put_job(connection, "failed")
    assert needed() == {Subject.FAILED}
    put_job(connection, "ready", alone=False)
    assert needed() == frozenset(), "what failed is told when all else is done"
    put_job(connection, "ready")
    assert needed() == frozenset()


def test_looking_walks_no_table(paths: Paths, connection: Connection, clock: FakeClock) -> None:
    asked: list[str] = []

    def trace(cursor: object, statement: str, bindings: object) -> bool:
        asked.append(statement)
        return True

    connection.raw.exec_trace = trace
    what_is_needed(paths, connection, Intent(), clock.now_ms())
    connection.raw.exec_trace = None
    large = ("mem_tree_items", "mem_tree_jobs", "mem_tree_chunks")
    assert len(asked) > 5
    for statement in asked:
        values = (0,) * statement.count("?")
        plan = [str(row[3]) for row in connection.all(f"EXPLAIN QUERY PLAN {statement}", values)]
        is_first_row_enough = "WHERE" not in statement
        walked = [line for line in plan if line.startswith("SCAN") and "INDEX" not in line and line.split()[1] in large]
        assert not walked or is_first_row_enough, statement
