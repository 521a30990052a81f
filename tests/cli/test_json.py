"""``--json`` of every command: one document on stdout, with the keys that scripts rely on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.cli.program import build
from tests.cli.conftest import Sapwood

NAMES = sorted(build().commands)

# Words and keys of each command. {tmp} is an empty folder, {node} a node, {job} a job.
CASES: dict[str, tuple[str, str]] = {
    "add": ("add {tmp}", "source_id kind items"),
    "autostart": ("autostart status", "enabled mechanism path"),
    "backup": ("backup {tmp}/b.backup", "path bytes ok"),
    "bug-report": ("bug-report -o {tmp}/r.zip", "path files"),
    "cancel": ("cancel {job}", "id"),
    "completion": ("completion bash", "shell script"),
    "config": ("config", "queue limits pool sources origins"),
    "doctor": ("doctor --deep", "ok checks"),
    "export": ("export {tmp}/out", "files"),
    "forget": ("forget notes --mentions quinces --yes", "chunks_removed summaries_removed"),
    "jobs": ("jobs", "jobs"),
    "key": ("key status", "stored keyring file"),
    "logs": ("logs", "lines"),
    "mcp": ("mcp config codex", "client path snippet"),
    "model": ("model", "active profiles"),
    "open": ("open", "error"),
    "pause": ("pause 1h", "paused_until"),
    "rebuild": ("rebuild --summaries --yes", ""),
    "remember": ("remember quinces", "source_id item_key"),
    "remove": ("remove club-chat --yes", "chunks_removed summaries_removed"),
    "restore": ("restore {tmp}/none --yes", "error"),
    "resume": ("resume", "paused_until"),
    "retry": ("retry --all", "requeued"),
    "search": ("search greenhouse key", "searched hits"),
    "setup": ("setup", "is_first suggestions models local_server autostart"),
    "show": ("show {node}", "node children parents origin"),
    "sources": ("sources", "sources"),
    "status": ("status", "state reason profile workers queue sources chunks summaries embedded eta_seconds"),
    "stop": ("stop", "error"),
    "sync": ("sync", "queued"),
    "tree": ("tree", "trees"),
    "usage": ("usage", "rows"),
}
# Seen in tests/cli/test_run.py and tests/frozen with real processes.
ELSEWHERE = {"run", "demo", "self-test"}


@pytest.fixture
def own_grown(grown_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the grown samples, for commands that change it."""
    home = Path(shutil.copytree(grown_home, tmp_path / "home", dirs_exist_ok=True))
    monkeypatch.setenv("SAPWOOD_HOME", str(home))
    return home


def test_every_command_has_its_case() -> None:
    assert set(NAMES) <= CASES.keys() | ELSEWHERE


@pytest.mark.parametrize("name", [name for name in NAMES if name in CASES])
def test_json_is_one_document_with_the_keys_that_scripts_rely_on(
    name: str, sapwood: Sapwood, own_grown: Path, tmp_path: Path
) -> None:
    place = tmp_path / "empty"
    place.mkdir()
    words, keys = CASES[name]
    node = sapwood("tree", "--json").document["trees"][0]["summary_ids"][0] if "{node}" in words else ""
    if "{job}" in words:
        sapwood("sync")
    job = sapwood("jobs", "--json").document["jobs"][0]["id"] if "{job}" in words else ""
    found = sapwood("--json", *words.format(tmp=place, node=node, job=job).split())
    if keys != "error":
        assert "error" not in found.document, found.err
    assert set(keys.split()) <= set(found.document)


def test_json_of_one_setting_is_its_value(sapwood: Sapwood, own_grown: Path) -> None:
    assert sapwood("config", "get", "pool.max_workers", "--json").document == 4
    assert sapwood("config", "get", "sources.notes.private", "--json").document is False
    assert sapwood("config", "path", "--json").document == str(own_grown / "config" / "config.toml")
    assert sapwood("config", "set", "pool.max_workers", "2", "--json").document["value"] == 2
    assert sapwood("config", "--json").document["origins"]["pool.max_workers"] == "file"
