"""Sentences without a meaning in several languages, from small tables and a seeded generator.

Most words come from the tables; each sentence may carry one of some thousand made-up words, commoner and rarer ones
as in real text, so that an index over it grows like a real one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """The parts that sentences of a language are put together from, and what stands between them."""

    name: str
    who: tuple[str, ...]
    does: tuple[str, ...]
    what: tuple[str, ...]
    how: tuple[str, ...]
    between: str = " "
    stop: str = "."


ENGLISH = Language(
    "en",
    ("the gardener", "our neighbour", "the committee", "a visitor", "the baker", "the whole street", "my notebook"),
    ("moved", "painted", "counted", "repaired", "forgot", "measured", "sold", "described", "borrowed", "watered"),
    ("the wooden fence", "three old chairs", "the apple harvest", "a letter about rent", "the rain barrel",
     "the budget for spring", "a recipe for soup", "the timetable", "the broken lamp", "a map of the valley"),
    ("before noon", "with great care", "for the second time", "without asking anybody", "in the cold shed",
     "because of the storm", "as agreed in March", "although nobody had time", "by the river", "on a borrowed bike"),
)  # fmt: skip
GERMAN = Language(
    "de",
    ("der Gärtner", "unsere Nachbarin", "der Ausschuss", "ein Besucher", "die Bäckerei", "das ganze Haus"),
    ("verschob", "strich", "zählte", "reparierte", "vergaß", "verkaufte", "beschrieb", "goss"),
    ("den Holzzaun", "drei alte Stühle", "die Apfelernte", "einen Brief über die Miete", "das Regenfass",
     "den Haushalt für das Frühjahr", "den Fahrplan", "die kaputte Lampe"),
    ("vor dem Mittag", "mit großer Sorgfalt", "zum zweiten Mal", "ohne zu fragen", "im kalten Schuppen",
     "wegen des Sturms", "wie im März vereinbart"),
)  # fmt: skip
FRENCH = Language(
    "fr",
    ("le jardinier", "notre voisine", "le comité", "une visiteuse", "la boulangerie", "toute la rue"),
    ("a déplacé", "a repeint", "a compté", "a réparé", "a oublié", "a vendu", "a décrit"),
    ("la clôture en bois", "trois vieilles chaises", "la récolte de pommes", "une lettre sur le loyer",
     "le budget du printemps", "l'horaire d'été"),
    ("avant midi", "avec beaucoup de soin", "pour la deuxième fois", "sans demander", "à cause de la tempête"),
)  # fmt: skip
RUSSIAN = Language(
    "ru",
    ("садовник", "наша соседка", "комитет", "гость", "пекарня", "вся улица"),
    ("передвинул", "покрасил", "сосчитал", "починил", "забыл", "продал", "описал"),
    ("деревянный забор", "три старых стула", "урожай яблок", "письмо об аренде", "бюджет на весну", "сломанную лампу"),
    ("до полудня", "с большой заботой", "во второй раз", "никого не спросив", "из-за бури"),
)
CHINESE = Language(
    "zh",
    ("园丁", "我们的邻居", "委员会", "一位客人", "面包店"),
    ("搬走了", "重新粉刷了", "清点了", "修好了", "忘记了", "卖掉了"),
    ("木头栅栏", "三把旧椅子", "苹果的收成", "一封关于房租的信", "春天的预算", "坏掉的灯"),
    ("在中午以前", "非常小心地", "第二次", "没有问任何人", "因为暴风雨"),
    between="",
    stop="。",
)
JAPANESE = Language(
    "ja",
    ("庭師は", "隣の人は", "委員会は", "お客さんは", "パン屋は"),
    ("木の柵を", "古い椅子を三つ", "りんごの収穫を", "家賃についての手紙を", "春の予算を"),
    ("正午までに", "とても丁寧に", "もう一度", "誰にも聞かずに", "嵐のために"),
    ("動かした", "塗り直した", "数えた", "直した", "忘れた"),
    between="",
    stop="。",
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, RUSSIAN, CHINESE, JAPANESE)
SHARES = (70, 12, 6, 5, 4, 3)
"""How many of a hundred texts are in each."""

_BEGIN = ("ba", "ke", "lo", "mi", "nu", "pra", "que", "ri", "sta", "tu", "ve", "wol", "ya", "zi", "gra", "fle")
_MIDDLE = ("ra", "le", "mo", "ni", "su", "ter", "vi", "ndo", "ka", "li", "ro", "sha", "to", "be", "mu", "ze")
_END = ("n", "l", "ra", "t", "sk", "m", "do", "nth", "ry", "ve", "x", "lo", "ss", "g", "pel", "wick")


def made_up(number: int) -> str:
    """Return the made-up word of a number; 4,096 of them differ."""
    return _BEGIN[number % 16] + _MIDDLE[number // 16 % 16] + _END[number // 256 % 16]


def rare_word(random: random.Random) -> str:
    """Return a made-up word, low numbers far more often than high ones."""
    return made_up(min(4095, int(random.paretovariate(0.6)) - 1))


def language_of(random: random.Random) -> Language:
    """Return the language of one text."""
    return random.choices(LANGUAGES, SHARES)[0]


def sentence(random: random.Random, language: Language) -> str:
    """Return one sentence, its stop included."""
    parts = [random.choice(language.who), random.choice(language.does), random.choice(language.what)]
    if random.random() < 0.7:
        parts.append(random.choice(language.how))
    said = language.between.join(parts)
    if random.random() < 0.5:
        said += f" {rare_word(random)} {random.randint(2, 999)}"
    return said[0].upper() + said[1:] + language.stop


def paragraph(random: random.Random, language: Language, sentences: int) -> str:
    """Return a paragraph of so many sentences on one line."""
    gap = "" if language.between == "" else " "
    return gap.join(sentence(random, language) for _ in range(sentences))
