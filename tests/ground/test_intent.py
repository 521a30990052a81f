import os
import stat
import threading

import pytest

from agent.config import IntentWatcher, SourceIntent, load_intent, parse_intent
from agent.config_edit import add_source, edit_intent, keep_last_good, remove_source, write_atomically
from agent.errors import ConfigBroken, UsageFault
from agent.paths import Paths

NOTES = SourceIntent("notes", "folder", "Notes", ("/tmp/notes",))


def test_a_missing_file_is_an_empty_intent_with_the_defaults_of_the_design(paths: Paths) -> None:
    intent = load_intent(paths, {}).intent
    assert intent.sources == ()
    assert (intent.pool.min_workers, intent.pool.max_workers, intent.queue.crash_limit) == (1, 4, 3)
    assert (intent.queue.lease_seconds, intent.queue.poll_seconds) == (300.0, 5.0)
    assert [intent.time_limit_s(k) for k in ("extract_chunk", "append_buffer", "seal", "flush_stale")] == [
        120.0,
        30.0,
        300.0,
        30.0,
    ]


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("SAPWOOD_QUEUE__CRASH_LIMIT", "7", lambda i: i.queue.crash_limit == 7),
        ("SAPWOOD_QUEUE__LEASE_SECONDS", "2.5", lambda i: i.queue.lease_seconds == 2.5),
        ("SAPWOOD_SUPERVISOR__FAILURE_LIMIT", "50", lambda i: i.supervisor.failure_limit == 50),
        ("SAPWOOD_POOL__MAX_WORKERS", "2", lambda i: i.pool.max_workers == 2),
    ],
)
def test_the_environment_overrides_any_value(name, value, read) -> None:
    assert read(parse_intent("[queue]\ncrash_limit = 4\n", {name: value}))


@pytest.mark.parametrize(
    ("text", "environ", "words"),
    [
        ("[queue]\ncrash_limit = = 4\n", {}, "line 2"),
        ("[queue]\ncrash_limit = 0\n", {}, "queue.crash_limit"),
        ("[queue]\ncrash_limit = 'three'\n", {}, "queue.crash_limit"),
        ("", {"SAPWOOD_QUEUE__CRASH_LIMIT": "many"}, "SAPWOOD_QUEUE__CRASH_LIMIT"),
        ("", {"SAPWOOD_QUEUE__CRASHLIMIT": "3"}, "SAPWOOD_QUEUE__CRASHLIMIT"),
    ],
)
def test_a_broken_intent_names_the_place(text, environ, words) -> None:
    with pytest.raises(ConfigBroken) as caught:
        parse_intent(text, environ)
    assert words in caught.value.detail
    assert caught.value.hint


def test_a_broken_file_leaves_the_last_good_copy_in_force_and_says_so(paths: Paths) -> None:
    add_source(paths, NOTES)
    paths.config_file.write_text("[queue")
    loaded = load_intent(paths)
    assert loaded.intent.sources == (NOTES,)
    assert loaded.problem is not None


def test_a_broken_file_is_never_written_over(paths: Paths) -> None:
    paths.config_file.write_text("[queue")
    with pytest.raises(ConfigBroken):
        add_source(paths, NOTES)
    assert paths.config_file.read_text() == "[queue"


def test_an_edit_that_would_break_the_intent_changes_nothing(paths: Paths) -> None:
    add_source(paths, NOTES)
    before = paths.config_file.read_text()
    with pytest.raises(ConfigBroken):
        edit_intent(paths, lambda document: document.update({"pool": {"max_workers": 0}}))
    assert paths.config_file.read_text() == before


def test_the_owners_comments_survive_an_edit(paths: Paths) -> None:
    paths.config_file.write_text("# mine\n[pool]\nmax_workers = 2 # small machine\n")
    add_source(paths, NOTES)
    text = paths.config_file.read_text()
    assert "# mine" in text
    assert "# small machine" in text
    assert load_intent(paths).intent.pool.max_workers == 2


def test_a_source_id_is_taken_once(paths: Paths) -> None:
    add_source(paths, NOTES)
    with pytest.raises(UsageFault):
        add_source(paths, NOTES)


def test_a_source_is_added_after_the_last_one_left(paths: Paths) -> None:
    add_source(paths, NOTES)
    assert remove_source(paths, NOTES.id)
    assert load_intent(paths).intent.sources == ()
    assert add_source(paths, NOTES).sources == (NOTES,)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("sources = []\n[queue]\nmax_ready_ingest = 9\n", 0),
        ('sources = [{id = "x", kind = "folder", name = "x", paths = ["/x"]}]\n', 1),
    ],
)
def test_a_source_is_added_however_the_owner_wrote_the_others(paths: Paths, text: str, held: int) -> None:
    paths.config_file.write_text(text)
    assert add_source(paths, NOTES).sources[held:] == (NOTES,)
    assert len(load_intent(paths).intent.sources) == held + 1


def test_sources_added_at_the_same_time_are_all_kept(paths: Paths) -> None:
    threads = [
        threading.Thread(target=add_source, args=(paths, SourceIntent(f"s{n}", "folder", f"S{n}", (f"/tmp/{n}",))))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {source.id for source in load_intent(paths).intent.sources} == {f"s{n}" for n in range(8)}


def test_a_write_is_whole_or_not_at_all(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(paths.config_file, "a = 1\n")

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(paths.config_file, "a = 2\n")
    assert paths.config_file.read_text() == "a = 1\n"
    assert [path.name for path in paths.config_dir.iterdir()] == ["config.toml"]


@pytest.mark.skipif(os.name == "nt", reason="file modes are POSIX's")
def test_the_intent_is_readable_by_its_owner_alone(paths: Paths) -> None:
    add_source(paths, NOTES)
    assert stat.S_IMODE(paths.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.config_dir.stat().st_mode) == 0o700


def test_a_watcher_sees_a_change_at_the_next_look_and_survives_a_broken_file(paths: Paths) -> None:
    watcher = IntentWatcher(paths)
    assert watcher.current.sources == ()
    add_source(paths, NOTES)
    assert watcher.current.sources == (NOTES,)
    assert watcher.problem is None
    paths.config_file.write_text("[queue")
    paths.last_good_config.unlink()
    assert watcher.current.sources == (NOTES,)
    assert watcher.problem is not None


def test_a_slip_in_the_file_does_not_undo_what_the_owner_wrote_by_hand(paths: Paths) -> None:
    add_source(paths, NOTES)  # the copy is of this
    watcher = IntentWatcher(paths)
    paths.config_file.write_text("[pool]\nmax_workers = 2\n")
    assert watcher.current.sources == ()
    paths.config_file.write_text("[pool\nmax_workers = 3\n")
    assert watcher.current.sources == ()
    assert watcher.current.pool.max_workers == 2
    assert watcher.problem is not None


def test_the_last_good_copy_follows_the_owners_own_edits(paths: Paths) -> None:
    add_source(paths, NOTES)
    watcher = IntentWatcher(paths, on_good=keep_last_good)
    paths.config_file.write_text("[pool]\nmax_workers = 2\n")
    assert watcher.current.pool.max_workers == 2
    stamp = paths.last_good_config.stat().st_mtime_ns
    assert not keep_last_good(paths), "the same text is not written again"
    paths.config_file.write_text("[pool\n")
    assert watcher.current.pool.max_workers == 2
    assert paths.last_good_config.stat().st_mtime_ns == stamp, "a broken file is no good copy"
    loaded = load_intent(paths)
    assert (loaded.intent.pool.max_workers, loaded.intent.sources) == (2, ())
    assert loaded.problem is not None
