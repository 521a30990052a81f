import pytest

from agent import ids
from agent.tokens import count_tokens


def test_parts_are_kept_apart() -> None:
    assert ids.content_id("ab", "c") != ids.content_id("a", "bc")
    assert ids.content_id("a", "") != ids.content_id("a")


def test_ids_are_the_same_on_every_machine() -> None:
    # Written down once: an id that changes renames every memory there is.
    assert ids.chunk_id("document", "notes", "a.md", 0, ids.content_hash("body")) == "489420c694c5ab6d6444a35f127f0f54"
    assert (
        ids.summary_id(ids.shape_id("document:notes:a.md@1", 1, ["x", "y"]), "builtin:extractive-1")
        == "43726383112e81b7addbfb0e3c9fc8f0"
    )
    assert ids.tree_id("source", "notes") == "source:notes@1"
    assert ids.tree_id("document", "notes", "a.md") == "document:notes:a.md@1"


def test_a_chunk_id_depends_on_each_of_its_parts() -> None:
    base = ("document", "notes", "a.md", 0, "hash")
    changed = [
        ("email", "notes", "a.md", 0, "hash"),
        ("document", "other", "a.md", 0, "hash"),
        ("document", "notes", "b.md", 0, "hash"),
        ("document", "notes", "a.md", 1, "hash"),
        ("document", "notes", "a.md", 0, "other"),
    ]
    assert len({ids.chunk_id(*base), *(ids.chunk_id(*parts) for parts in changed)}) == 6


def test_order_of_children_is_part_of_a_shape() -> None:
    assert ids.shape_id("t", 1, ["a", "b"]) != ids.shape_id("t", 1, ["b", "a"])
    assert ids.shape_id("t", 1, ["a", "b"]) != ids.shape_id("t", 2, ["a", "b"])


@pytest.mark.parametrize(
    ("name", "slug"), [("My Notes", "my-notes"), ("Ärger & Co.", "arger-co"), ("笔记", "source"), ("--", "source")]
)
def test_a_slug_is_safe_in_a_path(name: str, slug: str) -> None:
    assert ids.slug(name) == slug


def test_tokens_of_cjk_are_not_a_quarter_of_its_characters() -> None:
    assert count_tokens("我们明天在北京开会") == 9
    assert count_tokens("We meet tomorrow in Beijing.") == 8
    assert count_tokens("") == 0
    assert count_tokens(" \n\t ") == 0


def test_tokens_add_up_over_lines() -> None:
    parts = ["One line, here.", "another: 12345678", "第三行", "x_y"]
    assert count_tokens("\n".join(parts)) == sum(map(count_tokens, parts))
