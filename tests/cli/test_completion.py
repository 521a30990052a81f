"""A shell completes commands, options, kinds, and the names of sources from the settings alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.paths import Paths
from tests.cli.conftest import Sapwood


def asked(words: list[str], environ: dict[str, str] | None = None) -> list[str]:
    """Return what a shell is answered that asks for the last of these words."""
    ran = subprocess.run(
        [sys.executable, "-m", "agent.cli.main"],
        env={
            **os.environ,
            **(environ or {}),
            "_SAPWOOD_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["sapwood", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert ran.stderr == ""
    return [line.partition(",")[2] for line in ran.stdout.splitlines() if line]


@pytest.fixture
def named(paths: Paths) -> Paths:
    for name in ("notes", "north", "mail"):
        add_source(paths, SourceIntent(name, "folder", name, (str(paths.data_dir),)))
    return paths


def test_commands_options_kinds_and_statuses_are_completed(named: Paths) -> None:
    assert asked(["st"]) == ["status", "stop"]
    assert "--status" in asked(["jobs", "--"])
    assert asked(["jobs", "--status", "ru"]) == ["running"]
    assert asked(["jobs", "--kind", "se"]) == ["seal", "seal_document"]
    assert asked(["add", "--kind", "mb"]) == ["mbox"]


def test_names_of_sources_are_completed_without_opening_the_memory(named: Paths) -> None:
    assert asked(["sync", "no"]) == ["notes", "north"]
    assert asked(["search", "words", "--source", ""]) == ["notes", "north", "mail"]
    assert asked(["tree", "m"]) == ["mail"]
    assert not named.database.exists()


def test_keys_of_the_settings_are_completed(named: Paths) -> None:
    assert asked(["config", "get", "pool."]) == ["pool.min_workers", "pool.max_workers", "pool.idle_seconds"]
    assert "sources.mail.exclude" in asked(["config", "set", "sources.mail."])


def test_names_of_profiles_and_their_values_are_completed(named: Paths) -> None:
    held = named.config_file.read_text("utf-8")
    box = '[[profiles]]\nname = "box"\nprovider = "ollama"\nchat_model = "m"\n'
    named.config_file.write_text(f"{held}\n{box}", "utf-8")
    assert asked(["model", "use", "b"]) == ["builtin", "box"]
    assert asked(["model", "re"]) == ["remove"]
    assert asked(["config", "set", "profiles.box.chat"]) == ["profiles.box.chat_model"]
    assert asked(["model", "add", "x", "--provider", "o"]) == ["ollama", "openai"]
    assert not named.database.exists()


def test_broken_settings_complete_nothing_and_say_nothing(named: Paths) -> None:
    named.config_file.write_text("[")
    named.last_good_config.unlink()
    assert asked(["sync", ""]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_is_one_that_its_shell_takes(shell: str, sapwood: Sapwood, tmp_path: Path) -> None:
    ran = sapwood("completion", shell)
    assert ran.code == 0
    assert "_SAPWOOD_COMPLETE" in ran.out
    assert sapwood("completion", shell, "--json").document == {"shell": shell, "script": ran.out}
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine: apt-get install {shell}")
    script = tmp_path / "script"
    script.write_text(ran.out)
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False, timeout=30)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on this machine: apt-get install bash")
def test_a_real_bash_completes_the_name_of_a_source(named: Paths, sapwood: Sapwood, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "sapwood"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agent.cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "script").write_text(sapwood("completion", "bash").out)
    code = (
        f'source "{tmp_path}/script"\n'
        "complete -p sapwood\n"
        "COMP_WORDS=(sapwood sync no) COMP_CWORD=2\n"
        "_sapwood_completion sapwood no sync\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", code],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines()[0].endswith("-F _sapwood_completion sapwood")
    assert ran.stdout.splitlines()[1:] == ["notes", "north"]
