"""The keyring is asked in a child: whatever it does there, the answer is one of five, and comes within the limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.states import KeyState
from agent.system.keyring import RingAnswer, SystemKeyring, child_argv, child_environment
from agent.system.keyring_child import answer, why_refused
from tests.conftest import REPOSITORY
from tests.system.rings import PLACE

KEY = "zz-quince-0123456789-marrow"


def ring_of(tmp_path: Path, kind: str = "FileRing", *, limit_s: float = 5.0) -> SystemKeyring:
    environ = {**os.environ, "PYTHON_KEYRING_BACKEND": f"tests.system.rings.{kind}", PLACE: str(tmp_path / "ring")}
    return SystemKeyring(limit_s=limit_s, environ=environ)


def children() -> Iterator[psutil.Process]:
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "_key" in child.cmdline():
                yield child


def test_key_is_stored_had_back_told_by_its_name_and_removed(tmp_path: Path) -> None:
    ring = ring_of(tmp_path)
    assert ring.read("openai").state is KeyState.MISSING
    assert ring.write("openai", KEY).state is KeyState.VALUE
    assert ring.write("example.org", "other").state is KeyState.VALUE
    assert ring.read("openai").value == KEY
    assert ring.look().names == ("example.org", "openai")
    assert "FileRing" in ring.look().backend
    assert ring.remove("openai").state is KeyState.VALUE
    assert ring.remove("openai").state is KeyState.MISSING
    assert ring.look().names == ("example.org",)
    assert ring.remove("example.org").state is KeyState.VALUE
    assert json.loads((tmp_path / "ring").read_text()) == {}, "an empty item is left for nobody"


def test_all_keys_are_one_item(tmp_path: Path) -> None:
    ring = ring_of(tmp_path)
    ring.write("openai", "a")
    ring.write("anthropic", "b")
    held = json.loads((tmp_path / "ring").read_text())
    assert {name: json.loads(text) for name, text in held.items()} == {
        "sapwood/keys": {"openai": "a", "anthropic": "b"}
    }


def test_item_that_is_not_ours_to_read_holds_no_key_and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    ring = ring_of(tmp_path)
    for text in ("no json", "[1]", '{"openai": 3}', "[" * 100_000):
        (tmp_path / "ring").write_text(json.dumps({"sapwood/keys": text}))
        assert ring.read("openai").state is KeyState.MISSING
    assert ring.write("openai", KEY).state is KeyState.VALUE
    assert ring.read("openai").value == KEY


def test_unanswered_prompt_costs_the_limit_and_no_more(tmp_path: Path) -> None:
    began = time.monotonic()
    found = ring_of(tmp_path, "SilentRing", limit_s=0.8).read("openai")
    assert found.state is KeyState.TIMED_OUT
    assert 0.8 <= time.monotonic() - began < 2.5
    assert not list(children()), "the child is ended, not left to wait"
    assert not psutil.pid_exists(int((tmp_path / "ring").read_text()))


def test_what_check_raises_ends_the_child_and_goes_through(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    began = time.monotonic()

    def check() -> None:
        if (tmp_path / "ring").exists():
            raise Stop

    with pytest.raises(Stop):
        ring_of(tmp_path, "SilentRing").read("openai", check)
    assert time.monotonic() - began < 3
    assert not list(children())


def test_child_that_dies_is_an_answer(tmp_path: Path) -> None:
    assert ring_of(tmp_path, "DyingRing").read("openai") == RingAnswer(
        KeyState.UNAVAILABLE, reason="the keyring's library ended without an answer"
    )


def test_keyring_that_keeps_nothing_is_not_said_to_have_stored(tmp_path: Path) -> None:
    found = ring_of(tmp_path, "ForgetfulRing").write("openai", KEY)
    assert found.state is KeyState.UNAVAILABLE
    assert "does not have it" in found.reason


def test_error_that_quotes_the_key_is_told_without_it(tmp_path: Path) -> None:
    found = ring_of(tmp_path, "QuotingRing").write("openai", KEY)
    assert found.state is KeyState.UNAVAILABLE
    assert "cannot store [secret]" in found.reason
    assert KEY not in repr(found)


def test_backend_that_is_not_installed_is_named() -> None:
    environ = {**os.environ, "PYTHON_KEYRING_BACKEND": "no.such.Ring"}
    found = SystemKeyring(environ=environ).read("openai")
    assert found.state is KeyState.UNAVAILABLE
    assert "not installed: No module named 'no'" in found.reason


@pytest.mark.parametrize(
    ("backend", "said"),
    [("keyring.backends.fail.Keyring", "no keyring"), ("keyring.backends.null.Keyring", "switched off")],
)
def test_keyring_that_keeps_nothing_by_name_is_refused(backend: str, said: str) -> None:
    ring = SystemKeyring(environ={**os.environ, "PYTHON_KEYRING_BACKEND": backend})
    for found in (ring.read("openai"), ring.write("openai", KEY), ring.look()):
        assert found.state is KeyState.UNAVAILABLE
        assert said in found.reason


PLAINTEXT = """
import json, pathlib
from keyring.backend import KeyringBackend
class PlaintextKeyring(KeyringBackend):
    priority = 0.5
    def get_password(self, service, username):
        return None
    def set_password(self, service, username, password):
        (pathlib.Path(__file__).parent / "kept").write_text(password)
    def delete_password(self, service, username):
        pass
"""
CHATTY = PLAINTEXT.replace("PlaintextKeyring", "GoodKeyring").replace("0.5", "6").replace('"kept"', '"good"')


def plugins(folder: Path, **modules: str) -> dict[str, str]:
    """Install back ends as pip would, and return an environment without a session bus that finds them."""
    for name, text in modules.items():
        module = folder / name.replace("_", "/")
        module.mkdir(parents=True)
        (module / "file.py").write_text(text)
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[keyring.backends]\nfile = {name.replace('_', '.')}.file\n")
    dropped = ("PYTHON_KEYRING_BACKEND", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PYTHONPATH": str(folder), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "none")}


def test_plaintext_backend_that_would_be_chosen_by_itself_is_not_used(tmp_path: Path) -> None:
    found = SystemKeyring(environ=plugins(tmp_path, keyrings_alt=PLAINTEXT)).write("openai", KEY)
    assert (found.state, found.reason) == (KeyState.UNAVAILABLE, "this login has no keyring that could be used")
    assert not list(tmp_path.rglob("kept"))


def test_plaintext_backend_does_not_stand_behind_a_good_one(tmp_path: Path) -> None:
    # Two good ones make a chain; the chain itself must not hold the third.
    environ = plugins(tmp_path, keyrings_alt=PLAINTEXT, good_one=CHATTY, good_two=CHATTY)
    found = SystemKeyring(environ=environ).look()
    assert sorted(found.backend.split(", ")) == ["good.one.file.GoodKeyring", "good.two.file.GoodKeyring"]


def test_plaintext_backend_that_its_owner_chose_is_refused_by_name(tmp_path: Path) -> None:
    environ = plugins(tmp_path, keyrings_alt=PLAINTEXT)
    environ["PYTHON_KEYRING_BACKEND"] = "keyrings.alt.file.PlaintextKeyring"
    found = SystemKeyring(environ=environ).write("openai", KEY)
    assert found.state is KeyState.UNAVAILABLE
    assert "for everybody to read (keyrings.alt.file.PlaintextKeyring)" in found.reason
    assert not list(tmp_path.rglob("kept"))


def test_plaintext_is_told_by_its_name_from_whatever_package() -> None:
    kind = type("SomePlaintextRing", (), {"__module__": "somebody.elses"})
    assert "for everybody to read" in why_refused(kind())
    assert not why_refused(type("Keyring", (), {"__module__": "keyring.backends.SecretService"})())


class WindowsRing:
    """Items of 2,560 bytes in UTF-16, as the Credential Manager has them."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, user: str) -> str | None:
        return self.items.get((service, user))

    def set_password(self, service: str, user: str, value: str) -> None:
        if len(value.encode("utf-16-le")) > 2_560:
            raise OSError(1783, "The stub received bad data")
        self.items[service, user] = value

    def delete_password(self, service: str, user: str) -> None:
        del self.items[service, user]


def test_on_windows_each_key_is_an_item_so_that_many_long_ones_fit() -> None:
    ring = WindowsRing()

    def ask(op: str, **more: Any) -> dict[str, Any]:
        return answer({"op": op, "per_name": True, **more}, lambda: ring)

    for name in ("openai", "anthropic", "example.org"):
        assert ask("write", name=name, value=name[0] * 1_200)["state"] == "value"
    assert ask("read", name="openai")["value"] == "o" * 1_200
    assert ask("look", names=["openai", "none"])["names"] == ["openai"]
    assert ask("remove", name="openai")["state"] == "value"
    assert ask("remove", name="openai")["state"] == "missing"
    assert ask("write", name="x", value="y" * 3_000)["state"] == "unavailable"


def raising(error: Exception) -> Callable[[], Any]:
    class Ring:
        def get_password(self, service: str, user: str) -> str | None:
            raise error

    return Ring


def test_what_a_keyring_raises_becomes_one_of_the_answers() -> None:
    from keyring.errors import InitError, KeyringError, KeyringLocked, NoKeyringError

    class LockedException(Exception):
        """Of SecretStorage."""

    for error, state in (
        (KeyringLocked("Failed to unlock the collection!"), "locked"),
        (LockedException("the item"), "locked"),
        (KeyringError("Can't get password from keychain: (-25308, 'Unknown Error')"), "locked"),
        (InitError("Failed to create the collection: Prompt dismissed.."), "unavailable"),
        (NoKeyringError("No recommended backend was available."), "unavailable"),
        (KeyringError("whatever"), "unavailable"),
        (OSError(5, "Input/output error"), "unavailable"),
    ):
        found = answer({"op": "read", "name": "x", "per_name": False}, raising(error))
        assert found["state"] == state, error
        assert found["reason"]


def test_removal_that_does_nothing_is_not_said_to_be_one() -> None:
    class Stubborn(WindowsRing):
        def delete_password(self, service: str, user: str) -> None:
            return

    ring = Stubborn()
    ring.set_password("sapwood", "keys", '{"openai": "x"}')
    found = answer({"op": "remove", "name": "openai", "per_name": False}, lambda: ring)
    assert (found["state"], found["reason"]) == ("unavailable", "the keyring still has the key")


def test_child_is_told_of_the_session_and_of_nothing_that_is_ours() -> None:
    environ = {
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1/bus",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "HOME": "/home/anna",
        "SAPWOOD_HOME": "/somewhere",
        "PYTHONPATH": "/modules",
        "PYTHONSTARTUP": "/x.py",
        "PYTHON_KEYRING_BACKEND": "a.B",
    }
    found = child_environment(environ)
    gone = {"SAPWOOD_HOME", "PYTHONSTARTUP"}
    assert found == {name: value for name, value in environ.items() if name not in gone}


def test_frozen_program_is_its_own_child(monkeypatch: pytest.MonkeyPatch) -> None:
    assert child_argv() == [sys.executable, "-m", "agent.cli.main", "_key"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert child_argv() == [sys.executable, "_key"]


def test_key_is_in_no_argument_and_no_environment_of_the_child(tmp_path: Path) -> None:
    (tmp_path / "ring").write_text(json.dumps({"sapwood/keys": json.dumps({"openai": KEY})}))
    seen: list[bytes] = []
    done = threading.Event()

    def spy() -> None:
        while not done.is_set():
            for child in list(children()):
                for name in ("cmdline", "environ"):
                    try:
                        seen.append(Path(f"/proc/{child.pid}/{name}").read_bytes())
                    except OSError:
                        continue

    if not sys.platform.startswith("linux"):
        pytest.skip("other systems show no /proc")
    watcher = threading.Thread(target=spy)
    watcher.start()
    try:
        ring = ring_of(tmp_path)
        assert ring.read("openai").value == KEY
        assert ring.write("openai", KEY).state is KeyState.VALUE
    finally:
        done.set()
        watcher.join()
    assert any(b"_key" in text for text in seen)
    assert not any(KEY.encode() in text for text in seen)


def test_child_imports_nothing_of_ours_but_what_it_needs_and_answers_soon(tmp_path: Path) -> None:
    code = (
        "import sys, agent.system.keyring_child\n"
        "print(sorted(name for name in sys.modules if name.startswith('agent')))\n"
        "sys.exit(bool({'click', 'apsw', 'msgspec', 'numpy', 'psutil', 'subprocess', 'keyring'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "agent.states" not in ran.stdout
    ring = ring_of(tmp_path)
    times = []
    for _ in range(3):
        began = time.monotonic()
        ring.read("openai")
        times.append(time.monotonic() - began)
    assert min(times) < 1.5


def test_by_hand_it_says_what_it_is() -> None:
    ran = subprocess.run(child_argv(), input=b"\n", capture_output=True, cwd=REPOSITORY, check=False, timeout=30)
    assert ran.returncode == 2
    assert b"sapwood key" in ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child ends itself, two seconds after its limit")
def test_child_does_not_outlive_who_asked(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    code = "from agent.system.keyring import SystemKeyring; SystemKeyring().read('openai')"
    environ = {
        **os.environ,
        "PYTHON_KEYRING_BACKEND": "tests.system.rings.SilentRing",
        PLACE: str(tmp_path / "ring"),
    }
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, env=environ) as process:
        place = tmp_path / "ring"
        wait_until(lambda: place.exists() and place.read_text(), what="the child to ask")
        child = int(place.read_text())
        assert psutil.pid_exists(child)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not _is_alive(child), 3.0, "the end of the child")


def test_child_ends_itself_where_nobody_does(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    # As on systems that do not end it with its parent: the pid given as the parent's is right, and it goes on.
    environ = {
        **child_environment(os.environ),
        "PYTHON_KEYRING_BACKEND": "tests.system.rings.SilentRing",
        PLACE: str(tmp_path / "ring"),
    }
    question = {"op": "read", "name": "x", "per_name": False, "parent": os.getpid(), "limit_s": -1.0}
    with subprocess.Popen(child_argv(), cwd=REPOSITORY, env=environ, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(10) == 1


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
