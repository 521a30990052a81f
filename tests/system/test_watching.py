"""The system's own notices, and what it says when it refuses: real ones, in namespaces with tiny limits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.system.watching import Refusal, SystemWatching, WatchBroken, WatchRefused
from tests.conftest import REPOSITORY

LIMITED = """
import sys
from pathlib import Path
from agent.supervisor.keeper import Keeper, Target
from agent.system.watching import SystemWatching
limit, value, root = sys.argv[1:]
Path('/proc/sys/user', limit).write_text(value)
keeper = Keeper(SystemWatching())
keeper.want({name: Target((f'{root}/{name}',)) for name in ('large', 'small')})
keeper.turn(0.0)
print(keeper.reason('large') or 'watched')
print(keeper.reason('small') or 'watched')
Path(root, 'small', 'a.md').write_text('changed')
import time
end = time.monotonic() + (0 if keeper.reason('small') else 5)
while not (found := keeper.turn(1.0)) and time.monotonic() < end:
    time.sleep(0.01)
print(*found)
"""


def test_edits_saves_by_rename_moved_folders_and_deletions_are_noticed(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    (tmp_path / "notes" / "old").mkdir(parents=True)
    (tmp_path / "mail").mkdir()
    note, mailbox = tmp_path / "notes" / "a.md", tmp_path / "mail" / "all.mbox"
    note.write_text("one")
    mailbox.write_text("one")
    watch = SystemWatching().open([str(tmp_path / "notes")], [str(tmp_path / "mail")])
    seen: set[str] = set()

    def noticed(path: Path) -> bool:
        seen.update(watch.take())
        return str(path) in seen

    def after(act: Callable[[], object], path: Path) -> None:
        watch.take()
        seen.clear()
        act()
        wait_until(lambda: noticed(path), what=str(path))

    try:
        after(lambda: note.write_text("two"), note)
        (tmp_path / "notes" / ".a.tmp").write_text("three")
        after(lambda: (tmp_path / "notes" / ".a.tmp").rename(note), note)
        after(lambda: note.write_text("four"), note)
        after(lambda: (tmp_path / "notes" / "old").rename(tmp_path / "notes" / "new"), tmp_path / "notes" / "new")
        after(lambda: (tmp_path / "notes" / "new" / "b.md").write_text("b"), tmp_path / "notes" / "new" / "b.md")
        after(note.unlink, note)
        (tmp_path / "other").write_text("two")
        after(lambda: (tmp_path / "other").rename(mailbox), mailbox)
        after(lambda: mailbox.write_text("three"), mailbox)
    finally:
        watch.close()
    assert watch.take() == set()


def test_a_missing_path_is_refused_as_missing(tmp_path: Path) -> None:
    with pytest.raises(WatchRefused) as refused:
        SystemWatching().open([str(tmp_path / "nowhere")], [])
    assert refused.value.refusal is Refusal.MISSING


def test_what_the_library_raises_is_a_broken_watch(tmp_path: Path) -> None:
    watch = SystemWatching().open([str(tmp_path)], [])
    notifiers = list(watch.notifiers)  # type: ignore[attr-defined]
    notifiers[0].close()
    with pytest.raises(WatchBroken):
        watch.take()


@pytest.mark.skipif(
    sys.platform != "linux"
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True, check=False).returncode != 0,
    reason="the limits of one user can be tried only where a user may make namespaces (Linux)",
)
@pytest.mark.parametrize(
    ("limit", "value", "large", "small", "changed"),
    [
        ("max_inotify_watches", "10", Refusal.TOO_MANY_FOLDERS.value, "watched", "small"),
        ("max_inotify_instances", "0", Refusal.TOO_MANY_WATCHERS.value, Refusal.TOO_MANY_WATCHERS.value, ""),
    ],
)
def test_the_limits_of_the_system_are_survived_and_named(
    tmp_path: Path, limit: str, value: str, large: str, small: str, changed: str
) -> None:
    for number in range(30):
        (tmp_path / "large" / str(number)).mkdir(parents=True)
    (tmp_path / "small").mkdir()
    ran = subprocess.run(
        ["unshare", "-U", "-r", sys.executable, "-c", LIMITED, limit, value, str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.split("\n")[:3] == [large, small, changed], ran.stderr
