"""When a change leads to a look, which source it concerns, and what is watched: decided without threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ScheduleIntent, SourceIntent
from agent.db import Connection
from agent.paths import Paths
from agent.queue.registry import Registry
from agent.supervisor.keeper import RETRY_S, STAT_EVERY_S, Keeper, Target, sources_of, targets_of
from agent.supervisor.tick import Housekeeping
from agent.supervisor.watch import LOOKS_SHARE, QUIET_S, Pace, SourceWatch
from agent.system.watching import FakeWatching, Refusal, Watch, WatchBroken

NOTES = {"notes": Target(("/home/ada/notes",))}


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("/home/ada/notes/a.md", True),
        ("/home/ada/notes", True),
        ("/home/ada/notes/deep/er/b.md", True),
        ("/home/ada/notes/.sapwoodignore", True),
        ("/home/ada/notes/.git/index", False),
        ("/home/ada/notes/.a.md.swp", False),
        ("/home/ada/notes/a.md~", False),
        ("/home/ada/notes/#a.md#", False),
        ("/home/ada/notes/4913", False),
        ("/home/ada/notes/app/node_modules/x/readme.md", False),
        ("/home/ada/notes-old/a.md", False),
        ("/home/ada/other.md", False),
    ],
)
def test_only_what_may_be_read_causes_a_look(path: str, concerned: bool) -> None:
    assert sources_of(path, NOTES) == ({"notes"} if concerned else set())


def test_a_single_file_is_noticed_and_its_neighbours_are_not() -> None:
    targets = {"mail": Target(("/home/ada/mail.mbox",))}
    assert sources_of("/home/ada/mail.mbox", targets) == {"mail"}
    assert sources_of("/home/ada/mail.mbox.lock", targets) == set()
    assert sources_of("/home/ada/else.txt", targets) == set()


def test_our_own_files_cause_no_look_and_the_inbox_does(paths: Paths) -> None:
    home = paths.config_dir.parent
    intent = Intent(sources=(SourceIntent("all", "folder", "All", (str(home.parent),)),))
    targets = targets_of(intent, paths)
    assert sources_of(f"{paths.data_dir}/chunks.db-wal", targets) == set()
    assert sources_of(f"{paths.inbox}/thoughts/a.json", targets) == {"thoughts"}
    assert sources_of(f"{home.parent}/a.md", targets) == {"all"}


def test_hidden_names_count_where_the_owner_says_so() -> None:
    assert sources_of("/n/.diary/a.md", {"n": Target(("/n",), hidden=True)}) == {"n"}


def test_a_burst_is_one_look_when_it_is_over() -> None:
    pace = Pace()
    for moment in (10.0, 10.4, 10.8):
        pace.changed("notes", moment)
    assert pace.due_at("notes", 2.0, 0.0) == pytest.approx(10.8 + QUIET_S)


def test_a_burst_without_an_end_is_looked_at_all_the_same() -> None:
    pace = Pace()
    for tenth in range(1000):
        pace.changed("notes", tenth / 10)
    assert pace.due_at("notes", 2.0, 0.0) <= 10.0


def test_a_source_that_always_changes_is_looked_at_for_a_twentieth_of_the_time() -> None:
    pace, looks = Pace(), []
    for tenth in range(10 * 3600):
        now = tenth / 10
        pace.changed("notes", now)
        if pace.due_at("notes", 2.0, look_s=3.0) <= now:
            looks.append(now)
            pace.drop("notes")
            pace.asked("notes", now)
    assert min(after - before for before, after in pairwise(looks)) >= LOOKS_SHARE * 3.0
    assert len(looks) >= 3600 / (LOOKS_SHARE * 3.0) - 2


def test_a_change_after_a_look_was_asked_for_is_not_lost() -> None:
    pace = Pace()
    pace.changed("notes", 1.0)
    pace.asked("notes", 2.0)
    assert not pace.pending, "that look sees it"
    pace.changed("notes", 2.1)
    pace.asked("notes", 2.0)
    assert pace.pending == {"notes"}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("one", "two")}
    for path in found.values():
        path.mkdir()
    return found


def _wanted(folders: dict[str, Path]) -> dict[str, Target]:
    return {name: Target((str(path),)) for name, path in folders.items()}


def test_what_changes_while_the_watch_is_opened_anew_is_not_lost(folders: dict[str, Path]) -> None:
    class Told:
        def __init__(self, news: set[str]) -> None:
            self.news = news

        def take(self) -> set[str]:
            found, self.news = self.news, set()
            return found

        def close(self) -> None:
            self.news = set()

    class Slow:
        def __init__(self) -> None:
            self.opened: list[Told] = []

        def open(self, folders: Iterable[str], parents: Iterable[str]) -> Watch:
            if self.opened:
                self.opened[-1].news.add(f"{next(iter(folders))}/meanwhile.md")
            self.opened.append(Told(set()))
            return self.opened[-1]

    keeper = Keeper(Slow())
    one = {"one": _wanted(folders)["one"]}
    keeper.want(one)
    assert keeper.turn(0.0) == {"one"}
    assert keeper.turn(1.0) == set()
    keeper.want(_wanted(folders))
    assert keeper.turn(2.0) == {"one", "two"}


def test_a_source_behind_a_link_is_known_by_its_real_name_too(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = folders["one"].with_name("link")
    link.symlink_to(folders["one"])
    watching = FakeWatching()
    keeper = Keeper(watching)
    keeper.want({"one": Target((str(link),))})
    keeper.turn(0.0)
    for path, noticed in ((folders["one"] / "a.md", True), (link / "a.md", True), (folders["two"] / "a.md", False)):
        monkeypatch.setattr(watching, "taken", lambda path=path: {str(path)})
        assert keeper.turn(1.0) == ({"one"} if noticed else set())


def test_a_refused_source_leaves_the_others_watched_and_is_tried_again(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    watching = FakeWatching()
    watching.refused[str(folders["one"])] = Refusal.TOO_MANY_FOLDERS
    keeper = Keeper(watching)
    keeper.want(_wanted(folders))
    keeper.turn(0.0)
    assert "fs.inotify.max_user_watches" in (keeper.reason("one") or "")
    assert keeper.reason("two") is None
    watching.change(f"{folders['two']}/a.md")
    assert keeper.turn(1.0) == {"two"}
    keeper.turn(RETRY_S + 1)
    assert sum("max_user_watches" in record.message for record in caplog.records) == 1, "said once"
    watching.refused.clear()
    assert "one" in keeper.turn(2 * RETRY_S + 2), "whatever changed meanwhile is looked at"
    assert keeper.reason("one") is None


def test_a_source_of_too_many_folders_is_looked_at_and_the_smaller_one_watched(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.supervisor.keeper.MOST_FOLDERS", 10)
    for number in range(12):
        (folders["one"] / str(number)).mkdir()
    watching = FakeWatching()
    keeper = Keeper(watching)
    keeper.want(_wanted(folders))
    assert keeper.turn(0.0) == {"two"}
    assert keeper.reason("one") == Refusal.TOO_LARGE.value
    assert watching.open_paths == {str(folders["two"])}


def test_a_missing_path_is_watched_when_it_comes_and_costs_nothing_before(folders: dict[str, Path]) -> None:
    watching = FakeWatching()
    keeper = Keeper(watching)
    folders["two"].rmdir()
    keeper.want(_wanted(folders))
    keeper.turn(0.0)
    assert keeper.reason("two") == Refusal.MISSING.value
    for turn in range(1, 20):
        keeper.turn(turn * STAT_EVERY_S)
    assert watching.opened == 1
    folders["two"].mkdir()
    assert keeper.turn(30 * STAT_EVERY_S) == {"two"}
    assert keeper.reason("two") is None


def test_a_folder_that_was_made_anew_is_watched_anew(folders: dict[str, Path], tmp_path: Path) -> None:
    keeper = Keeper(FakeWatching())
    keeper.want(_wanted(folders))
    keeper.turn(0.0)
    folders["one"].rename(tmp_path / "away")
    folders["one"].mkdir()
    assert keeper.turn(STAT_EVERY_S + 1) == {"one"}


def test_sources_come_and_go_without_a_restart(folders: dict[str, Path]) -> None:
    watching = FakeWatching()
    keeper = Keeper(watching)
    keeper.want(_wanted({"one": folders["one"]}))
    assert keeper.turn(0.0) == {"one"}
    keeper.want(_wanted(folders))
    assert keeper.turn(1.0) == {"two"}, "the other one needs no look"
    keeper.want({})
    assert keeper.turn(2.0) == set()
    assert watching.open_paths == set()


def test_a_watch_that_breaks_is_told_and_everything_is_looked_at_after_it(folders: dict[str, Path]) -> None:
    watching = FakeWatching()
    keeper = Keeper(watching)
    keeper.want(_wanted(folders))
    keeper.turn(0.0)
    watching.broken = True
    with pytest.raises(WatchBroken):
        keeper.turn(1.0)
    keeper.close()
    assert keeper.turn(2.0) == {"one", "two"}


def _source_watch(paths: Paths, watching: FakeWatching, nudges: list[int]) -> SourceWatch:
    class RealMonotonic(FakeClock):
        def monotonic(self) -> float:
            return time.monotonic()

    return SourceWatch(paths, watching, RealMonotonic(), lambda: nudges.append(1))


def test_a_thread_that_fails_begins_again_and_ends_when_told(
    paths: Paths, folders: dict[str, Path], wait_until: Callable[..., None]
) -> None:
    watching, nudges = FakeWatching(), list[int]()
    watch = _source_watch(paths, watching, nudges)
    sources = tuple(SourceIntent(name, "folder", name, (str(path),)) for name, path in folders.items())
    intent = Intent(sources=sources, schedule=ScheduleIntent(watch_seconds=1.0))
    watch.follow(intent)
    wait_until(lambda: nudges and watching.opened == 1)
    watching.broken = True
    watch.follow(replace(intent))
    wait_until(lambda: watching.opened == 2, what="a second beginning")
    assert {how["how"] for how in watch.hows(intent)} == {"watched"}
    off = replace(intent, schedule=ScheduleIntent(watch=False))
    watch.follow(off)
    wait_until(lambda: not watching.open_paths, 2.0, "letting go at once")
    assert watch.hows(off)[0] == {
        "source": "one",
        "how": "looked at every 15 min",
        "reason": "watching is switched off",
    }
    began = time.monotonic()
    watch.stop()
    watch.join()
    assert time.monotonic() - began < 0.5


def test_looks_are_asked_for_once_and_a_look_seen_elsewhere_counts(
    connection: Connection, paths: Paths, folders: dict[str, Path], wait_until: Callable[..., None]
) -> None:
    watching, nudges, asked = FakeWatching(), list[int](), list[str]()
    watch = _source_watch(paths, watching, nudges)
    watch.follow(Intent(sources=(SourceIntent("one", "folder", "one", (str(folders["one"]),)),)))

    def ask(it: Connection, source_id: str) -> None:
        asked.append(source_id)

    try:
        wait_until(lambda: nudges)
        assert not watch.collect({"one": 5}, time.monotonic()), "the look of the start came after the watch began"
        watching.change(os.path.join(folders["one"], "a.md"))
        wait_until(lambda: watch.collect({"one": 5}, time.monotonic()), 6.0)
        end = time.monotonic() + 100
        watch.ask(connection, ask, end, 6)
        assert asked == ["one"]
        assert not watch.collect({"one": 6}, end + 1)
    finally:
        watch.stop()
        watch.join()


def test_after_a_sleep_every_source_is_looked_at_once(connection: Connection) -> None:
    registry = Registry.load(("agent.worker.handlers.sync_source:SPEC",))
    housekeeping = Housekeeping(registry)
    intent = Intent(sources=(SourceIntent("one", "folder", "one", ("/x",)),))

    def asked_after(now_ms: int, *, catch_up: bool = True) -> int:
        housekeeping.tick(connection, intent, now_ms, catch_up=catch_up)
        return housekeeping.asked_ms["one"]

    assert asked_after(1_000_000) == 1_000_000
    assert asked_after(1_001_000) == 1_000_000
    housekeeping.look_at_all()
    assert asked_after(1_002_000, catch_up=False) == 1_000_000, "not before the network had time to come back"
    assert asked_after(1_003_000) == 1_003_000
    assert asked_after(1_004_000) == 1_003_000
