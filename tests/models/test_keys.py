"""A key is looked for once and kept until it may be another; what cannot be had is not asked for again at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from agent.clock import FakeClock
from agent.config_edit import edit_intent
from agent.errors import AgentFault
from agent.models.key_file import read_key_file, write_key_file
from agent.models.keys import (
    AFTER_LOGIN_MS,
    LOOK_AGAIN_S,
    FakeKeys,
    KeyResult,
    StoredKeys,
    changing_keys,
    mark_login,
    open_keys,
)
from agent.paths import Paths
from agent.states import KeyState
from agent.system.keyring import FakeKeyring

KEY = "zz-quince-0123456789-marrow"
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing on Windows")


@pytest.fixture
def ring() -> FakeKeyring:
    return FakeKeyring(openai=KEY)


@pytest.fixture
def guarded() -> list[str]:
    return []


@pytest.fixture
def keys(paths: Paths, clock: FakeClock, ring: FakeKeyring, guarded: list[str]) -> StoredKeys:
    return StoredKeys(paths, clock, ring, lambda: guarded.append("no core dump"))


def touch_intent(paths: Paths, workers: int) -> None:
    edit_intent(paths, lambda document: document.update({"pool": {"max_workers": workers}}))


def test_key_is_asked_for_once_and_no_core_dump_shows_it(
    keys: StoredKeys, ring: FakeKeyring, guarded: list[str]
) -> None:
    assert not guarded
    assert [keys.get("openai").value for _ in range(3)] == [KEY] * 3
    assert ring.asked == ["read openai"]
    assert guarded == ["no core dump"]


def test_changed_intent_looks_anew(keys: StoredKeys, ring: FakeKeyring, paths: Paths) -> None:
    keys.get("openai")
    ring.held["openai"] = "another"
    touch_intent(paths, 2)
    assert keys.get("openai").value == "another"


def test_refused_key_is_forgotten_and_looked_for_anew(keys: StoredKeys, ring: FakeKeyring) -> None:
    keys.get("openai")
    ring.held["openai"] = "another"
    assert keys.get("openai").value == KEY
    keys.forget("openai")
    assert keys.get("openai").value == "another"
    keys.forget("never had")


def test_key_that_another_process_sets_is_seen_at_once(keys: StoredKeys, ring: FakeKeyring, paths: Paths) -> None:
    assert keys.get("anthropic").state is KeyState.MISSING
    with changing_keys(paths):
        ring.held["anthropic"] = "set"
    assert keys.get("anthropic").value == "set"


@pytest.mark.parametrize("fault", [KeyState.LOCKED, KeyState.UNAVAILABLE, KeyState.TIMED_OUT])
def test_keyring_that_gives_nothing_costs_its_time_once_in_half_a_minute(
    fault: KeyState, keys: StoredKeys, ring: FakeKeyring, clock: FakeClock, guarded: list[str]
) -> None:
    ring.fault = fault
    found = [keys.get("openai") for _ in range(5)]
    assert {each.state for each in found} == {fault}
    assert all(each.reason and each.hint and each.value is None for each in found)
    assert found[0].again_ms == clock.now_ms() + LOOK_AGAIN_S * 1000
    assert ring.asked == ["read openai"]
    clock.advance(LOOK_AGAIN_S + 0.1)
    ring.fault = None
    assert keys.get("openai").value == KEY
    assert len(guarded) == 1


def test_missing_key_says_how_to_set_it_and_is_not_asked_for_each_job(keys: StoredKeys, ring: FakeKeyring) -> None:
    found = [keys.get("example.org") for _ in range(3)]
    assert found[0].state is KeyState.MISSING
    assert found[0].hint == "`sapwood key set example.org`"
    assert len(ring.asked) == 1


def test_keyring_is_left_alone_in_the_first_minute_after_the_login(
    keys: StoredKeys, ring: FakeKeyring, paths: Paths, clock: FakeClock
) -> None:
    mark_login(paths, clock.now_ms())
    found = keys.get("openai")
    assert (found.state, found.again_ms) == (KeyState.NOT_YET, clock.now_ms() + AFTER_LOGIN_MS)
    clock.advance(59.9)
    assert keys.get("openai").state is KeyState.NOT_YET
    assert not ring.asked
    clock.advance(0.2)
    assert keys.get("openai").value == KEY


def test_clock_that_was_set_back_does_not_make_the_login_young_for_longer(
    keys: StoredKeys, paths: Paths, clock: FakeClock
) -> None:
    mark_login(paths, clock.now_ms() + 3_600_000)
    assert keys.get("openai").value == KEY


@pytest.mark.parametrize("text", ["", "soon", "99999999999999999999999"])
def test_mark_of_the_login_that_cannot_be_read_holds_nothing_back(text: str, keys: StoredKeys, paths: Paths) -> None:
    (paths.runtime_dir / "login").write_text(text)
    assert keys.get("openai").value == KEY


def test_key_in_the_file_comes_first_and_needs_no_keyring_even_after_the_login(
    keys: StoredKeys, ring: FakeKeyring, paths: Paths, clock: FakeClock
) -> None:
    mark_login(paths, clock.now_ms())
    write_key_file(paths, {"openai": "from the file"})
    assert keys.get("openai").value == "from the file"
    assert not ring.asked


@on_posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_file_that_others_can_read_is_not_used(mode: int, keys: StoredKeys, ring: FakeKeyring, paths: Paths) -> None:
    write_key_file(paths, {"example.org": "seen by others"})
    path = paths.config_dir / "keys.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    found = keys.get("example.org")
    assert (found.state, found.value) == (KeyState.UNAVAILABLE, None)
    assert f"mode {mode:o}" in found.reason
    assert "chmod 600" in found.hint
    assert keys.get("openai").value == KEY, "the keyring is none the worse for it"
    with pytest.raises(AgentFault, match="not used"):
        write_key_file(paths, {"more": "keys"})
    path.chmod(0o600)
    keys.forget("example.org")
    assert keys.get("example.org").value == "seen by others"


@on_posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_file_of_somebody_else_is_not_used(paths: Paths) -> None:
    write_key_file(paths, {"openai": "planted"})
    os.chown(paths.config_dir / "keys.json", 12_345, -1)
    found = read_key_file(paths)
    assert not found.keys
    assert "belongs to somebody else" in found.problem


@on_posix
def test_file_in_a_folder_where_others_write_is_not_used_and_writing_closes_the_folder(paths: Paths) -> None:
    paths.config_dir.chmod(0o755)
    write_key_file(paths, {"openai": "x"})
    assert paths.config_dir.stat().st_mode & 0o777 == 0o700
    paths.config_dir.chmod(0o777)
    assert "others can put another file" in read_key_file(paths).problem


@on_posix
def test_link_pipe_and_folder_in_the_place_of_the_file_are_not_followed(paths: Paths) -> None:
    path = paths.config_dir / "keys.json"
    elsewhere = paths.data_dir / "elsewhere.json"
    elsewhere.write_text('{"openai": "planted"}')
    elsewhere.chmod(0o600)
    for make in (lambda: path.symlink_to(elsewhere), lambda: os.mkfifo(path, 0o600), lambda: path.mkdir(0o700)):
        make()
        found = read_key_file(paths)
        assert found.problem
        assert not found.keys
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("text", ["no json: secret", "[]", '{"openai": 3}', "[" * 100_000, '{"openai": "' + "x" * 9])
def test_file_that_cannot_be_read_is_told_without_its_text(text: str, paths: Paths) -> None:
    path = paths.config_dir / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    found = read_key_file(paths)
    assert "cannot be read as keys" in found.problem
    assert "secret" not in found.problem


def test_no_key_in_the_file_is_no_file(paths: Paths) -> None:
    write_key_file(paths, {"openai": KEY})
    assert json.loads((paths.config_dir / "keys.json").read_text()) == {"openai": KEY}
    write_key_file(paths, {})
    write_key_file(paths, {})
    assert not (paths.config_dir / "keys.json").exists()


def test_what_check_raises_goes_through_and_is_not_kept(keys: StoredKeys, ring: FakeKeyring) -> None:
    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keys.get("openai", check)
    assert keys.get("openai").value == KEY


def test_no_repr_shows_a_key(keys: StoredKeys, ring: FakeKeyring, paths: Paths) -> None:
    write_key_file(paths, {"example.org": KEY})
    shown = [keys.get("openai"), ring.read("openai"), read_key_file(paths), [keys.get("example.org")], vars(keys)]
    assert KEY not in repr(shown)
    assert KEY not in f"{KeyResult(KeyState.VALUE, KEY)!s}"


def test_variables_of_the_environment_are_not_read(
    keys: StoredKeys, ring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.held.clear()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI"):
        monkeypatch.setenv(name, KEY)
    assert keys.get("openai").state is KeyState.MISSING
    assert keys.get("anthropic").state is KeyState.MISSING


def test_writers_wait_for_one_another(paths: Paths, wait_until: Callable[..., None]) -> None:
    inside: list[str] = []

    def write(name: str) -> None:
        with changing_keys(paths):
            held = read_key_file(paths).keys
            inside.append("in")
            assert inside.count("in") == inside.count("out") + 1
            write_key_file(paths, {**held, name: name})
            inside.append("out")

    threads = [threading.Thread(target=write, args=(f"n{at}",)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_key_file(paths).keys) == 8


def test_a_process_has_one_keeper_for_each_home(paths: Paths, clock: FakeClock) -> None:
    assert open_keys(paths, clock) is open_keys(paths, clock)


def test_who_asks_for_a_key_loads_no_keyring_library(paths: Paths) -> None:
    code = (
        "import sys\n"
        "from agent.clock import SYSTEM_CLOCK\n"
        "from agent.models.keys import open_keys\n"
        "from agent.paths import find_paths\n"
        "print(open_keys(find_paths(), SYSTEM_CLOCK).get('openai').state)\n"
        "print([name for name in ('keyring', 'secretstorage', 'jeepney', 'asyncio') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert ran.stdout.split() == ["unavailable", "[]"], ran.stderr


def test_the_fake_answers_as_the_real_one_does() -> None:
    fake = FakeKeys(openai=KEY)
    assert fake.get("openai").value == KEY
    assert fake.get("other").state is KeyState.MISSING
    fake.states["openai"] = KeyResult(KeyState.LOCKED, reason="locked")
    assert fake.get("openai").state is KeyState.LOCKED
    fake.forget("openai")
    assert fake.forgotten == ["openai"]
