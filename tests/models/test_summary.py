from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import pytest

from agent.models.builtin.lines import Origin, header_line, in_periods, read
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryInput, SummaryRequest, SummaryText, budget_tokens
from agent.tokens import count_tokens
from tests.models.planted import corpus

DAY_MS = 86_400_000
MARCH_4 = 1_772_582_400_000  # 2026-03-04T00:00Z

PROSE = (
    "The pump in the north cellar was replaced on Monday. We agreed on 4,200 EUR for the pump, paid by Harrow Ltd. "
    "Thanks for the nice evening. The weather was grey. Somebody forgot an umbrella in the hall, it is blue. "
    "The next inspection is due on 2026-05-04, and Mr. Adeyemi will do it. I like cake, and so does everybody here. "
    "Nothing else happened for the rest of the day. We walked home along the river and talked about old films."
)


def child(text: str, number: int = 0, **more: object) -> SummaryInput:
    known = {"title": "Notes", "author": "Ada Moss", "time_ms": MARCH_4 + number * DAY_MS, **more}
    return SummaryInput(f"n{number}", text, count_tokens(text), **known)  # type: ignore[arg-type]


def summarise(*children: SummaryInput, level: int = 1, kind: str = "source", budget: int | None = None) -> SummaryText:
    size = budget or budget_tokens(sum(each.tokens for each in children))
    return BuiltinSummariser().summarise(SummaryRequest(children, level, kind, size))


def said(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith("—")]


def headers(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("—")]


def climbed(levels: int, seed: int = 5, fanout: int = 4) -> tuple[str, list[SummaryText]]:
    """All the text that went in, and the summaries of the highest level."""
    made = corpus(seed, fanout ** (levels - 1), leaves=5)
    whole = " ".join(each.text for group in made.groups for each in group)
    groups = [tuple(group) for group in made.groups]
    for level in range(1, levels + 1):
        done = [summarise(*group, level=level) for group in groups]
        nodes = [SummaryInput(f"{level}-{n}", each.text, each.tokens, each.title) for n, each in enumerate(done)]
        groups = [tuple(nodes[start : start + fanout]) for start in range(0, len(nodes), fanout)]
    return whole, done


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_no_sentence_is_invented_at_any_level(levels: int) -> None:
    whole, done = climbed(levels)
    whole = " ".join(whole.split())
    for summary in done:
        assert len(said(summary.text)) >= 3
        for sentence in said(summary.text):
            assert sentence in whole, sentence


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_headers_name_only_dates_and_authors_that_were_there(levels: int) -> None:
    made = corpus(5, 4 ** (levels - 1), leaves=5)
    authors = {each.author for group in made.groups for each in group}
    titles = {each.title for group in made.groups for each in group}
    form = re.compile(r"—(?: (\d{4}(?:-\d\d(?:-\d\d)?)?))?(?: ([^“]+?))?(?: “(.*)”)?")
    for summary in climbed(levels)[1]:
        found = [form.fullmatch(line) for line in headers(summary.text)]
        assert found
        for header in found:
            assert header is not None
            assert header[1] is None or header[1].startswith("2026")
            assert header[2] is None or header[2] in authors
            assert header[3] is None or header[3] in titles


def test_headers_do_not_pile_up_on_the_way_up() -> None:
    first = summarise(child(PROSE, 0), child(PROSE.replace("pump", "boiler"), 1))
    again = summarise(SummaryInput("s", first.text, first.tokens, first.title), level=2, budget=400)
    third = summarise(SummaryInput("s", again.text, again.tokens, again.title), level=3, budget=400)
    assert first.text == again.text == third.text


def test_a_sentence_keeps_its_own_day_and_author() -> None:
    one = child("We agreed on 4,200 EUR for the new pump. " + PROSE, 0)
    two = child("Tallow Inc. rejected the offer of 990 USD for the old mill. " + PROSE, 3, author="Tobias Renk")
    summary = summarise(one, two)
    lines = summary.text.split("\n")
    place = next(number for number, line in enumerate(lines) if "990 USD" in line)
    above = [line for line in lines[:place] if line.startswith("—")][-1]
    assert above == "— 2026-03-07 Tobias Renk"
    assert headers(summary.text)[0] == "— 2026-03-04 Ada Moss"


def lines_of(day: str, author: str, *sentences: str) -> str:
    return "\n".join((f"— {day} {author}", *sentences))


def high(*texts: str, level: int = 3, budget: int = 160) -> str:
    nodes = (SummaryInput(f"s{number}", text, count_tokens(text)) for number, text in enumerate(texts))
    return summarise(*nodes, level=level, budget=budget).text


def months(count: int, first_year: int = 2026) -> list[str]:
    return [
        lines_of(
            f"{first_year + n // 12}-{n % 12 + 1:02d}-{day:02d}",
            "Ada Moss",
            f"The {thing} number {n} was sold to Harrow Ltd for {n}{day} EUR in the end.",
            f"I promised to pay the {thing} number {n} until {day} May.",
        )
        for n in range(count)
        for day, thing in ((3, "mill"), (9, "barn"), (21, "ferry"))
    ]


def test_a_high_summary_names_the_period_and_an_author_only_to_those_who_say_i() -> None:
    made = high(*months(4), budget=300).split("\n")
    author = ""
    spoken = set()
    for line in made:
        if line.startswith("—"):
            found = re.fullmatch(r"—(?: (2026-0[1-4]))?(?: (Ada Moss))?", line)
            assert found is not None, line
            author = found[2] or ""
        else:
            assert bool(author) == line.startswith("I "), made
            spoken.add(line.partition(" ")[0])
    assert spoken == {"I", "The"}


def test_what_a_high_summary_leaves_out_of_a_header_stands_one_level_below() -> None:
    below = months(4)
    for line in said(high(*below)):
        assert sum(line in text.split("\n") for text in below) == 1


def periods(text: str) -> set[str]:
    return {word for header in headers(text) for word in header.split() if word[0].isdigit()}


def test_periods_are_as_long_as_the_group_needs_and_are_read_back_above() -> None:
    assert {len(period) for period in periods(high(*months(1), budget=120))} == {10}
    assert {len(period) for period in periods(high(*months(3), budget=120))} == {7}
    years = high(*months(30), budget=200)
    assert {len(period) for period in periods(years)} == {4}
    above = high(years, *months(3, 2029), level=4, budget=200)
    assert periods(above) & {"2026", "2027", "2028"}
    assert "2029" in {period[:4] for period in periods(above)}
    assert all(line.startswith(("I ", "The ")) for line in said(above))


@pytest.mark.parametrize(
    "sentence",
    [
        "fixed the leak in the old roof of the mill",
        "Les enviamos el contrato del molino a Harrow.",
        "Decidimos vender el molino a Harrow en mayo.",
        "Wir haben den Vertrag mit Harrow Ltd unterschrieben.",
        "我们决定与华信科技有限公司签署合同。",
    ],
)
def test_a_sentence_that_may_speak_for_somebody_keeps_its_author_on_every_level(sentence: str) -> None:
    text = lines_of("2026-01-03", "Tobias Renk", sentence, "The mill was sold to Harrow Ltd.")
    found = read(SummaryInput("s", text, count_tokens(text)), 0, 3)
    in_periods(found, 160)
    assert [each.origin.author for each in found] == ["Tobias Renk", None]


def test_an_author_named_like_a_year_is_read_back_as_an_author() -> None:
    origin = Origin("2026-03-04", "2026", None)
    line = header_line(origin, Origin("2026-03-04", "Ada Moss", None), None)
    assert line == "— 2026-03-04 2026"


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_no_name_occurs_that_was_not_in_the_input(levels: int) -> None:
    whole, done = climbed(levels)
    made = corpus(5, 4 ** (levels - 1), leaves=5)
    known = set(re.findall(r"\w+", whole)) | {
        word for group in made.groups for each in group for word in re.findall(r"\w+", f"{each.author} {each.title}")
    }
    for summary in done:
        names = set(re.findall(r"[A-Z]\w+", "\n".join([summary.title or "", summary.text])))
        assert names <= known


@pytest.mark.parametrize("budget", [60, 61, 80, 120, 200, 400])
def test_the_budget_is_kept_and_used(budget: int) -> None:
    summary = summarise(*corpus(8, 1).groups[0], budget=budget)
    assert summary.tokens == count_tokens(summary.text)
    assert 0.75 * budget <= summary.tokens <= budget


def test_an_input_shorter_than_its_budget_passes_through_whole() -> None:
    text = "Small note.\nThe key hangs behind the door; ask Bea."
    summary = summarise(child(text), budget=60)
    assert summary.text == f"— 2026-03-04 Ada Moss\n{text}"
    assert summarise(child(text, author=None, time_ms=None, title=None), budget=count_tokens(text)).text == text


def test_summaries_are_in_order_of_time_and_documents_in_order_of_place() -> None:
    texts = [
        f"We decided to sell the {thing} to Harrow Ltd for {n}00 EUR. " + PROSE
        for n, thing in enumerate(("mill", "barn", "ferry"), 1)
    ]
    late_first = [child(text, 9 - number) for number, text in enumerate(texts)]
    mail = summarise(*late_first)
    assert [header.split()[1] for header in headers(mail.text)] == ["2026-03-11", "2026-03-12", "2026-03-13"]
    document = summarise(*late_first, kind="document")
    assert [header.split()[1] for header in headers(document.text)] == ["2026-03-13", "2026-03-12", "2026-03-11"]


def test_what_was_said_already_is_not_said_again() -> None:
    summary = summarise(
        *(child(f"The committee approved the budget of 9,000 EUR. {PROSE}", n) for n in range(6)), budget=200
    )
    assert len(said(summary.text)) == len(set(said(summary.text)))
    assert summary.text.count("9,000 EUR") == 1


def test_a_footer_of_every_mail_does_not_take_the_place_of_what_they_say() -> None:
    footer = "This message is confidential, was sent by Harrow Ltd on behalf of its 14 branches, and must not be shown."
    facts = [
        f"{name} signs the lease of the {thing}."
        for name, thing in zip(("Bea", "Omar", "Carla", "Yusuf"), ("mill", "barn", "kiln", "ferry"), strict=True)
    ]
    filler = "It rained and it was grey, as so often at this time of the year. We drank tea and said little. "
    summary = summarise(*(child(f"{filler * 3}{fact}\n\n{footer}", n) for n, fact in enumerate(facts)), budget=110)
    assert all(fact in summary.text for fact in facts)


def test_turns_of_a_chat_keep_their_speakers() -> None:
    chat = "\n".join(
        f"[10:{n:02d}] <{nick}> {text}"
        for n, (nick, text) in enumerate(
            [
                ("kestrel", "the backup of the archive failed again on Sunday night"),
                ("juniper", "we decided to move it to 04:30"),
                ("kestrel", "ok"),
                ("juniper", "lol"),
            ]
            * 6
        )
    )
    summary = summarise(child(chat, author=None), budget=60)
    assert "juniper: we decided to move it to 04:30" in said(summary.text)
    assert "kestrel: the backup of the archive failed again on Sunday night" in said(summary.text)


def test_nobody_is_made_to_say_what_another_said() -> None:
    chat = "\n".join(
        ["=== the topic of #archive was set to 40 rules"] * 3
        + [
            "[10:01] <kestrel> the backup of the archive failed again on Sunday night",
            "[10:02] * juniper decided to move the backup of the archive to 04:30",
            *["=== guest17 has joined #archive and agreed to the 12 rules"] * 4,
            "[10:04] <juniper> ok",
        ]
        * 5
    )
    summary = summarise(child(chat, author=None), budget=60)
    assert "juniper decided to move the backup of the archive to 04:30" in said(summary.text)
    assert "guest17" not in summary.text
    assert "topic" not in summary.text
    listed = "Rent: paid until 3 May 2026. The landlord agreed to that.\nRepair: 400 EUR for the roof. Kim decided it."
    assert "Rent: The landlord" not in summarise(child(f"{PROSE}\n\n{listed}"), budget=200).text


def test_addresses_above_a_mail_are_no_statement() -> None:
    text = (
        f"From: Ada Moss <ada@moss.example>\nTo: Tobias Renk <t@renk.example>\n\n{PROSE}\n\nAttachment: plan-2026.pdf"
    )
    summary = summarise(child(text), budget=130)
    assert "moss.example" not in summary.text
    assert "plan-2026" not in summary.text


def test_code_and_quoted_mail_are_no_sentences() -> None:
    code = "```\nassert amount == 4200, 'decided'\n```"
    quoted = "> Anna decided on 12 May 2026 to quote everything."
    text = f"{PROSE}\n\n{code}\n\n{quoted}\n\n    indented = decided(2026)\n"
    summary = summarise(child(text), budget=130)
    assert "assert" not in summary.text
    assert "quote everything" not in summary.text
    assert "indented" not in summary.text


def test_a_text_of_nothing_but_code_is_summarised_all_the_same() -> None:
    code = "```\n" + "\n".join(f"result_{n} = compute(value_{n}, factor={n})" for n in range(60)) + "\n```"
    summary = summarise(child(code), budget=60)
    assert 0 < summary.tokens <= 60
    assert "compute" in summary.text


def test_a_sentence_longer_than_the_budget_is_begun() -> None:
    summary = summarise(child("the " + "very " * 400 + "end"), budget=60)
    assert 0 < summary.tokens <= 60
    assert "very very" in summary.text


def test_chinese_is_cut_into_its_sentences() -> None:
    chatter = (
        "今天天气很好，我们去公园散步吧。大家辛苦了，谢谢你们的帮助。周末没有什么安排，在家看书。明天的事情明天再说吧。"
    )
    fact = "我们决定与华信科技有限公司签署合同，金额为35万元。"
    summary = summarise(child(chatter + fact + chatter.replace("公园", "河边")), budget=60)
    assert fact in said(summary.text)
    assert all(line in chatter + fact + chatter.replace("公园", "河边") for line in said(summary.text))


def test_the_title_is_the_common_one_without_reply_marks_or_the_commonest_ones() -> None:
    same = summarise(
        child(PROSE, title="Re: Budget"), child(PROSE, 1, title="AW: Re: Budget"), child(PROSE, 2, title="Budget")
    )
    assert same.title == "Budget"
    mixed = summarise(child(PROSE, title="Pump"), child(PROSE, 1, title="Roof"), child(PROSE, 2, title="Roof"))
    assert mixed.title == "Roof · Pump"
    assert summarise(child(PROSE, title=None)).title is None
    assert (
        len(summarise(*(child(PROSE, n, title=f"A rather long title, number {n}") for n in range(9))).title or "") <= 80
    )


def test_undated_and_absurd_times_have_no_date() -> None:
    summary = summarise(
        child(PROSE, author=None, time_ms=None), child(PROSE + " More of it.", 1, time_ms=10**18, author=None)
    )
    assert headers(summary.text)[0] == "—"
    assert "undated" not in summary.text


def test_a_group_without_a_word_has_an_empty_summary() -> None:
    assert summarise(child("  \n "), budget=60).tokens <= 1


def test_the_same_group_gives_the_same_bytes_in_every_process(fresh_process: Callable[[str, str], str]) -> None:
    code = """
import hashlib
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryRequest
from tests.models.planted import corpus
texts = [BuiltinSummariser().summarise(SummaryRequest(group, 1, "source", 300)).text for group in corpus(3, 3).groups]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""
    texts = [
        BuiltinSummariser().summarise(SummaryRequest(group, 1, "source", 300)).text for group in corpus(3, 3).groups
    ]
    expected = hashlib.sha256("".join(texts).encode()).hexdigest()
    assert {fresh_process(code, seed).strip() for seed in ("1", "77")} == {expected}
