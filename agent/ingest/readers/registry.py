"""Which readers there are, by the kind of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.errors import UsageFault
from agent.ingest.readers.eml import EmlReader
from agent.ingest.readers.folder import FolderReader
from agent.ingest.readers.inbox import InboxReader
from agent.ingest.readers.irc import IrcReader
from agent.ingest.readers.mbox import MboxReader

if TYPE_CHECKING:
    from agent.config import Intent, SourceIntent
    from agent.ingest.readers.protocol import Reader
    from agent.paths import Paths

_READERS: dict[str, Reader] = {
    reader.kind: reader for reader in (FolderReader(), MboxReader(), EmlReader(), IrcReader(), InboxReader())
}
BUILT_KINDS = ("folder", "mbox", "eml", "irc")
PLANNED_KINDS = (
    "maildir",
    "whatsapp",
    "signal",
    "slack",
    "telegram",
    "discord",
    "chatgpt",
    "claude",
    "claude-code",
    "codex",
    "git",
)


def reader_for(kind: str) -> Reader:
    """Return the reader of a kind. Raises ``UsageFault`` (exit code 2) for one that is not built yet, or unknown."""
    found = _READERS.get(kind)
    if found is not None:
        return found
    if kind in PLANNED_KINDS:
        raise UsageFault(f"the kind {kind} is not built yet", "", f"what can be read now: {', '.join(BUILT_KINDS)}")
    raise UsageFault(f"there is no kind of source called {kind}", "", f"the kinds are: {', '.join(BUILT_KINDS)}")


def find_source(intent: Intent, paths: Paths, source_id: str) -> SourceIntent | None:
    """Return a source of the intent, or the folder of the inbox with that name; ``None`` where there is neither.

    An item that was pushed is never out of reach because the intent was lost. ``max_bytes`` is filled in with the
    limit that counts for its kind.
    """
    from agent.config import SourceIntent

    found = intent.source(source_id)
    if found is not None:
        return with_limit(found, intent)
    folder = paths.inbox / source_id
    if source_id and "/" not in source_id and folder.is_dir():
        return SourceIntent(source_id, "inbox", source_id, (str(folder),))
    return None


def with_limit(source: SourceIntent, intent: Intent) -> SourceIntent:
    """Return a source whose ``max_bytes`` says how large a document, or a mail, of it may be."""
    if source.max_bytes is not None:
        return source
    mail = source.kind in (MboxReader.kind, EmlReader.kind)
    return replace(source, max_bytes=intent.limits.mail_bytes if mail else intent.limits.document_bytes)
