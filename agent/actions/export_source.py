"""One source of an export: what its notes are called, and the lists of what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.actions.note_text import file_name, folder_name, inline, link
from agent.ids import content_id

if TYPE_CHECKING:
    from agent.actions.export_folder import ExportFolder
    from agent.config import SourceIntent

TOP_NOTE = "Sapwood"
LISTED = 1000  # items of one list: a note of a hundred thousand lines is no use to anybody


class SourceNotes:
    """One source, and what its notes are called."""

    def __init__(self, source_id: str, intent: SourceIntent | None) -> None:
        self.id = source_id
        self.intent = intent
        self.name = intent.name if intent is not None else source_id
        self.folder = folder_name(source_id, content_id("source", source_id))
        self.index = f"{TOP_NOTE} {self.folder}"

    def item_id(self, item_key: str) -> str:
        """Return the id of an item."""
        return content_id("item", self.id, item_key)

    def item(self, item_key: str, title: str | None) -> str:
        """Return the name of an item's note."""
        return file_name(title or item_key, self.item_id(item_key))

    def summary(self, summary_id: str, title: str | None) -> str:
        """Return the name of a summary's note."""
        return file_name(title or "Summary", summary_id)


class ItemLists:
    """The links to all items of a source: in its own note, or in notes of a thousand where there are more."""

    def __init__(self, target: ExportFolder, source: SourceNotes) -> None:
        self.count = 0
        self._target = target
        self._source = source
        self._lines: list[str] = []
        self._notes: list[str] = []

    def add(self, line: str) -> None:
        """Take one more link."""
        self.count += 1
        self._lines.append(line)
        if len(self._lines) == LISTED:
            self._write()

    def _write(self) -> None:
        first, last = self.count - len(self._lines) + 1, self.count
        name = f"{self._source.index} items {len(self._notes) + 1}"
        words = f"{first} to {last}"
        text = [f"# {inline(self._source.name)}, {words}", "", f"Of {link(self._source.index, self._source.name)}.", ""]
        self._target.put(f"{self._source.folder}/{name}.md", "\n".join([*text, *self._lines, ""]))
        self._notes.append(f"- {link(name, words)}")
        self._lines = []

    def finished(self) -> list[str]:
        """Return the lines for the source's own note."""
        if not self._notes:
            return self._lines
        if self._lines:
            self._write()
        return self._notes
