"""``sapwood restore``: a backup becomes the memory, whether or not the agent runs, and nothing forgotten comes back.

The backup is copied beside the memory, brought to this build's schema and made ready there; then it replaces what is in
the memory in one transaction of SQLite's own. The agent goes on meanwhile: jobs in flight lose their leases, and
nothing of them is applied. What can only be added to (ledger, inbox) is put back before that, so that no kill in
between loses anything.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import apsw

from agent.actions.backing_up import CONFIG, INBOX, LEDGER, USAGE, is_the_memory, refuse_without_room
from agent.actions.damaged import ask_agent
from agent.actions.erasing import apply_ledger, is_applied
from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import load_intent
from agent.db.aside import BEFORE_RESTORE, KEPT_COPIES, copy_name, drop_copies, move_aside
from agent.db.backup import carried, copy_memory, no_progress, open_read_only, swap_in, verify
from agent.db.connection import connect
from agent.db.faults import FaultClass, classify
from agent.db.state import DAMAGE_KEY, PAUSE_KEY, get_state, set_state
from agent.errors import AgentFault, ConfigBroken, DatabaseCorrupt, SapwoodError, UsageFault
from agent.ingest.push import forget_in_inbox
from agent.ledger import read_ledger, unite_ledger
from agent.models.spending import meter_tx, read_row, read_rows, reconcile, unite_usage
from agent.queue.recovery import release_running_locks, running_workers

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.db.backup import CarriedFile, Progress
    from agent.ledger import Ledger
    from agent.paths import Paths

SHRINK_PATIENCE_MS = 300


@dataclass(frozen=True)
class Restored:
    """A backup that is the memory now: the file, its bytes; what was there before and where; what else was put back."""

    path: str
    bytes: int
    ok: bool
    kept_as: str | None
    chunks: int
    inbox_files: int
    notes: tuple[str, ...]


def restore(paths: Paths, file: Path, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress) -> Restored:
    """Put a backup back and return what became of it; blocks for as long as reading and copying it takes.

    It is verified before anything is touched. Raises ``UsageFault``, ``DatabaseRefused`` and ``DatabaseCorrupt`` for a
    file that is none of ours, and ``AgentFault`` where it is not sound or there is no room: nothing was changed then.
    """
    file = Path(os.path.abspath(file.expanduser()))
    _refuse_file(paths, file)
    found = verify(file)
    if found.findings:
        raise AgentFault(
            "this backup is damaged", f"{file}: {found.findings[0]}", "name another one; nothing was changed"
        )
    paths.make()
    # The stage, the same in the write-ahead log and in the file, and what is there now, which is kept.
    refuse_without_room(paths.data_dir, 3 * found.bytes + _size(paths.database))
    stage = paths.data_dir / f"{paths.database.name}.restoring-{os.getpid()}"
    _remove_stages(paths)
    try:
        return _restore(paths, file, found.bytes, stage, clock, progress)
    finally:
        _remove(stage)


def _refuse_file(paths: Paths, file: Path) -> None:
    if not file.exists():
        raise UsageFault("there is no such file", str(file), "check its spelling, or plug the disk in")
    if not file.is_file():
        raise UsageFault("this is no backup", str(file), "name a file that `sapwood backup` made")
    if is_the_memory(paths, file):
        raise UsageFault("this is the memory itself", str(file), "name a file that `sapwood backup` made")


def _restore(paths: Paths, file: Path, size: int, stage: Path, clock: Clock, progress: Progress) -> Restored:
    with open_read_only(file) as source:
        copy_memory(source, stage, progress)
    staged = connect(stage, create=False)  # which migrates it
    try:
        staged.run("DROP TABLE IF EXISTS sapwood_files")
        notes: list[str] = []
        unite_ledger(paths, _carried(file, LEDGER))
        unite_usage(paths, _carried(file, USAGE))
        ledger = read_ledger(paths)
        put_back = _put_inbox_back(paths, file, ledger)
        if put_back:
            # What was forgotten of an item, not all of it, stood in the file that came back.
            forget_in_inbox(paths, ledger)
        inbox_files = sum(path.exists() for path in put_back)
        # Before it is the memory: no forgotten word stands in the live file for a moment.
        apply_ledger(staged, ledger, clock.now_ms())
        live, kept_as = _open_live(paths, clock, notes)
        try:
            if kept_as is None:
                kept_as = _keep(paths, live, file, clock)
            _make_ready(staged, live, clock, notes)
            _keep_spent(staged, live, paths)
            staged.run("VACUUM")  # what was dropped and forgotten leaves no room behind
            swap_in(staged, live, progress)
            if not is_applied(live, ledger := read_ledger(paths)):
                # Somebody forgot something while this was copied.
                apply_ledger(live, ledger, clock.now_ms())
            chunks = int(live.value("SELECT count(*) FROM mem_tree_chunks"))
            _shrink(live)
            sources = [str(row[0]) for row in live.all("SELECT source_id FROM mem_tree_sources ORDER BY 1")]
        finally:
            live.close()
    finally:
        staged.close()
    _forget_held()
    notes += _put_settings_back(paths, file)
    notes += _unnamed(paths, sources)
    ask_agent(paths, "reload")
    return Restored(str(file), size, True, kept_as, chunks, inbox_files, tuple(notes))


# -- the database -----------------------------------------------------------------------------------------------------


def _open_live(paths: Paths, clock: Clock, notes: list[str]) -> tuple[Connection, str | None]:
    """Return the memory, and where a damaged one was moved to."""
    try:
        return connect(paths.database, paths.write_turn), None
    except DatabaseCorrupt:
        from agent.supervisor.control import SingleInstance

        instance = SingleInstance(paths)
        if not instance.acquire():
            ask_agent(paths, "examine")
            raise AgentFault(
                "the memory is damaged, and the agent is just beginning it anew",
                str(paths.database),
                "try again when `sapwood status` says so, or end the agent first: `sapwood stop`",
            ) from None
        try:
            moved_to = move_aside(paths.database, clock.now_ms())
            notes.append("the memory that was there is damaged")
            return connect(paths.database, paths.write_turn), str(moved_to)
        finally:
            instance.release()


def _keep(paths: Paths, live: Connection, file: Path, clock: Clock) -> str | None:
    """Copy what is there, and return where; ``None`` where there is nothing. ``file`` may be such a copy itself."""
    if live.value("SELECT 1 FROM mem_tree_items LIMIT 1") is None:
        return None
    drop_copies(paths.database, BEFORE_RESTORE, KEPT_COPIES - 1, spare=file)
    target = copy_name(paths.database, BEFORE_RESTORE, clock.now_ms())
    try:
        copy_memory(live.raw, target)
    except BaseException:
        _remove(target)
        raise
    return str(target)


def _make_ready(staged: Connection, live: Connection, clock: Clock, notes: list[str]) -> None:
    """Give back what was being done when the backup was made; take over who is alive, and what the owner said since."""
    release_running_locks(staged, running_workers(staged), clock.now_ms())
    try:
        workers = live.all("SELECT worker_id, pid, started_at_ms, wake_port FROM mem_tree_workers")
        said = {key: get_state(live, key) for key in (PAUSE_KEY, DAMAGE_KEY)}
    except apsw.Error as error:
        if classify(error) is not FaultClass.CORRUPT:
            raise
        # It opened, and is damaged further in: that is what a backup is for. Workers look by themselves, a bit later.
        workers, said = [], {}
        notes.append("the memory that was there is damaged: a pause that it knew of is not in force any more")
    with staged.write(full=True):
        staged.run("DELETE FROM mem_tree_workers")
        staged.many(
            "INSERT INTO mem_tree_workers (worker_id, pid, started_at_ms, wake_port) VALUES (?, ?, ?, ?)", workers
        )
        for key in (PAUSE_KEY, DAMAGE_KEY):
            set_state(staged, key, said.get(key))


def _keep_spent(staged: Connection, live: Connection, paths: Paths) -> None:
    """Let the backup know what was spent since it was made, by the memory that is there and by the lines beside it."""
    try:
        rows = read_rows(live)
    except apsw.Error as error:
        if classify(error) is not FaultClass.CORRUPT:
            raise
        rows = {}
    with staged.write(full=True):
        for account, spent in rows.items():
            lacking = read_row(staged, account).lacks(spent)
            if lacking:
                meter_tx(staged, account, lacking)
    reconcile(staged, paths)


def _shrink(live: Connection) -> None:
    # Who reads on keeps the log long; the agent's next quiet moment brings it in.
    live.raw.set_busy_timeout(SHRINK_PATIENCE_MS)
    with contextlib.suppress(apsw.BusyError, apsw.LockedError):
        live.run("PRAGMA wal_checkpoint(TRUNCATE)")


def _forget_held() -> None:
    from agent.recall.vectors import forget_held_windows

    forget_held_windows()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _remove_stages(paths: Paths) -> None:
    """Remove what restores that were killed left behind."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    for path in paths.data_dir.glob(f"{paths.database.name}.restoring-*"):
        pid = path.name.rpartition("restoring-")[2].partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with contextlib.suppress(OSError):
                path.unlink()


# -- what lies beside it ----------------------------------------------------------------------------------------------


def _carried(file: Path, name: str) -> bytes:
    return next((each.content for each in carried(file) if each.path == name), b"")


def _put_inbox_back(paths: Paths, file: Path, ledger: Ledger) -> list[Path]:
    """Write the items that are missing in the inbox, and return these files.

    What is there, and what was forgotten, stays as it is.
    """
    written = []
    for each in carried(file):
        target = _inbox_place(paths, each)
        if target is None or target.exists() or _is_forgotten(each, ledger):
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
                stream.write(each.content)
                stream.flush()
                os.fsync(stream.fileno())
            os.utime(draft, ns=(each.mtime_ns, each.mtime_ns))
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(target.parent)
        written.append(target)
    return written


def _inbox_place(paths: Paths, file: CarriedFile) -> Path | None:
    """Return where a carried file belongs in the inbox; ``None`` for any that does not belong there."""
    if not file.path.startswith(INBOX):
        return None
    parts = PurePosixPath(file.path.removeprefix(INBOX)).parts
    # Exactly a source and a name: a path from a file that somebody handed over leads nowhere else.
    if len(parts) != 2 or any(part in ("", ".", "..") or set(part) & set("/\\:\0") for part in parts):
        return None
    return paths.inbox.joinpath(*parts)


def _is_forgotten(file: CarriedFile, ledger: Ledger) -> bool:
    """Return whether all that a file of the inbox holds was forgotten since."""
    if not ledger.forgets_anything:
        return False
    import msgspec

    from agent.ids import content_hash, content_id
    from agent.ingest.readers.inbox import ChatContent, Envelope, keys_of
    from agent.ingest.readers.protocol import Unreadable

    source_id = file.path.split("/")[1]
    try:
        content = msgspec.json.decode(file.content, type=Envelope).content
    except (msgspec.DecodeError, UnicodeDecodeError, Unreadable):
        return False
    held = content_hash(file.content)
    # A chat's file has a part in each of its days.
    return all(
        ledger.forgets_item(source_id, key, content_id(held, str(time)) if isinstance(content, ChatContent) else held)
        for key, time in keys_of(content)
    )


def _put_settings_back(paths: Paths, file: Path) -> list[str]:
    """Write ``config.toml`` where there is none, and return what an owner is told."""
    from agent.config_edit import write_atomically

    held = next((each.content for each in carried(file) if each.path == CONFIG), None)
    if held is None:
        return []
    if paths.config_file.exists():
        if paths.config_file.read_bytes() == held:
            return []
        return [f"your settings stay as they are ({paths.config_file}); those of the backup differ"]
    write_atomically(paths.config_file, held.decode("utf-8", "replace"))
    _lead_inbox_here(paths)
    return [f"settings were put back: {paths.config_file}"]


def _lead_inbox_here(paths: Paths) -> None:
    """Have the sources of the inbox read this home's inbox, wherever the backup was made."""
    from agent.config_edit import edit_intent

    def change(document: object) -> None:
        for entry in getattr(document, "get", lambda *_: [])("sources", []):
            if entry.get("kind") == "inbox":
                entry["paths"] = [str(paths.inbox / str(entry.get("id")))]

    with contextlib.suppress(SapwoodError):
        edit_intent(paths, change)


def _unnamed(paths: Paths, sources: list[str]) -> list[str]:
    """Return what an owner is told of sources that the restored memory knows and the settings do not name."""
    try:
        named = {source.id for source in load_intent(paths).intent.sources}
    except ConfigBroken:
        return []
    missing = [source_id for source_id in sources if source_id not in named]
    if not missing:
        return []
    return [f"no longer in your settings, so not looked at: {', '.join(missing)}; name them with `sapwood add`"]


def _sync_folder(folder: Path) -> None:
    from agent.config_edit import sync_folder

    with contextlib.suppress(OSError):
        sync_folder(folder)
