"""Nobody else gets at what is written for the owner alone: not by being first, not by a link, not by a loose umask."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config_edit import write_atomically
from agent.paths import Paths, paths_under

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes; its profile folder is private")
as_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
OTHER = 65534


@pytest.fixture
def loose() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def paths_in(folder: Path) -> Paths:
    home = paths_under(folder / "home")
    return Paths(home.config_dir, home.data_dir, home.log_dir, folder / "runtime-1000" / "sapwood")


@pytest.mark.usefixtures("loose")
def test_what_is_made_is_private_under_any_umask(tmp_path: Path) -> None:
    paths = paths_in(tmp_path).make()
    for folder in (paths.runtime_dir, paths.runtime_dir.parent, paths.data_dir, paths.config_dir, paths.log_dir):
        assert mode_of(folder) == 0o700, folder
    write_atomically(paths.rpc_token, "token")
    assert mode_of(paths.rpc_token) == 0o600


def test_a_runtime_folder_that_stood_open_is_closed(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.runtime_dir.mkdir(parents=True)
    paths.runtime_dir.chmod(0o777)
    paths.make()
    assert mode_of(paths.runtime_dir) == 0o700


@as_root
@pytest.mark.parametrize("whose", ["the folder", "its parent", "a link's target"])
def test_a_runtime_folder_that_another_user_laid_out_is_refused(tmp_path: Path, whose: str) -> None:
    paths = paths_in(tmp_path)
    if whose == "a link's target":
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        paths.runtime_dir.parent.mkdir()
        paths.runtime_dir.symlink_to(theirs)
        shutil.chown(theirs, OTHER, OTHER)
    else:
        paths.runtime_dir.mkdir(parents=True)
        shutil.chown(paths.runtime_dir if whose == "the folder" else paths.runtime_dir.parent, OTHER, OTHER)
    with pytest.raises(PermissionError, match="another user's"):
        paths.make()


@pytest.mark.parametrize("what", ["a file", "a link"])
def test_what_lies_at_the_temporary_name_is_never_written_into(tmp_path: Path, what: str) -> None:
    target = tmp_path / "rpc.token"
    laid_out = tmp_path / f".rpc.token.{os.getpid()}.tmp"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    if what == "a file":
        os.link(elsewhere, laid_out)
    else:
        laid_out.symlink_to(elsewhere)
    write_atomically(target, "token")
    assert elsewhere.read_text() == "theirs"
    assert target.read_text() == "token"
    assert not target.is_symlink()
    assert not laid_out.exists()
