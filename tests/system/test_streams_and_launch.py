"""Standard streams that are always there, and external programs that get a clean environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import launch
from agent.errors import AgentFault
from agent.launch import clean_environment, open_outside, run_program, start_program
from tests.conftest import REPOSITORY


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors the POSIX way")
def test_closed_descriptors_are_opened_before_a_file_can_get_their_numbers(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = (
        "import sys; from agent.system.streams import ensure_streams; opened = ensure_streams();"
        "print('to nobody'); print('to nobody', file=sys.stderr);"
        "file = open(sys.argv[1], 'w'); print(opened, file.fileno() > 2, file=file)"
    )
    argv = ["/bin/sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', sys.executable, "-c", code, str(said)]
    assert subprocess.run(argv, cwd=REPOSITORY, timeout=20, check=False).returncode == 0
    assert said.read_text().strip() == "[0, 1, 2] True"


def test_open_streams_stay_as_they_are() -> None:
    code = "from agent.system.streams import ensure_streams; print(ensure_streams())"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_what_is_ours_does_not_leave() -> None:
    environ = {"PATH": "/bin", "PYTHONPATH": "x", "SAPWOOD_HOME": "y", "_MEIPASS2": "z", "LANG": "C"}
    assert clean_environment(environ) == {"PATH": "/bin", "LANG": "C"}


def test_frozen_loader_path_is_put_back_to_the_owner_s() -> None:
    bundle = {"LD_LIBRARY_PATH": "/bundle", "QT_PLUGIN_PATH": "/bundle/qt"}
    assert clean_environment({**bundle, "LD_LIBRARY_PATH_ORIG": "/own"}, frozen=True) == {"LD_LIBRARY_PATH": "/own"}
    assert clean_environment({**bundle, "LD_LIBRARY_PATH_ORIG": ""}, frozen=True) == {}
    assert clean_environment(bundle, frozen=True) == {}
    assert clean_environment(bundle, frozen=False) == bundle, "outside a bundle it is the owner's own"


def test_program_runs_with_the_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    code = "import json, os, sys; print(json.dumps([sys.stdin.read(), sorted(os.environ)]))"
    done = run_program([sys.executable, "-c", code], timeout_s=20, text="hello")
    text, names = json.loads(done.stdout)
    assert text == "hello"
    assert not [name for name in names if name.startswith(("PYTHON", "SAPWOOD_"))]
    assert done.returncode == 0


def test_program_that_hangs_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5)


def test_started_program_has_a_session_of_its_own(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = f"import os; open({str(said)!r}, 'w').write(str(os.getsid(0) == os.getpid()))"
    with start_program([sys.executable, "-c", code]) as process:
        assert process.wait(20) == 0
    assert said.read_text() == str(hasattr(os, "getsid"))


def test_started_program_leaves_the_job_of_the_agent_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a fake of Windows: a browser does not close because the agent ends."""
    asked: list[int] = []
    monkeypatch.setattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0x01000000, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, creationflags, **__: asked.append(creationflags))
    start_program(["browser"])
    assert asked == [0x01000000 | getattr(subprocess, "CREATE_NO_WINDOW", 0)]


def test_started_program_starts_in_a_job_that_lets_nobody_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def start(*_: object, creationflags: int, **__: object) -> None:
        asked.append(creationflags)
        if creationflags & 0x01000000:
            raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0x01000000, raising=False)
    monkeypatch.setattr(subprocess, "Popen", start)
    start_program(["browser"])
    assert asked == [0x01000000, 0]


def test_program_that_may_not_be_started_is_an_error_and_not_tried_twice(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    text.chmod(0o600)
    with pytest.raises(PermissionError):
        start_program([str(text)])


def test_a_desktop_without_a_program_for_it_is_no_page_that_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_opener", lambda: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(AgentFault) as found:
        open_outside("http://127.0.0.1:1/enter/word")
    assert "http://127.0.0.1:1/enter/word" in found.value.hint


def test_a_browser_that_stays_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str]) -> subprocess.Popen[bytes]:
        started.append(start_program(argv))
        return started[0]

    monkeypatch.setattr(launch, "_opener", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(launch, "start_program", start)
    monkeypatch.setattr(launch, "REFUSAL_S", 0.1)
    open_outside("somewhere")
    assert started[0].poll() is None
    started[0].kill()
    started[0].wait()
