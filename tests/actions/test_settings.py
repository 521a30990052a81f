from __future__ import annotations

import sys

import pytest

from agent.actions.settings import change, problem_in, reset, settings
from agent.config import load_intent
from agent.config_edit import replace_intent
from agent.errors import AgentFault, ConfigBroken, UsageFault
from agent.paths import Paths

WRITTEN = """\
# what I like
[pool]
max_workers = 3  # my machine is small

[[sources]]
id = "notes"
kind = "folder"
name = "Notes"
paths = ["{folder}"]
exclude = ["drafts/*"] # unfinished
"""


@pytest.fixture
def written(paths: Paths) -> str:
    text = WRITTEN.format(folder=paths.data_dir.as_posix())
    paths.config_file.write_text(text)
    return text


def origins(paths: Paths, **environ: str) -> dict[str, tuple[object, str]]:
    return {each.key: (each.value, each.origin) for each in settings(paths, environ).values}


def test_every_value_says_where_it_comes_from(paths: Paths, written: str) -> None:
    found = origins(paths, SAPWOOD_QUEUE__CRASH_LIMIT="7")
    assert found["pool.max_workers"] == (3, "file")
    assert found["pool.min_workers"] == (1, "default")
    assert found["queue.crash_limit"] == (7, "environment")
    assert found["sources.notes.exclude"] == (["drafts/*"], "file")
    assert found["sources.notes.hidden"] == (False, "default")


def test_a_change_keeps_the_comments_of_the_owner(paths: Paths, written: str) -> None:
    assert change(paths, "pool.max_workers", ["2"], {}).value == 2
    change(paths, "sources.notes.exclude", ["a b", "*.bak"], {})
    change(paths, "sources.notes.private", ["yes"], {})
    change(paths, "schedule.watch", ["off"], {})
    text = paths.config_file.read_text()
    assert "# what I like" in text
    assert "max_workers = 2  # my machine is small" in text
    assert 'exclude = ["a b", "*.bak"] # unfinished' in text
    source = load_intent(paths).intent.source("notes")
    assert source is not None
    assert source.private
    assert source.exclude == ("a b", "*.bak")
    assert load_intent(paths).intent.schedule.watch is False


def test_a_value_that_is_reset_leaves_the_file(paths: Paths, written: str) -> None:
    assert reset(paths, "pool.max_workers", {}).value == 4
    assert reset(paths, "sources.notes.exclude", {}).origin == "default"
    assert reset(paths, "queue.crash_limit", {}).value == 3
    text = paths.config_file.read_text()
    assert "max_workers" not in text
    assert "exclude" not in text
    with pytest.raises(UsageFault, match="no default"):
        reset(paths, "sources.notes.name", {})


@pytest.mark.parametrize(
    ("key", "words", "said"),
    [
        ("pool.max_workers", ["none"], "a whole number, 1 or more"),
        ("pool.max_workers", ["0"], "a whole number, 1 or more"),
        ("pool.max_workers", ["2", "3"], "2 were given"),
        ("pool.max_workers", [], "none was given"),
        ("pool.min_workers", ["4"], "pool.max_workers is 3"),
        ("queue.poll_seconds", ["nan"], "a number above 0"),
        ("queue.poll_seconds", ["inf"], "a number above 0"),
        ("schedule.watch", ["perhaps"], "true or false"),
        ("schedule.timezone", ["Nowhere/Land"], "no time zone"),
        ("models.active", ["oracle"], "there are: builtin"),
        ("sources.notes.paths", ["/not/there/at/all"], "is not there"),
        ("sources.notes.max_bytes", ["-5"], "a whole number, 1 or more"),
        ("sources.notes.include", ["!"], "cannot have !"),
        ("sources.notes.name", [" "], "cannot be empty"),
        ("sources.notes.id", ["other"], "filed under that"),
        ("sources.notes.kind", ["mbox"], "filed under that"),
        ("sources.other.name", ["x"], "sources.notes.name"),
        ("sources.notes.exclud", ["x"], "sources.notes.exclude"),
        ("pool.max_wokers", ["2"], "pool.max_workers"),
        ("max_workers", ["2"], "pool.max_workers"),
        ("pool", ["2"], "there is no setting"),
        ("", ["2"], "there is no setting"),
    ],
)
def test_a_value_is_checked_before_it_is_written(
    paths: Paths, written: str, key: str, words: list[str], said: str
) -> None:
    with pytest.raises(UsageFault) as caught:
        change(paths, key, words, {})
    fault = caught.value
    assert said in f"{fault.title} {fault.detail} {fault.hint}"
    assert fault.hint
    assert paths.config_file.read_text() == written


def test_a_change_that_the_environment_beats_says_so(paths: Paths) -> None:
    found = change(paths, "pool.max_workers", ["2"], {"SAPWOOD_POOL__MAX_WORKERS": "6"})
    assert (found.value, found.overridden_by) == (6, "SAPWOOD_POOL__MAX_WORKERS")
    assert load_intent(paths, {}).intent.pool.max_workers == 2


def test_a_broken_file_is_answered_from_its_last_good_copy(paths: Paths, written: str) -> None:
    change(paths, "pool.max_workers", ["2"], {})
    paths.config_file.write_text("[pool\nmax_workers = 9\n")
    found = settings(paths, {})
    assert found.problem is not None
    assert found.one("pool.max_workers").value == 2
    assert found.one("pool.max_workers").origin == "file"
    with pytest.raises(ConfigBroken):
        change(paths, "pool.max_workers", ["3"], {})


def test_a_change_may_mend_the_value_that_broke_the_file(paths: Paths, written: str) -> None:
    change(paths, "pool.max_workers", ["2"], {})
    paths.config_file.write_text(written.replace("max_workers = 3", 'max_workers = "many"'))
    assert change(paths, "pool.max_workers", ["3"], {}).value == 3


def test_keys_of_the_file_that_change_nothing_are_named(paths: Paths, written: str) -> None:
    paths.config_file.write_text("[pol]\nx = 1\n" + written.replace("max_workers", "max_wokers"))
    assert settings(paths, {}).unknown == ("pol", "pool.max_wokers")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pool]\nmax_workers = \n", "line 2"),
        ("# x\n[pool]\nmin_workers = 1\nmax_workers = 'many'\n", "line 4: "),
        ("queue.crash_limit = 0\n", "line 1: "),
        ("[[sources]]\nid='a'\nkind='folder'\nname='a'\npaths=[]\n[[sources]]\nid='b'\nkind=1\n", "line 8: "),
        ("[[sources]]\nid='a'\nkind='folder'\nname='a'\npaths=[]\n[[sources]]\nid='b'\nkind='c'\n", "line 6: "),
        ("[[sources]]\nid='a'\nkind='f'\nname='a'\npaths=[]\n" * 2, "two sources have the id a"),
    ],
)
def test_a_problem_names_its_line(text: str, said: str) -> None:
    assert said in (problem_in(text) or "")


def test_a_text_takes_the_place_only_of_what_it_was_made_from(paths: Paths, written: str) -> None:
    with pytest.raises(ConfigBroken):
        replace_intent(paths, "[", was=written)
    with pytest.raises(AgentFault, match="changed by another program"):
        replace_intent(paths, "", was="something else")
    assert paths.config_file.read_text() == written
    replace_intent(paths, "[pool]\nmax_workers = 2\n", was=written)
    assert load_intent(paths, {}).intent.pool.max_workers == 2
    assert paths.last_good_config.read_text() == paths.config_file.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_settings_that_are_kept_elsewhere_stay_there(paths: Paths, written: str) -> None:
    kept = paths.data_dir / "dotfiles.toml"
    paths.config_file.rename(kept)
    paths.config_file.symlink_to(kept)
    change(paths, "pool.max_workers", ["2"], {})
    assert paths.config_file.is_symlink()
    assert "max_workers = 2" in kept.read_text()
