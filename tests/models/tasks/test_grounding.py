"""A summary names only what its input names, in languages with capitals, with many, and without any."""

from __future__ import annotations

import pytest

from agent.models.answers import Named
from agent.models.builtin.entities import BuiltinExtractor
from agent.models.grounding import Material, invented, locate

ENGLISH = (
    "[1] 2026-03-04 · Ada Moss · “Pump”\nWe met in Bern on Wednesday. kim roe of the Brunnen AG sent the offer over "
    "4,200.50 EUR; the pump costs 12.400 kg of steel. twelve people came. The MX-5 is at Anna's house."
)
GERMAN = (
    "[1] 2026-03-04 · Ada Moss\nWir haben die Pumpe bei der Brunnen AG bestellt. Das Budget ist geplant, und am "
    "12. Mai kommt Herr Müller nach Köln."
)


@pytest.mark.parametrize(
    "summary",
    [
        "Ada Moss met Kim Roe in Bern on 4 March 2026.",
        "Kim Roe's offer is 4200.50 EUR.",
        "The Brunnen AG asks for 4'200.50 EUR.",
        "Two mails: the pump and the offer. However, nothing was decided.",
        "• Offers were sent.\n• Prices were named. Yesterday's meeting was in Bern.",
        "Twelve people came, 12 in all.",
        "ADA MOSS MET KIM ROE.",
        "Anna has the MX-5.",
        "On Wednesday they met. In March the Bern meeting took place.",
        "The steel weighs 12400 kg.",
    ],
)
def test_what_stands_in_the_material_may_be_said_in_other_words(summary: str) -> None:
    assert invented(summary, Material(ENGLISH)) == ""


@pytest.mark.parametrize(
    ("summary", "problem"),
    [
        ("Ada Moss met Zebulon Pike in Bern.", "unknown_name"),
        ("Zebulon Pike met Ada Moss.", "unknown_name"),
        ("Anna met Ada Moss in Paris.", "unknown_name"),
        ("The offer came from Microsoft.", "unknown_name"),
        ("Michael asked for the offer.", "unknown_name"),
        ("They met on 5 March 2026.", "unknown_number"),
        ("They met in 2027.", "unknown_number"),
        ("The offer is 4,300.50 EUR.", "unknown_number"),
        ("The pump costs 42 EUR.", "unknown_number"),
        ("The pump costs 7 EUR.", "unknown_number"),
        ("See 2026-03-05.", "unknown_number"),
        ("Forty people came, 40 in all.", "unknown_number"),
    ],
)
def test_inventions_are_told_by_their_rule(summary: str, problem: str) -> None:
    assert invented(summary, Material(ENGLISH)) == problem


@pytest.mark.parametrize(
    "summary",
    [
        "Die Bestellung der Pumpe ging an die Brunnen AG. Die Planung steht, und es gibt ein Pumpenbudget.",
        "Bei der Besprechung wurde eine Entscheidung über die Anschaffung getroffen.",
        "Müllers Ankunft in Köln ist am 12. Mai; er wird von der Mannschaft nicht erwartet.",
    ],
)
def test_german_nouns_are_no_names(summary: str) -> None:
    assert invented(summary, Material(GERMAN)) == ""


@pytest.mark.parametrize(
    "summary",
    [
        "Die Pumpe wurde mit Zebulon Pikowski besprochen und bestellt.",
        "Die Bestellung ging nach Hamburg, und das ist nicht geplant.",
        "Herr Schneider kommt am 12. Mai und ist mit der Pumpe nicht zufrieden.",
        "Die Pumpe ist von Sabine bestellt und nicht von der Firma.",
    ],
)
def test_german_inventions_are_found_all_the_same(summary: str) -> None:
    assert invented(summary, Material(GERMAN)) == "unknown_name"


def test_scripts_without_capitals() -> None:
    chinese = "王伟先生和李娜在北京开会，讨论了4200元的预算。"
    assert invented("王伟先生和李娜讨论了预算，金额是4200元。", Material(chinese)) == ""
    assert invented("张伟先生和李娜讨论了预算。", Material(chinese)) == "unknown_name"
    assert invented("预算是9300元。", Material(chinese)) == "unknown_number"
    assert invented("他们用Kubernetes讨论了预算。", Material(chinese)) == "unknown_name"
    japanese = "田中さんは東京でポンプを注文しました。"
    assert invented("田中さんがポンプを注文した。", Material(japanese)) == ""
    arabic = "اجتمعنا أمس وناقشنا الميزانية وقررنا شراء المضخة"
    assert invented("ناقشنا الميزانية وقررنا شراء المضخة", Material(arabic)) == ""


def test_names_that_a_language_inflects() -> None:
    russian = "Анна встретила Бориса в Москве и заказала насос."
    assert invented("Насос заказан Анной в Москве.", Material(russian)) == ""
    assert invented("Насос заказан для Владимира.", Material(russian)) == "unknown_name"


def test_material_without_capitals_names_people_too() -> None:
    assert invented("Yesterday Anna told Kim about it.", Material("anna told kim about it yesterday")) == ""


def test_diacritics_count_and_their_encoding_does_not() -> None:
    material = Material("Jürgen Vögele spoke to us about the pump.")
    assert invented("We heard Ju\u0308rgen Vögele.", material) == ""
    assert invented("We heard Jurgen Vogele.", material) == "unknown_name"


# Entities.


def located(text: str, *named: tuple[str, str]) -> tuple[list[tuple[str, str, str]], str]:
    safe = [each for each in BuiltinExtractor().extract(text).entities if each.kind in ("email", "date", "url")]
    found = locate([Named(*each) for each in named], text, safe)
    return [(each.kind, each.name, each.surface) for each in found.entities], found.problem


def test_an_entity_is_shown_as_it_stands_in_the_text_and_counted() -> None:
    text = "ANNA  Moss met Bob. Anna\nMoss left; Annas car too."
    found = locate([Named("person", "anna moss"), Named("person", "Bob")], text, [])
    assert [(each.name, each.surface, each.start, each.mentions) for each in found.entities] == [
        ("anna moss", "ANNA  Moss", 0, 2),
        ("bob", "Bob", 15, 1),
    ]


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("Müller", True),
        ("müller", True),
        ("Muller", False),
        ("Mül", False),
        ("ller", False),
        ("北京大学", True),
        ("AG", True),
        ("", False),
        ("...", False),
        (".*", False),
    ],
)
def test_only_what_stands_there_counts(name: str, is_there: bool) -> None:
    found, problem = located("Herr Müller der Brunnen AG war an der 北京大学.", ("person", name))
    assert bool(found) is is_there
    assert problem == ("" if is_there else "not_in_text")


def test_a_name_that_is_only_part_of_an_address_is_none() -> None:
    found, problem = located("write to anna@boats.example", ("person", "Anna"))
    assert (found, problem) == ([], "")


def test_half_of_the_names_may_be_wrong_and_more_may_not() -> None:
    assert located("Anna met Bob.", ("person", "Anna"), ("person", "Xaver")) == ([("person", "anna", "Anna")], "")
    assert located("Anna met Bob.", ("person", "Anna"), ("person", "X1"), ("person", "X2"))[1] == "not_in_text"
    assert located("Anna met Bob.", ("alien", "Anna"), ("alien", "Bob"), ("person", "Bob"))[1] == "kind"


def test_kinds_that_rules_find_better_are_left_to_them() -> None:
    assert located("Anna, 4 May 2026", ("date", "4 May"), ("person", "Anna")) == ([("person", "anna", "Anna")], "")
