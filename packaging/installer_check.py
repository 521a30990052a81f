"""Compile the Windows installer and try it under Wine: installing, updating while the agent runs, removing.

    python3 packaging/installer_check.py DIR     with the folder that wine_root.sh made; as root

The program itself cannot be built for Windows here. Its stand-in is made by the same compiler: it writes down how it is
called, holds the agent's mutex while it "runs", and ends when another one is told ``stop``. So what is proved is the
installer's own: what it asks of the program, what it writes to the disk and to the registry, and what it leaves.
Needs nothing but Python and ``unshare``; what it starts ends with it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from parts import version  # noqa: E402

PLACE = "w/check"
"""Where it all lies in the folder with Wine; drive Z: is that folder."""
SAID = "stand-in"
RUN_KEY = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Run"
APPROVED_KEY = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
SILENT = "/VERYSILENT /SUPPRESSMSGBOXES /NORESTART"
STEP_S = 300.0

STAND_IN = r"""
[Setup]
AppName=stand-in
AppVersion=1
CreateAppDir=no
Uninstallable=no
PrivilegesRequired=lowest
OutputDir=program
OutputBaseFilename=sapwood
[Code]
function InitializeSetup: Boolean;
var
  Said: String;
  Tenths: Integer;
begin
  Said := 'Z:\w\check\stand-in\';
  SaveStringToFile(Said + 'calls.txt', ExtractFileName(ExpandConstant('{srcexe}')) + ' ' + GetCmdTail + #13#10, True);
  if Pos(' stop --wait', GetCmdTail) > 0 then
    SaveStringToFile(Said + 'stop', '', False);
  if Pos(' run', GetCmdTail) > 0 then
  begin
    DeleteFile(Said + 'stop');
    CreateMutex('SapwoodAgent');
    SaveStringToFile(Said + 'runs', '', False);
    for Tenths := 1 to 1200 do
      if FileExists(Said + 'stubborn') or not FileExists(Said + 'stop') then
        Sleep(100);
    DeleteFile(Said + 'runs');
  end;
  Result := False;
end;
"""


class CheckFailed(Exception):
    """The installer did something else than it should."""


class Wine:
    """A shell in the folder with Wine, in mounts and processes of its own: they all end with it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        inside = (
            "mount -t tmpfs tmpfs /tmp; export HOME=/home/w WINEDEBUG=-all WINEARCH=win32 WINEPREFIX=/home/w/prefix "
            "WINEDLLOVERRIDES=mscoree,mshtml= LC_ALL=C.UTF-8; cd /w/check; "
            # Not as the first process: the X server tells nobody that it is ready whose parent has the number 1.
            "xvfb-run -a bash; exit"
        )
        self._shell = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root / 'proc'}"),
                *("chroot", str(root), "bash", "-c", inside),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._lines: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._count = 0

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.put(line.rstrip("\r\n"))
        self._lines.put(None)

    def do(self, command: str, limit_s: float = STEP_S) -> tuple[int, str]:
        """Run a command of the shell to its end and return its exit code and what it said."""
        assert self._shell.stdin is not None
        self._count += 1
        mark = f"__ended_{self._count}__"
        # A stand-in that goes on running must not hold the pipe that the answer comes by.
        self._shell.stdin.write(
            f"{{ {command}\n}} </dev/null >/tmp/said 2>&1; code=$?; cat /tmp/said; echo; echo {mark} $code\n"
        )
        self._shell.stdin.flush()
        end = time.monotonic() + limit_s
        said: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=max(0.1, end - time.monotonic()))
            except Empty:
                raise CheckFailed(f"no end in {limit_s:.0f} s: {command}") from None
            if line is None:
                raise CheckFailed(f"the shell under Wine has ended: {command}\n" + "\n".join(said))
            if line.startswith(mark):
                return int(line.split()[1]), "\n".join(said).strip()
            said.append(line.replace("\r", ""))

    def close(self) -> None:
        """End it and whatever was started in it."""
        self._shell.kill()
        self._shell.wait()
        self._reader.join(10)
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()


class Check:
    """The steps. Each raises ``CheckFailed`` where the installer is wrong."""

    def __init__(self, root: Path, say: Callable[[str], object]) -> None:
        self.place = root / PLACE
        self.said = self.place / SAID
        self.say = say
        self._stage()
        self.wine = Wine(root)
        self.app = "C:\\users\\root\\AppData\\Local\\Programs\\Sapwood"
        self.folder = root / "home/w/prefix/drive_c/users/root/AppData/Local/Programs/Sapwood"
        self.memory = root / "home/w/prefix/drive_c/users/root/AppData/Local/sapwood"
        self.prefix = root / "home/w/prefix"

    def _stage(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        (self.place / "agent").mkdir(parents=True)
        self.said.mkdir()
        shutil.copy(ROOT / "installer.iss", self.place)
        shutil.copy(ROOT / "agent" / "__init__.py", self.place / "agent")
        (self.place / "stand-in.iss").write_text(STAND_IN)
        (self.place / "program" / "_internal").mkdir(parents=True)
        (self.place / "program" / "_internal" / "new.txt").write_text("of this version")

    def compile(self) -> dict[str, float]:
        """Compile the stand-in and the installer."""
        shutil.rmtree(self.prefix, ignore_errors=True)
        began = time.monotonic()
        self._compiled("stand-in.iss")
        stand_in = self.place / "program" / "sapwood.exe"
        shutil.copy(stand_in, self.place / "program" / "sapwoodw.exe")
        middle = time.monotonic()
        self._compiled("/DAnyMachine /DBuild=program installer.iss")
        setup = self.place / "dist" / f"sapwood-setup-{version()}.exe"
        must(setup.is_file(), f"no {setup.name}, but {[path.name for path in (self.place / 'dist').iterdir()]}")
        # As it is shipped, too: nothing of the check's defines is needed for it to compile.
        self._compiled("/DBuild=program /Oshipped installer.iss")
        self.setup = f"dist/{setup.name}"
        return {
            "stand_in_s": round(middle - began, 1),
            "installer_s": round(time.monotonic() - middle, 1),
            "setup_bytes": setup.stat().st_size,
        }

    def _compiled(self, words: str) -> None:
        code, said = self.wine.do(f"wine ../inno/ISCC.exe /Q {words}")
        must(code == 0, f"the compiler refuses {words}:\n{said}")
        must("Warning" not in said, f"the compiler warns of {words}:\n{said}")

    def install(self) -> None:
        """A first install, silent and without any task: no login entry."""
        self.set_up("")
        must((self.folder / "sapwood.exe").is_file(), "the program is not there")
        must((self.folder / "_internal" / "new.txt").is_file(), "the folder beside the program is not there")
        must(self.run_value() == "", f"a login entry that nobody asked for: {self.run_value()}")
        must(self.calls() == [], f"a silent first install started something: {self.calls()}")
        self.memory.mkdir(exist_ok=True)
        (self.memory / "config.toml").write_text("# the owner's\n")

    def login(self) -> None:
        """The task writes the login entry as the program does, and takes a switch of Task Manager back."""
        self.put(APPROVED_KEY, "/t REG_BINARY /d 030000000000000000000000")
        self.set_up("/TASKS=login")
        wanted = f'"{self.app}\\sapwoodw.exe" run --at-login'
        must(self.run_value().lower() == wanted.lower(), f"the login entry is {self.run_value()!r}, not {wanted!r}")
        must(self.wine.do(f"wine reg query '{APPROVED_KEY}' /v Sapwood")[0] != 0, "it is switched off in Task Manager")

    def update(self) -> None:
        """Over a running agent: it is told to end first, files are replaced, it runs again, the login entry stays."""
        (self.folder / "_internal" / "old.txt").write_text("of the version before")
        self.start()
        self.said.joinpath("calls.txt").unlink()
        self.put(RUN_KEY, "/d 'C:\\mine.exe'")
        self.set_up("")
        self.until(lambda: len(self.calls()) == 2, "the agent that ran before runs again")
        must(self.calls() == ["sapwood.exe stop --wait", "sapwoodw.exe run"], f"it called {self.calls()}")
        must(not (self.folder / "_internal" / "old.txt").exists(), "a file of the version before is still there")
        must(self.run_value() == "C:\\mine.exe", "an update changed the login entry")
        self.stop()

    def again(self) -> None:
        """An entry that its owner took away is not made again by an update."""
        self.take_entry_away()
        self.set_up("/TASKS=login")
        self.take_entry_away()
        self.set_up("")
        must(self.run_value() == "", "the login entry came back with an update")

    def stubborn(self) -> None:
        """An agent that does not end is not overwritten, by an update or by the uninstaller."""
        self.said.joinpath("stubborn").touch()
        self.start()
        marker = self.folder / "_internal" / "marker.txt"
        marker.write_text("untouched")
        code, _ = self.wine.do(f"wine {self.setup} {SILENT}")
        must(code != 0, "an update over a running agent said that all went well")
        must(marker.exists(), "an update replaced files of a running agent")
        self.take_away()
        must((self.folder / "sapwood.exe").exists(), "a running agent was removed")
        self.said.joinpath("stubborn").unlink()
        self.stop()

    def uninstall(self) -> None:
        """While the agent runs: it is ended, program and login entry go, the memory stays."""
        self.put(RUN_KEY, f"/d '\"{self.app}\\sapwoodw.exe\" run --at-login'")
        self.start()
        self.said.joinpath("calls.txt").unlink()
        self.take_away()
        self.until(lambda: not self.folder.exists(), "the program is gone")
        must(self.calls() == ["sapwood.exe stop --wait"], f"it called {self.calls()}")
        must(self.run_value() == "", f"the login entry is left: {self.run_value()}")
        must((self.memory / "config.toml").is_file(), "the memory's folder was touched")

    def foreign(self) -> None:
        """The uninstaller leaves the login entry of another installation alone."""
        self.set_up("")
        self.put(RUN_KEY, "/d 'D:\\Portable\\sapwoodw.exe run --at-login'")
        self.take_away()
        self.until(lambda: not self.folder.exists(), "the program is gone")
        must("Portable" in self.run_value(), "the login entry of another installation was removed")

    # -- what they are made of ----------------------------------------------------------------------------------------

    def set_up(self, words: str) -> None:
        code, said = self.wine.do(f"wine {self.setup} {SILENT} {words} '/LOG=Z:\\w\\check\\setup.log'")
        must(code == 0, f"the installer ended with {code}: {said}\n{self.log()}")

    def take_away(self) -> None:
        self.wine.do(f"wine '{self.app}\\unins000.exe' {SILENT} '/LOG=Z:\\w\\check\\setup.log'")

    def log(self) -> str:
        path = self.place / "setup.log"
        return path.read_text("utf-8", "replace")[-3000:] if path.exists() else ""

    def start(self) -> None:
        self.wine.do(f"wine '{self.app}\\sapwoodw.exe' run >/dev/null 2>&1 &")
        self.until(lambda: (self.said / "runs").exists(), "the stand-in runs")

    def stop(self) -> None:
        (self.said / "stop").touch()
        self.until(lambda: not (self.said / "runs").exists(), "the stand-in has ended")
        for name in ("stop", "calls.txt"):
            (self.said / name).unlink(missing_ok=True)

    def calls(self) -> list[str]:
        path = self.said / "calls.txt"
        lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
        # What the stand-in's own loader adds for itself comes first.
        return [" ".join(word for word in line.split() if not word.startswith("/SL5=")) for line in lines if line]

    def put(self, key: str, words: str) -> None:
        code, said = self.wine.do(f"wine reg add '{key}' /v Sapwood {words} /f")
        must(code == 0, f"the registry takes no value: {said}")

    def take_entry_away(self) -> None:
        must(self.run_value() != "", "there is no login entry to take away")
        self.wine.do(f"wine reg delete '{RUN_KEY}' /v Sapwood /f")

    def run_value(self) -> str:
        code, said = self.wine.do(f"wine reg query '{RUN_KEY}' /v Sapwood")
        return said.partition("REG_SZ")[2].strip() if code == 0 else ""

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while not condition():
            must(time.monotonic() < end, f"it did not come true: {what}\n{self.log()}")
            time.sleep(0.05)


STEPS: tuple[Callable[[Check], object], ...] = (
    *(Check.install, Check.login, Check.update, Check.again, Check.stubborn, Check.uninstall, Check.foreign),
)


def must(holds: bool, otherwise: str) -> None:
    """Raise ``CheckFailed`` where it does not hold."""
    if not holds:
        raise CheckFailed(otherwise)


def check(root: Path, say: Callable[[str], object] = lambda _: None) -> dict[str, float]:
    """Take all steps in a folder that ``wine_root.sh`` made; return figures. Raises ``CheckFailed``."""
    steps = Check(root, say)
    try:
        say("compile")
        figures = steps.compile()
        for step in STEPS:
            say(step.__name__)
            began = time.monotonic()
            step(steps)
            figures[f"{step.__name__}_s"] = round(time.monotonic() - began, 1)
        return figures
    finally:
        steps.wine.close()


def main() -> int:
    """Say what comes of it; return the exit code."""
    if len(sys.argv) != 2:
        sys.stderr.write("python3 packaging/installer_check.py DIR    (packaging/wine_root.sh DIR makes it)\n")
        return 2
    try:
        figures = check(Path(sys.argv[1]).resolve(), lambda step: sys.stderr.write(f"  {step}\n"))
    except CheckFailed as failure:
        sys.stderr.write(f"the installer is not as it should be: {failure}\n")
        return 1
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
