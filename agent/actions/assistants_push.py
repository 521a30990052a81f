"""Taking in what a program hands over (``memory.ingest``): the inbox first, then the intent, then the queue.

The way of ``remember``: on the disk before it is acknowledged, whether or not the agent runs; the same again is one
item; what its owner had forgotten is refused, or left out where it is a part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.actions.assistants import kept_notes
from agent.actions.assistants_answers import Kept
from agent.errors import AgentFault, DatabaseCorrupt, UsageFault

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.config import Intent
    from agent.ingest.push import Content, PushedItem

INBOX = "inbox"
MAX_CONTENT_BYTES = 8_000_000
MAX_KEY_CHARS = 1_000


def ingest(home: Home, source_id: str, content: Content, *, name: str | None = None, private: bool = False) -> Kept:
    """Take in a chat's turns, a mail or a document and return what it became. The first push names its source.

    ``private`` names the source private from its first push on. Blocks for some fsyncs. Raises ``UsageFault`` for what
    cannot be taken, ``AgentFault`` for what was forgotten, ``OSError`` where the disk does not take it: then nothing
    was kept.
    """
    from agent.ingest.push import keyed

    _check_source(home.intent, source_id, private)
    content = keyed(content)
    _check_size(content)
    left = _without_forgotten(home, source_id, content)
    pushed = take_in(home, source_id, left, name=name, private=private)
    return Kept(source_id, pushed.item_keys, kept_notes(home))


def take_in(
    home: Home, source_id: str, content: Content, *, name: str | None = None, private: bool = False
) -> PushedItem:
    """Write a content to the inbox, name its source where it is new, and have it read. Asks nothing."""
    from agent.config import load_intent
    from agent.config_edit import add_source
    from agent.db.faults import is_database_fault
    from agent.ingest.push import push_item

    pushed = push_item(home.paths, source_id, content, name=name)
    if home.intent.source(source_id) is None:
        try:
            add_source(home.paths, replace(pushed.source, private=private))
        except UsageFault:
            # Another push has named it meanwhile, perhaps as another source than this content may be in.
            try:
                _check_source(load_intent(home.paths).intent, source_id, private)
            except UsageFault:
                pushed.path.unlink(missing_ok=True)
                raise
    try:
        for job in pushed.jobs:
            home.enqueue(job)
    except Exception as error:
        # It is kept: whoever mends the memory, or makes room, has it read from the inbox.
        if not isinstance(error, DatabaseCorrupt) and not is_database_fault(error):
            raise
    return pushed


def _check_source(intent: Intent, source_id: str, private: bool) -> None:
    known = intent.source(source_id)
    if known is None:
        return
    if known.kind != INBOX:
        raise UsageFault(
            "this source is read from elsewhere",
            f"{source_id} is of the kind {known.kind}",
            "hand it in under another source_id",
        )
    if private and not known.private:
        raise UsageFault(
            "this source is not private",
            f"{source_id} was named without that, and only its owner changes it",
            "hand it in under another source_id, or leave private out",
        )


def _check_size(content: Content) -> None:
    from agent.ingest.push import size_of

    size = size_of(content)
    if size > MAX_CONTENT_BYTES:
        raise UsageFault(
            "this item is too large",
            f"{size:,} bytes",
            f"hand in at most {MAX_CONTENT_BYTES:,} at once: in parts, each with a key of its own",
        )


def _without_forgotten(home: Home, source_id: str, content: Content) -> Content:
    from agent.ingest.push import left_of
    from agent.ledger import read_ledger

    left = left_of(content, read_ledger(home.paths), source_id)
    if left is None:
        raise AgentFault(
            "the owner had these very words forgotten",
            "what was forgotten is not read again, so nothing was kept",
            "leave it out",
        )
    return left
