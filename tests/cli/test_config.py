"""``sapwood config`` as an owner meets it: what is printed, the editor, a broken file, the environment."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli.intent import edited
from agent.errors import ConfigBroken
from agent.paths import Paths
from tests.cli.conftest import Sapwood, widths

SOUND = """\
# my own words
[pool]
max_workers = 3
"""


@pytest.fixture
def written(paths: Paths, sapwood: Sapwood) -> Paths:
    paths.config_file.write_text(SOUND)
    assert sapwood("config", "set", "pool.max_workers", "3").code == 0
    return paths


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes $EDITOR a program that carries out some Python on ``path``."""

    def use(code: str) -> None:
        script = tmp_path / "editor.py"
        script.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n{code}\n")
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f'"{sys.executable}" "{script}"')

    return use


def test_all_of_it_is_printed_with_where_it_comes_from(
    sapwood: Sapwood, written: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_QUEUE__CRASH_LIMIT", "5")
    ran = sapwood("config")
    assert max(widths(ran.out)) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["pool.max_workers"] == ["3", "file"]
    assert rows["pool.min_workers"] == ["1", "default"]
    assert rows["queue.crash_limit"] == ["5", "environment"]
    assert rows["schedule.timezone"] == ['""', "default"]


def test_a_value_is_printed_bare_for_scripts(sapwood: Sapwood, written: Paths, tmp_path: Path) -> None:
    sapwood("add", str(tmp_path / "home" / ".."), "--name", "all")
    sapwood("config", "set", "sources.all.exclude", "a b/*", "*.bak")
    assert sapwood("config", "get", "pool.max_workers").out == "3\n"
    assert sapwood("config", "get", "sources.all.exclude").out == "a b/*\n*.bak\n"
    assert sapwood("config", "get", "sources.all.name").out == "all\n"
    assert sapwood("config", "get", "sources.all.max_bytes").out == "\n"
    assert sapwood("config", "path").out == f"{written.config_file}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("set",),
        ("set", "pool.max_workers"),
        ("set", "pool.max_workers", "2", "--default"),
        ("get", "pool.max_workers", "2"),
        ("get", "pool.max_wokers"),
        ("set", "pool.max_workers", "many"),
        ("path", "pool"),
        ("edit", "pool"),
        ("get", "pool", "--default"),
        ("pool.max_workers",),
    ],
)
def test_wrong_words_change_nothing_and_say_what_to_do(
    words: tuple[str, ...], sapwood: Sapwood, written: Paths
) -> None:
    before = written.config_file.read_text()
    ran = sapwood("config", *words)
    assert ran.code == 2
    assert len(ran.err.splitlines()) >= 2
    assert max(widths(ran.err)) <= 80
    assert written.config_file.read_text() == before


def test_what_the_environment_beats_is_said(sapwood: Sapwood, written: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_POOL__MAX_WORKERS", "4")
    ran = sapwood("config", "set", "pool.max_workers", "2")
    assert ran.out == "pool.max_workers is 4\n"
    assert "SAPWOOD_POOL__MAX_WORKERS" in ran.err


def test_a_broken_file_still_answers_has_a_path_and_can_be_edited(
    sapwood: Sapwood, written: Paths, editor: Callable[[str], None]
) -> None:
    written.config_file.write_text(SOUND + "[queue\n")
    ran = sapwood("config", "get", "pool.max_workers")
    assert (ran.code, ran.out) == (0, "3\n")
    assert "last good copy" in ran.err
    assert "line 4" in ran.err
    assert "config edit" in ran.err
    assert sapwood("config", "path").code == 0
    ran = sapwood("config", "set", "pool.max_workers", "2")
    assert ran.code == 1
    assert written.config_file.read_text() == SOUND + "[queue\n"
    editor("path.write_text(text.replace('[queue', '[queue]'))")
    assert sapwood("config", "edit").out == "the settings are changed\n"
    assert written.config_file.read_text() == SOUND + "[queue]\n"
    assert "last good copy" not in sapwood("config").err


def test_a_key_that_is_no_setting_is_told(sapwood: Sapwood, written: Paths) -> None:
    written.config_file.write_text("[pool]\nmax_wokers = 9\n")
    ran = sapwood("config")
    assert "pool.max_wokers is in the file but is no setting" in " ".join(ran.err.split())
    assert "did you mean pool.max_workers?" in " ".join(ran.err.split())


def test_the_editor_works_on_a_copy_and_nothing_broken_takes_the_place(
    sapwood: Sapwood, written: Paths, editor: Callable[[str], None]
) -> None:
    editor("path.write_text(text + 'oh [no')")
    ran = sapwood("config", "edit")
    assert ran.code == 1
    assert "line 4" in ran.err
    assert "config.toml is as it was" in ran.err
    assert written.config_file.read_text() == SOUND
    editor("path.write_text(text.replace('3', '0'))")
    assert "line 3: " in sapwood("config", "edit").err
    editor("sys.exit(3)")
    assert "the editor ended with 3" in sapwood("config", "edit").err
    editor("pass")
    assert sapwood("config", "edit").out == "nothing was changed\n"
    assert written.config_file.read_text() == SOUND
    editor("path.write_text(text.replace('3', '2'))")
    assert sapwood("config", "edit", "--json").document["changed"] is True
    assert "max_workers = 2" in written.config_file.read_text()


def test_a_change_by_another_program_meanwhile_is_not_written_over(
    sapwood: Sapwood, written: Paths, editor: Callable[[str], None]
) -> None:
    editor(f"pathlib.Path({str(written.config_file)!r}).write_text('# theirs')\npath.write_text(text + '# mine')")
    ran = sapwood("config", "edit")
    assert ran.code == 1
    assert "changed by another program" in ran.err
    assert written.config_file.read_text() == "# theirs"


@pytest.mark.parametrize(("variable", "value"), [("POOL__MAX_WORKERS", "many"), ("POOL__MAX_WOKERS", "2")])
def test_a_broken_word_of_the_environment_is_told_as_what_it_is(
    variable: str, value: str, sapwood: Sapwood, written: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SAPWOOD_{variable}", value)
    for command in (("config",), ("status",), ("config", "set", "pool.max_workers", "2")):
        ran = sapwood(*command)
        assert ran.code == 1
        assert f"mend or unset SAPWOOD_{variable}" in ran.err
        assert "config.toml" not in ran.err
    assert sapwood("config", "path").code == 0
    assert written.config_file.read_text() == SOUND


def test_an_editor_that_is_not_there_is_told(sapwood: Sapwood, written: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/vi -x")
    ran = sapwood("config", "edit")
    assert ran.code == 1
    assert "cannot be started: /nowhere/vi" in ran.err
    assert "$EDITOR" in ran.err


def test_editing_goes_on_while_its_owner_says_so() -> None:
    texts = iter(["[", "[pool]\nmax_workers = 0\n", "[pool]\nmax_workers = 1\n"])
    asked: list[str] = []

    def go_on(problem: str) -> bool:
        asked.append(problem)
        return True

    assert edited(lambda: next(texts), go_on).endswith("= 1\n")
    assert ["line 1" in asked[0], asked[1].startswith("line 2: ")] == [True, True]
    with pytest.raises(ConfigBroken, match="cannot be read"):
        edited(lambda: "[", lambda _: False)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals of this kind")
def test_on_a_terminal_a_broken_text_is_offered_for_editing_again(
    written: Paths, editor: Callable[[str], None], wait_until: Callable[..., None]
) -> None:
    import pty

    editor("path.write_text(text.replace('oh [no', '') if 'oh' in text else text + 'oh [no')")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "agent.cli.main", "config", "edit"])
    seen = bytearray()
    os.set_blocking(terminal, False)

    def heard(words: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing there yet, or the end
            seen.extend(os.read(terminal, 4096))
        return words in seen

    wait_until(lambda: heard(b"Go on editing?"), 20, "the question")
    assert b"line 4" in seen
    os.write(terminal, b"\n")
    wait_until(lambda: heard(b"nothing was changed"), 20, "the end")
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
    assert written.config_file.read_text() == SOUND
