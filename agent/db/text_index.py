"""The full-text index: which words of a node are indexed, and how they are put in and taken out.

FTS5's tokenizer sees a run of CJK as one word, so a query for two of its characters finds nothing (nDCG 0.11 on
Chinese questions); splitting runs into overlapping pairs, on both sides, brings it to 0.96 (``numbers.md``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.db.connection import Connection

INDEX_TEXT_VERSION = 1

_CJK_RUN = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)


def index_text(text: str) -> str:
    """Return the text as the index sees it: CJK runs as overlapping bigrams, the rest as it is."""
    return _CJK_RUN.sub(_bigrams, text)


def _bigrams(match: re.Match[str]) -> str:
    run = match.group()
    if len(run) == 1:
        return f" {run} "
    return " " + " ".join(run[at : at + 2] for at in range(len(run) - 1)) + " "


def index_body(title: str | None, heading_path: str | None, text: str) -> str:
    """Return what is indexed for a node with these columns. Adding and removing must be given the same."""
    head = ". ".join(part for part in (title, heading_path) if part)
    return f"{head}. {text}" if head else text


def add_text(connection: Connection, node: int, title: str | None, heading_path: str | None, text: str) -> None:
    """Index a node (chunk seq, or minus summary seq) inside the caller's transaction."""
    connection.run(
        "INSERT INTO mem_tree_text (rowid, body) VALUES (?, ?)",
        (node, index_text(index_body(title, heading_path, text))),
    )


def remove_text(connection: Connection, node: int, title: str | None, heading_path: str | None, text: str) -> None:
    """Take a node out of the index inside the caller's transaction; the arguments must be those it was added with."""
    connection.run(
        "INSERT INTO mem_tree_text (mem_tree_text, rowid, body) VALUES ('delete', ?, ?)",
        (node, index_text(index_body(title, heading_path, text))),
    )


MERGE_PAGES = 64
"""So much is merged in one transaction: 6 ms."""
_PIECES = 2  # so many pieces of one size become one


def merge_pieces(connection: Connection, seconds: float) -> bool:
    """Merge the pieces of the index, in transactions of their own, for so long at most; return whether all is merged.

    Each transaction that adds words leaves a piece, and whoever takes a word out looks for it in each: removing a node
    costs 3 ms in the eleven pieces that a first sync leaves, half of that in three. Only pieces of about one size are
    merged, so an edit costs 1 ms and 40 KB of it, however large the index is. Writes nothing where nothing is to do.
    """
    end = time.monotonic() + seconds
    if connection.value("SELECT v FROM mem_tree_text_config WHERE k = 'usermerge'") != _PIECES:
        with connection.write():
            connection.run("INSERT INTO mem_tree_text (mem_tree_text, rank) VALUES ('usermerge', ?)", (_PIECES,))
    while True:
        before = connection.raw.total_changes()
        with connection.write():
            connection.run("INSERT INTO mem_tree_text (mem_tree_text, rank) VALUES ('merge', ?)", (MERGE_PAGES,))
        # The statement itself counts as one change (https://sqlite.org/fts5.html#the_merge_command).
        if connection.raw.total_changes() - before < 2:
            return True
        if time.monotonic() >= end:
            return False


MANY_NODES = 200
"""From so many on it is cheaper to write the whole index anew than to overwrite each word where it stands; in an index
of more than 50,000 nodes from a 250th of them on."""


_MERGE_ALL = "INSERT INTO mem_tree_text (mem_tree_text) VALUES ('optimize')"
_NOBODYS = 0  # a row that neither a chunk nor a summary has


@contextmanager
def many_removed(connection: Connection, count: int) -> Iterator[None]:
    """Let ``remove_text`` be called for that many nodes inside the caller's transaction, in rising order of nodes.

    Overwriting each word of a node in place (``secure-delete``) costs 1.3 ms a node and more. For many the words are
    only marked first, and then the whole index is merged into one piece that has none of them: 0.2 s for 36,000 nodes.
    SQLite overwrites the old pieces (``secure_delete``).
    """
    if count < max(MANY_NODES, _nodes(connection) // 250):
        yield
        return
    _set_secure(connection, False)
    yield
    connection.run(_MERGE_ALL)
    # Where all pieces were of one size, SQLite keeps the marks of what was taken out, and each is the word itself. Not
    # so once a piece of another size is there: one of a single letter, which is taken out again.
    connection.run("INSERT INTO mem_tree_text (rowid, body) VALUES (?, 'x')", (_NOBODYS,))
    connection.run("INSERT INTO mem_tree_text (mem_tree_text, rowid, body) VALUES ('delete', ?, 'x')", (_NOBODYS,))
    connection.run(_MERGE_ALL)
    _set_secure(connection, True)


def _nodes(connection: Connection) -> int:
    """Return about how many nodes the index has, from their first and last number: it is never more."""
    found: int = connection.value(
        """
        SELECT coalesce((SELECT max(id) FROM mem_tree_text_docsize), 0)
               - coalesce((SELECT min(id) FROM mem_tree_text_docsize), 0)
        """
    )
    return found


def _set_secure(connection: Connection, on: bool) -> None:
    connection.run("INSERT INTO mem_tree_text (mem_tree_text, rank) VALUES ('secure-delete', ?)", (int(on),))
