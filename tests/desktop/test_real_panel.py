"""The whole agent and a real panel on a real screen: the icon is seen, its menu opens, and a choice in it is obeyed."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from PIL import Image

from agent.actions.home import open_home
from agent.actions.pausing import read_paused
from agent.paths import Paths, paths_under
from tests.conftest import REPOSITORY

NEEDED = {
    "Xvfb": "xvfb",
    "dbus-daemon": "dbus",
    "openbox": "openbox",
    "xfce4-panel": "xfce4-panel xfconf",
    "xdotool": "xdotool",
    "import": "imagemagick",
}
MARK = "DESKTOP_OF_A_TEST"
LEAF = (132, 204, 104)
"""Its green on a dark panel (``icons/make.py``)."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="this panel is of Linux"),
    pytest.mark.slow,
]


class Screen:
    """A desktop with a panel, in a home that is thrown away."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
        if missing:
            pytest.skip(f"no real panel to be had here: apt-get install {' '.join(missing)}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "SAPWOOD_", "DBUS_"))}
        for name in ("home", "run"):
            (folder / name).mkdir(mode=0o700)
        self.environ = kept | {
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CURRENT_DESKTOP": "XFCE",
            "SAPWOOD_HOME": str(folder / "sapwood"),
            "SAPWOOD_POWER__ENABLED": "false",
            "NO_AT_BRIDGE": "1",
            MARK: str(folder),
        }
        self._started: list[subprocess.Popen[bytes]] = []
        stack.callback(self._end_all)
        # The screen comes first: what the bus starts inherits it.
        reading, writing = os.pipe()
        self.start(
            "Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp", pass_fds=(writing,)
        )
        os.close(writing)
        with os.fdopen(reading) as stream:
            self.environ["DISPLAY"] = f":{stream.readline().strip()}"
        bus = self.start("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", is_heard=True)
        assert bus.stdout is not None
        self.environ["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()

    def start(self, *argv: str, is_heard: bool = False, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        self._started.append(
            subprocess.Popen(
                argv,
                env=self.environ,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_heard else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=pass_fds,
            )
        )
        return self._started[-1]

    def run(self, *argv: str) -> bytes:
        return subprocess.run(
            argv, env=self.environ, cwd=REPOSITORY, capture_output=True, check=True, timeout=20
        ).stdout

    def look(self) -> Image.Image:
        return Image.open(io.BytesIO(self.run("import", "-window", "root", "png:-"))).convert("RGB")

    def find_icon(self) -> tuple[int, int] | None:
        """Where the leaf is in the panel at the top of the screen."""
        bar = self.look().crop((0, 0, 800, 28))
        found = [
            (x, y)
            for x in range(bar.width)
            for y in range(bar.height)
            if all(abs(one - other) < 12 for one, other in zip(bar.getpixel((x, y)), LEAF, strict=True))  # type: ignore[arg-type]
        ]
        return found[0] if len(found) >= 3 else None

    def _end_all(self) -> None:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == self.environ[MARK]:
                    process.kill()
        for started in reversed(self._started):
            started.kill()
            started.wait(10)
            if started.stdout is not None:
                started.stdout.close()


@pytest.fixture
def screen() -> Iterator[Screen]:
    folder = Path(tempfile.mkdtemp(prefix="sapwood-screen-"))
    try:
        with ExitStack() as stack:
            yield Screen(folder, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_paused(paths: Paths) -> bool:
    with open_home(paths) as home:
        return read_paused(home.connection, home.clock.now_ms()).paused_until_ms is not None


def test_the_icon_is_seen_in_a_real_panel_and_its_menu_pauses_the_agent(
    screen: Screen, wait_until: Callable[..., None]
) -> None:
    paths = paths_under(Path(screen.environ["SAPWOOD_HOME"])).make()
    screen.start("openbox")
    screen.start("xfce4-panel", "--disable-wm-check")
    screen.start(sys.executable, "-m", "agent.cli.main", "run")
    wait_until(lambda: screen.find_icon() is not None, 40, "the icon in the panel")
    kept = os.environ.get("TEST_SHOTS")
    place = screen.find_icon()
    assert place is not None
    closed = screen.look()
    opened = closed
    end = time.monotonic() + 20
    while opened.crop((200, 60, 800, 280)).tobytes() == closed.crop((200, 60, 800, 280)).tobytes():
        assert time.monotonic() < end, "no menu opened"
        screen.run("xdotool", "mousemove", str(place[0]), str(place[1] + 4), "click", "3")
        time.sleep(0.7)
        opened = screen.look()
    if kept:
        opened.save(Path(kept) / "tray-menu.png")
    # Down past what cannot be chosen to Open, then Pause, into it, and its first entry.
    for key in ("Down", "Down", "Right", "Return"):
        screen.run("xdotool", "key", key)
        time.sleep(0.4)
    wait_until(lambda: is_paused(paths), 10, "the pause")
    if kept:
        time.sleep(1)
        screen.look().save(Path(kept) / "tray-paused.png")
    screen.run(sys.executable, "-m", "agent.cli.main", "stop", "--wait")
    wait_until(lambda: screen.find_icon() is None, 10, "the end of the icon")
