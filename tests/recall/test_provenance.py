"""From a hit to the line of the file, and up to the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import Intent, SourceIntent
from agent.db import Connection
from agent.models.protocol import Profile
from agent.recall.provenance import chunk_origin, parents_of, resolve_path, summary_origin
from agent.recall.search import search
from tests.recall.conftest import Memory


def _intent(kind: str, *paths: Path) -> Intent:
    return Intent(sources=(SourceIntent("notes", kind, "My notes", tuple(map(str, paths))),))


def test_the_text_at_the_place_is_the_text_of_the_hit(
    memory: Memory, connection: Connection, profile: Profile, tmp_path: Path
) -> None:
    lines = ["# House", "", "The boiler was repaired", "by Anna in March.", "", "Other things."]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "house.md").write_text("\n".join(lines), "utf-8")
    memory.chunk(
        "The boiler was repaired\nby Anna in March.",
        item_key="sub/house.md",
        locator={"path": "sub/house.md", "line": 3, "end_line": 4},
    )
    (hit,) = search(connection, profile, "boiler", intent=_intent("folder", tmp_path)).hits
    assert hit.path is not None
    assert hit.locator is not None
    there = Path(hit.path).read_text("utf-8").splitlines()
    assert "\n".join(there[hit.locator["line"] - 1 : hit.locator["end_line"]]) == hit.text


def test_a_file_is_found_under_the_path_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.md").touch()
    source = _intent("folder", tmp_path / "a", tmp_path / "b").sources[0]
    assert resolve_path({"path": "x.md"}, source) == str(tmp_path / "b" / "x.md")
    assert resolve_path({"path": "gone.md"}, source) == str(tmp_path / "a" / "gone.md")
    assert resolve_path({"path": "x.md"}, None) == "x.md"
    assert resolve_path(None, source) is None


def test_a_source_of_one_file_is_its_own_path(tmp_path: Path) -> None:
    box = tmp_path / "old.mbox"
    box.touch()
    source = _intent("mbox", box).sources[0]
    assert resolve_path({"path": "old.mbox", "offset": 3, "length": 5}, source) == str(box)


def test_turns_of_several_files_lead_to_the_first(tmp_path: Path) -> None:
    places = {"places": [{"path": "a.txt", "line": 1, "end_line": 2}, {"path": "b.txt", "line": 5, "end_line": 6}]}
    assert resolve_path(places, None) == "a.txt"


@pytest.fixture
def tall(memory: Memory) -> dict[str, str]:
    """A document of two groups under a folder's tree of two levels; a note of one chunk beside it."""
    ids = {f"leaf{at}": memory.chunk(f"boiler part {at}", item_key="house.md") for at in range(4)}
    ids["first"] = memory.summary("boiler first", [ids["leaf0"], ids["leaf1"]], item_key="house.md", title="First half")
    ids["second"] = memory.summary("boiler second", [ids["leaf2"], ids["leaf3"]], item_key="house.md")
    ids["document"] = memory.summary("boiler all", [ids["first"], ids["second"]], level=2, item_key="house.md")
    ids["note"] = memory.chunk("boiler note", item_key="note.md")
    connection = memory.connection
    with connection.write():
        house = memory.tree(item_key="house.md")
        memory.edge(house, 2, ids["document"], "")
        folder = memory.tree("source", item_key=None)
        memory.edge(folder, 0, ids["note"], ids["note"])  # stood alone in its group
    ids["folder"] = memory.summary("boilers", [ids["document"]], kind="source", item_key=None)
    ids["root"] = memory.summary("everything", [ids["folder"], ids["note"]], level=2, kind="source", item_key=None)
    with connection.write():
        memory.edge(folder, 2, ids["root"], "")
    return ids


def test_the_chain_goes_from_leaf_to_root_through_the_folders_tree(
    tall: dict[str, str], connection: Connection
) -> None:
    chain = parents_of(connection, tall["leaf1"])
    assert [parent.node_id for parent in chain] == [tall[name] for name in ("first", "document", "folder", "root")]
    assert [parent.level for parent in chain] == [1, 2, 1, 2]
    assert chain[0].title == "First half"
    assert [parent.node_id for parent in parents_of(connection, tall["note"])] == [tall["root"]]
    assert parents_of(connection, tall["root"]) == ()


def test_hits_carry_their_chain(tall: dict[str, str], connection: Connection, profile: Profile) -> None:
    hits = {hit.node_id: hit for hit in search(connection, profile, "boiler", limit=20).hits}
    assert [parent.node_id for parent in hits[tall["second"]].parents] == [
        tall[name] for name in ("document", "folder", "root")
    ]
    assert hits[tall["leaf3"]].as_json()["parents"][0]["node_id"] == tall["second"]


def test_a_circle_ends(memory: Memory, connection: Connection) -> None:
    leaf = memory.chunk("one")
    low = memory.summary("low", [leaf])
    high = memory.summary("high", [low], level=2)
    with connection.write():
        memory.edge(memory.tree(), 2, high, low)
    assert [parent.node_id for parent in parents_of(connection, leaf)] == [low, high]


def test_an_origin_says_all_that_is_known(memory: Memory, connection: Connection, tmp_path: Path) -> None:
    chunk = memory.chunk("text", title="House", heading_path="House > Boiler", author="Anna")
    origin = chunk_origin(connection, chunk, _intent("folder", tmp_path))
    assert origin is not None
    assert (origin.source_id, origin.source_name, origin.source_kind) == ("notes", "My notes", "document")
    assert (origin.title, origin.heading_path, origin.author) == ("House", "House > Boiler", "Anna")
    assert origin.path == str(tmp_path / "notes.md")
    assert origin.locator == {"path": "notes.md", "line": 1, "end_line": 1}
    assert chunk_origin(connection, "0" * 32) is None
    assert summary_origin(connection, "0" * 32) is None


def test_the_summary_of_a_document_has_its_path(tall: dict[str, str], connection: Connection) -> None:
    document = summary_origin(connection, tall["document"])
    folder = summary_origin(connection, tall["folder"])
    assert document is not None
    assert folder is not None
    assert document.path == "house.md"
    assert folder.path is None
