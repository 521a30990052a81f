"""What was forgotten is found again whichever chunk it lands in, and nothing else is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from agent.ids import content_hash
from agent.ingest.canonical import CanonicalItem
from agent.ingest.canonicalize import Turn, canonicalize_chat, canonicalize_document, canonicalize_mail
from agent.ingest.chunker import Chunk, chunk_markdown
from agent.ingest.forgotten import hashes_to_forget, pieces_of, without_forgotten
from agent.ingest.headers import MailHead
from agent.ingest.mail import Mail, group_lines
from agent.ingest.markdown import Markup
from agent.ledger import Ledger
from agent.states import SourceKind

if TYPE_CHECKING:
    from collections.abc import Callable

SALT = Ledger(salt="a salt of this home")
WORDS = (
    "river",
    "stone",
    "lamp",
    "garden",
    "winter",
    "letter",
    "candle",
    "bridge",
    "orchard",
    "harbour",
    "meadow",
    "kettle",
)


def document(text: str) -> list[Chunk]:
    return chunk_markdown(
        canonicalize_document(
            text,
            item_key="a.md",
            name="a.md",
            place={"path": "a.md"},
            content_hash=content_hash(text),
            markup=Markup.MARKDOWN,
            modified_ms=None,
        )
    )


def forgetting(*chunks: Chunk, says: Callable[[str], bool] | None = None, item_key: str = "a.md") -> Ledger:
    pieces: set[str] = set()
    for chunk in chunks:
        pieces |= hashes_to_forget(SALT, "notes", item_key, chunk.text, chunk.source_kind, says)
    return Ledger(salt=SALT.salt, pieces=frozenset(pieces))


def sentence(dice: random.Random, words: int) -> str:
    return " ".join(dice.choice(WORDS) + str(dice.randrange(1000)) for _ in range(words)).capitalize() + "."


def paragraphs(seed: int, count: int, sentences: int = 8) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(sentence(dice, dice.randrange(6, 18)) for _ in range(sentences)) for _ in range(count)]


def test_a_forgotten_chunk_leaves_all_others_as_they_are() -> None:
    chunks = document("\n\n".join(paragraphs(1, 40)))
    assert len(chunks) > 6
    left = without_forgotten(chunks, forgetting(chunks[3]), "notes", "a.md")
    assert left == [*chunks[:3], *chunks[4:]]


def test_without_forgotten_pieces_the_chunks_are_the_same_objects() -> None:
    chunks = document("\n\n".join(paragraphs(2, 10)))
    assert all(
        a is b
        for a, b in zip(chunks, without_forgotten(chunks, Ledger(items=frozenset({"x"})), "notes", "a.md"), strict=True)
    )


def test_forgotten_words_stay_out_wherever_an_edit_moves_the_cuts() -> None:
    parts = paragraphs(3, 30)
    chunks = document("\n\n".join(parts))
    target = chunks[4]
    ledger = forgetting(target)
    gone = {piece.words for piece in pieces_of(target.text, SourceKind.DOCUMENT)}
    for seed in range(40):
        dice = random.Random(seed)
        edited = list(parts)
        for _ in range(6):
            edited.insert(dice.randrange(len(edited) + 1), sentence(dice, 12))
            edited.pop(dice.randrange(len(edited)))
        left = without_forgotten(document("\n\n".join(edited)), ledger, "notes", "a.md")
        text = "\n".join(chunk.text for chunk in left)
        assert not [words for words in gone if words in text]
        for chunk in left:
            assert chunk.body_hash == content_hash(chunk.text)


def test_parts_of_a_sentence_without_end_stay_out_however_it_is_cut() -> None:
    dice = random.Random(5)
    words = [f"{dice.choice(WORDS)}{dice.randrange(10_000)}" for _ in range(4000)]
    chunks = document(" ".join(words))
    assert len(chunks) > 4
    target = chunks[2]
    ledger = forgetting(target)
    held = target.text.split()
    for seed in range(10):
        dice = random.Random(seed)
        edited = list(words)
        for _ in range(20):
            edited[dice.randrange(len(edited))] = f"new{dice.randrange(10_000)}"
        text = " ".join(c.text for c in without_forgotten(document(" ".join(edited)), ledger, "notes", "a.md")).split()
        back = set(held[4:-4]) & set(text) - set(words[: words.index(held[0])]) - set(chunks[3].text.split())
        # An edit inside what was forgotten leaves at most the few words beside it that make no run any more.
        assert len(back) <= 8 * sum(word.startswith("new") for word in text), seed


def test_a_phrase_in_common_is_not_cut_out_of_another_sentence() -> None:
    one = document(
        "Thank you very much for your kind letter from the old harbour at the end of the longest winter, Anna."
    )
    other = document("Thank you very much for your kind letter from the old harbour, we read it aloud.")
    assert without_forgotten(other, forgetting(*one), "notes", "b.md") == other


def test_a_heading_goes_with_its_words_only() -> None:
    long = paragraphs(7, 12)
    text = f"# Diary\n\n## Plans\n\n{long[0]}\n\n## Notes\n\n" + "\n\n".join(long[1:])
    chunks = document(text)
    ledger = forgetting(chunks[0])
    again = document(f"# Diary\n\n## Plans\n\nSomething new was written here instead.\n\n## Notes\n\n{long[5]}")
    left = without_forgotten(again, ledger, "notes", "a.md")
    assert "## Plans" in left[0].text


def test_a_heading_that_says_it_is_gone_from_text_and_path() -> None:
    def says(text: str) -> bool:
        return "quasar" in text.casefold()

    body = "\n\n".join(paragraphs(8, 12))
    chunks = document(f"# Diary\n\n## The Quasar Plan\n\n{body}")
    ledger = forgetting(chunks[0], says=says)
    again = document(f"# Diary\n\n## The Quasar Plan\n\n{body}\n\nA last word that is new here.")
    left = without_forgotten(again, ledger, "notes", "a.md")
    assert left
    assert not [chunk for chunk in left if "Quasar" in chunk.text or "Quasar" in (chunk.heading_path or "")]


def mail(body: str, sender: str = "Anna <anna@mail.example>") -> CanonicalItem:
    head = MailHead("m1@x", "m1@x", "About the orchard", 1_700_000_000_000, "m1@x")
    one = Mail(head, sender, (("To", "bruno@mail.example"),), tuple(group_lines(body)), ())
    return canonicalize_mail([(one, {"path": "box"})], item_key="m1@x", content_hash="h")


def test_the_sender_stays_where_only_words_were_forgotten() -> None:
    first = chunk_markdown(mail("The orchard is sold to the people from the harbour side."))
    second = chunk_markdown(mail("Another mail with other words, of the same sender to the same people."))
    ledger = forgetting(*first, item_key="m1@x")
    assert without_forgotten(first, ledger, "notes", "m1@x") == []
    assert without_forgotten(second, ledger, "notes", "m2@x") == second


def test_quoted_words_are_the_words() -> None:
    words = "The orchard is sold to the people from the harbour side."
    ledger = forgetting(*chunk_markdown(mail(words)), item_key="m1@x")
    answer = chunk_markdown(mail(f"I am glad to hear it, truly.\n\n> {words}\n> And something else besides."))
    left = without_forgotten(answer, ledger, "notes", "m2@x")
    text = "\n".join(chunk.text for chunk in left)
    assert "orchard is sold" not in text
    assert "I am glad to hear it" in text
    assert "something else" in text


def chat(*turns: tuple[str, str]) -> list[Chunk]:
    rows = [
        Turn(f"[12:{at:02}] <{author}> {text}", 1_700_000_000_000 + at * 1000, author, at + 1)
        for at, (author, text) in enumerate(turns)
    ]
    item = canonicalize_chat(
        [(rows, {"path": "log"})], item_key="c/2024", conversation="c", day_ms=1_699_920_000_000, content_hash="h"
    )
    return chunk_markdown(item)


def test_a_turn_goes_with_its_speaker_and_its_author() -> None:
    ledger = forgetting(
        *chat(("quentin", "The password of the boat house is under the third stone.")), item_key="c/2024"
    )
    chunks = chat(
        ("anna", "Where was it again, please?"),
        ("quentin", "The password of the boat house is under the third stone."),
        ("anna", "Thank you, I will go there tomorrow."),
    )
    left = without_forgotten(chunks, ledger, "notes", "c/2024")
    assert [chunk.text for chunk in left] == [
        "[12:00] <anna> Where was it again, please?\n[12:02] <anna> Thank you, I will go there tomorrow."
    ]
    assert left[0].author == "anna"


def test_what_is_left_of_a_turn_keeps_its_speaker() -> None:
    ledger = forgetting(
        *chat(("quentin", "The password of the boat house is under the third stone.")), item_key="c/2024"
    )
    chunks = chat(("quentin", "The password of the boat house is under the third stone. See you on Sunday then."))
    left = without_forgotten(chunks, ledger, "notes", "c/2024")
    assert [chunk.text for chunk in left] == ["[12:00] <quentin> See you on Sunday then."]


def test_short_pieces_are_forgotten_in_their_item_alone() -> None:
    one = document("Thank you.\n\nThis was a longer paragraph of the first letter, all in all.")
    ledger = forgetting(*one)
    assert without_forgotten(one, ledger, "notes", "a.md") == []
    other = document("Thank you.\n\nWords that nobody ever asked to forget are in this one.")
    assert without_forgotten(other, ledger, "notes", "b.md") == other
