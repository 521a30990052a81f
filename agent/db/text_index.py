"""The full-text index: which words of a node are indexed, and how they are put in and taken out.

FTS5's tokenizer sees a run of CJK as one word, so a query for two of its characters finds nothing (nDCG 0.11 on
Chinese questions); splitting runs into overlapping pairs, on both sides, brings it to 0.96 (``numbers.md``).
"""

from __future__ import annotations

import re
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


MANY_NODES = 200
"""From so many on it is cheaper to write the whole index anew than to overwrite each word where it stands."""


@contextmanager
def many_removed(connection: Connection, count: int) -> Iterator[None]:
    """Let ``remove_text`` be called for that many nodes inside the caller's transaction, in rising order of nodes.

    Overwriting each word of a node in place (``secure-delete``) costs 2 ms a node. For many the words are only marked
    first, and then the whole index is merged into one piece that has none of them: 0.2 s for 36,000 nodes. SQLite
    overwrites the old pieces (``secure_delete``).
    """
    if count < MANY_NODES:
        yield
        return
    _set_secure(connection, False)
    yield
    connection.run("INSERT INTO mem_tree_text (mem_tree_text) VALUES ('optimize')")
    _set_secure(connection, True)


def _set_secure(connection: Connection, on: bool) -> None:
    connection.run("INSERT INTO mem_tree_text (mem_tree_text, rank) VALUES ('secure-delete', ?)", (int(on),))
