"""Where things are.

``SAPWOOD_HOME`` puts everything under one folder (tests, portable use); otherwise the platform's own places are used.
Nothing is created by asking for a path: ``Paths.make`` does that, with mode 0700.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class Paths:
    """The four folders of one agent and what lies in them."""

    config_dir: Path
    data_dir: Path
    log_dir: Path
    runtime_dir: Path

    @property
    def config_file(self) -> Path:
        """The owner's intent."""
        return self.config_dir / "config.toml"

    @property
    def last_good_config(self) -> Path:
        """The last intent that could be read."""
        return self.config_dir / "config.last-good.toml"

    @property
    def inbox(self) -> Path:
        """Items that were pushed or remembered: no source can give them again."""
        return self.config_dir / "inbox"

    @property
    def ledger(self) -> Path:
        """Hashes of what was forgotten and other answers that must outlive the database."""
        return self.config_dir / "ledger.jsonl"

    @property
    def database(self) -> Path:
        """The memory."""
        return self.data_dir / "chunks.db"

    @property
    def agent_file(self) -> Path:
        """Pid, start time and address of the running supervisor (mode 0600)."""
        return self.runtime_dir / "agent.json"

    @property
    def gateway_file(self) -> Path:
        """Pid, start time and port of the running page (mode 0600)."""
        return self.runtime_dir / "gateway.json"

    @property
    def rpc_token(self) -> Path:
        """The bearer token of JSON-RPC (mode 0600), new with each start of the page."""
        return self.runtime_dir / "rpc.token"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the one supervisor of this data directory for as long as it lives."""
        return self.data_dir / "supervisor.lock"

    @property
    def write_turn(self) -> Path:
        """The advisory lock on which writers queue."""
        return self.data_dir / "write.turn"

    @property
    def permits(self) -> Path:
        """One lock file per permit of the LLM gate, one folder per resource."""
        return self.runtime_dir / "permits"

    def make(self) -> Paths:
        """Create the four folders with mode 0700 and return self. Raises ``OSError``.

        So it does where the runtime folder or what it lies in is another user's: without ``XDG_RUNTIME_DIR`` it is in
        the temporary folder, where anybody may have been first, and the token of the page would be theirs.
        """
        _make_private(self.runtime_dir)
        for folder in (self.config_dir, self.data_dir, self.log_dir, self.runtime_dir):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self


def _make_private(folder: Path) -> None:
    if sys.platform == "win32":
        return
    parent = folder.parent
    if not parent.exists():
        parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not by ``parents``, which goes by the umask.
        parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    own = os.geteuid()
    temporary = Path(tempfile.gettempdir())
    for each in (parent, folder):
        owner = each.stat().st_uid
        # In a container root has folders of others, but in the temporary folder others may lay out folders for root.
        if owner not in (0, own) and (own != 0 or each.is_relative_to(temporary)):
            raise PermissionError(
                errno.EPERM,
                "this folder is another user's: have SAPWOOD_HOME or XDG_RUNTIME_DIR name one of your own",
                str(each),
            )
    mode = folder.stat().st_mode
    if mode & 0o077 and folder.stat().st_uid == own:
        folder.chmod(mode & 0o700)


def find_paths(environ: Mapping[str, str] | None = None) -> Paths:
    """Return the folders of this agent, from ``SAPWOOD_HOME`` or the platform's conventions."""
    environ = os.environ if environ is None else environ
    home = environ.get("SAPWOOD_HOME")
    if home:
        return paths_under(Path(home))
    dirs = platformdirs.PlatformDirs("sapwood", appauthor=False)
    with warnings.catch_warnings():
        # It tells programmers, not people, that it falls back to the temporary folder.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
        runtime_dir = dirs.user_runtime_path
    return Paths(
        config_dir=dirs.user_config_path,
        data_dir=dirs.user_data_path,
        log_dir=dirs.user_log_path,
        # The runtime directory may vanish at logout; locks and addresses must not outlive the login anyway.
        runtime_dir=runtime_dir,
    )


def paths_under(home: Path) -> Paths:
    """Return the layout of a home in one folder."""
    root = home.expanduser().absolute()
    return Paths(root / "config", root / "data", root / "logs", root / "run")
