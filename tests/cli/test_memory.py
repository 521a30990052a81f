"""What the commands say of a grown memory: the keys that scripts rely on, 80 columns for people."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Sapwood, widths

pytestmark = pytest.mark.usefixtures("grown")

HIT = {
    *(
        "node_id",
        "kind",
        "level",
        "score",
        "text",
        "title",
        "source_id",
        "path",
        "locator",
        "author",
        "time",
        "parents",
    ),
}


def is_iso_with_offset(text: str) -> bool:
    return datetime.fromisoformat(text).utcoffset() is not None


def test_status_tells_everything(sapwood: Sapwood) -> None:
    found = sapwood("status", "--json").document
    assert {"state", "reason", "profile", "workers", "queue", "sources", "chunks", "summaries", "embedded"} <= set(
        found
    )
    assert found["eta_seconds"] is None
    assert found["state"] == "stopped"
    assert "sapwood run" in found["reason"]
    assert found["sources"] == 3
    assert set(found["queue"]) == {*("ready", "deferred", "running", "failed", "unrecoverable", "cancelled", "done")}
    assert found["queue"]["ready"] == found["queue"]["running"] == found["queue"]["failed"] == 0
    assert found["queue"]["done"] > 0
    assert set(found["chunks"]) == {"pending_extraction", "admitted", "buffered", "sealed", "dropped"}
    assert found["chunks"]["sealed"] > 20
    assert found["embedded"] == sum(found["chunks"].values()) - found["chunks"]["dropped"] + found["summaries"]


def test_sources_are_counted(sapwood: Sapwood) -> None:
    found = {row["id"]: row for row in sapwood("sources", "--json").document["sources"]}
    assert {"id", "kind", "name", "items", "chunks", "unreadable", "last_sync"} <= set(found["notes"])
    assert {name: row["kind"] for name, row in found.items()} == {
        "notes": "folder",
        "club-mail": "mbox",
        "club-chat": "irc",
    }
    assert found["notes"]["items"] == 13
    assert found["club-mail"]["items"] == 25
    assert found["club-chat"]["items"] == 3
    assert all(row["chunks"] > 0 for row in found.values())
    assert all(row["unreadable"] == [] for row in found.values())
    assert is_iso_with_offset(found["notes"]["last_sync"])


def test_search_hit_says_where_it_stands(sapwood: Sapwood) -> None:
    found = sapwood("search", "spare", "greenhouse", "key", "-k", "5", "--json").document
    assert found["searched"] == "full"
    assert 0 < len(found["hits"]) <= 5
    assert set(found["hits"][0]) >= HIT
    leaf = next(hit for hit in found["hits"] if hit["kind"] == "leaf")
    path = Path(leaf["path"])
    assert path.is_file()
    lines = path.read_text("utf-8").splitlines()[leaf["locator"]["line"] - 1 : leaf["locator"]["end_line"]]
    assert "key" in leaf["text"]
    assert leaf["text"] == "\n".join(lines)


@pytest.mark.parametrize(
    ("question", "source", "words"),
    [
        ("deposit for the standpipe", "club-chat", "150 euros"),
        ("bees settling in the old pear tree", "club-mail", "pear tree"),
        ("Quittengelee Zutaten", "notes", "Gelierzucker"),
        ("中秋 月饼", "notes", "月饼"),
        ("offer for toughened panes of glass", "club-mail", "36.00 euros"),
    ],
)
def test_samples_answer_questions(question: str, source: str, words: str, sapwood: Sapwood) -> None:
    hits = sapwood("search", question, "--kind", "leaf", "-k", "5", "--json").document["hits"]
    assert any(hit["source_id"] == source and words in " ".join(hit["text"].split()) for hit in hits)


def test_filters_of_a_search_hold(sapwood: Sapwood) -> None:
    mail = sapwood("search", "hydrant", "--source", "club-mail", "--json").document["hits"]
    assert {hit["source_id"] for hit in mail} == {"club-mail"}
    june = sapwood("search", "hydrant", "--since", "2025-06-10", "--until", "2025-06-12", "--json").document["hits"]
    leaves = [hit for hit in june if hit["kind"] == "leaf"]
    assert leaves
    assert all("2025-06-09" < hit["time"][:10] < "2025-06-14" for hit in leaves)
    assert {hit["kind"] for hit in sapwood("search", "bees", "--kind", "summary", "--json").document["hits"]} == {
        "summary"
    }


def test_nothing_found_is_no_error(sapwood: Sapwood) -> None:
    ran = sapwood("search", "xylophonist", "--source", "club-chat", "--kind", "leaf", "--since", "2031-01-01")
    assert ran.code == 0
    assert ran.out == "nothing found\n"


def test_tree_and_show_lead_from_the_root_to_a_leaf_and_back(sapwood: Sapwood) -> None:
    trees = sapwood("tree", "notes", "--json").document["trees"]
    assert {"id", "kind", "scope", "max_level", "open_leaves", "summary_ids"} <= set(trees[0])
    assert trees[0]["kind"] == "source"
    assert all(tree["open_leaves"] == 0 for tree in trees)
    node = trees[0]["root_id"]
    for _ in range(10):
        found = sapwood("show", node, "--json").document
        assert {"node", "children", "parents", "origin"} <= set(found)
        if not found["children"]:
            break
        node = found["children"][0]["node_id"]
    assert found["node"]["kind"] == "leaf"
    assert found["parents"][-1]["node_id"] == trees[0]["root_id"]
    assert Path(found["origin"]["path"]).is_file()
    assert sapwood("show", node[:12], "--json").document["node"]["node_id"] == node


def test_jobs_are_listed_without_their_payload(sapwood: Sapwood) -> None:
    found = sapwood("jobs", "--status", "done", "--kind", "sync_source", "--json").document["jobs"]
    assert len(found) == 3
    assert all("payload_json" not in row for row in found)
    assert {"id", "kind", "status", "dedupe_key", "attempts", "last_error", "failure_class"} <= set(found[0])


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("doctor",),
        ("sources",),
        ("tree",),
        ("tree", "notes", "--depth", "6"),
        ("jobs",),
        ("search", "where is the spare key of the greenhouse"),
        ("search", "茶会"),
        ("search", "Quitten", "--kind", "summary"),
    ],
)
def test_people_read_it_at_80_columns(arguments: tuple[str, ...], sapwood: Sapwood) -> None:
    ran = sapwood(*arguments)
    assert ran.code == 0
    assert ran.out.strip()
    assert max(widths(ran.out)) <= 80
    assert "\x1b" not in ran.out


def test_node_is_shown_at_80_columns(sapwood: Sapwood) -> None:
    for hit in sapwood("search", "watering", "-k", "6", "--json").document["hits"]:
        ran = sapwood("show", hit["node_id"], "--depth", "3")
        assert ran.code == 0
        assert max(widths(ran.out)) <= 80
        assert hit["node_id"] in ran.out


@pytest.mark.parametrize("name", ["status", "sources", "tree", "jobs", "doctor"])
def test_json_is_one_document_wherever_the_option_stands(name: str, sapwood: Sapwood) -> None:
    for arguments in ((name, "--json"), ("--json", name)):
        ran = sapwood(*arguments)
        assert isinstance(ran.document, dict)
        assert ran.err == ""
