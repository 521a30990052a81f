"""What a sentence does: decide, promise, set a date, give a reason, or only greet (English, German, Spanish, Chinese).

Words are compared as a set with the words of a text, which costs the same however many there are; phrases are looked
for one by one.
"""

from __future__ import annotations

import re

from agent.models.builtin.rules.words import listed


class Cue:
    """Words, phrases of several words, and Chinese words, all lower-case: any of them is enough."""

    def __init__(self, words: frozenset[str], phrases: tuple[str, ...], unspaced: tuple[str, ...]) -> None:
        self._words = words
        self._phrases = phrases
        self._unspaced = unspaced
        # A phrase is looked for only in a text that has its first word.
        self._heads = frozenset(re.split(r"\W+", phrase.strip(), maxsplit=1)[0] for phrase in phrases)

    def is_in(self, words: frozenset[str], lowered: str) -> bool:
        """Return whether a text has it, given the set of its words and the text in lower case."""
        if not self._words.isdisjoint(words):
            return True
        if not self._heads.isdisjoint(words) and any(phrase in lowered for phrase in self._phrases):
            return True
        return not lowered.isascii() and any(word in lowered for word in self._unspaced)


DECISION = Cue(
    listed("""
decide decided decides decision decisions agree agreed agreement approve approved approval reject rejected
rejects cancel canceled cancelled cancels signed chose chosen choose confirmed confirms resolved voted
postponed concluded conclusion beschlossen beschluss beschließen entschieden entscheidung entscheidet
vereinbart vereinbarung genehmigt abgelehnt gekündigt kündigen unterschrieben bestätigt verschoben decidido
decidimos decidió decidieron decisión acordado acordamos acordaron acuerdo aprobado aprobó aprobaron rechazado
rechazó cancelado canceló cancelar firmado firmó firmaron confirmado confirmó aplazado aplazada
"""),
    ("settled on", "go with", "going with", "went with"),
    ("决定", "同意", "批准", "通过了", "否决", "取消", "签署", "签字", "确认", "推迟", "选择了", "达成"),
)
COMMITMENT = Cue(
    listed("""
promise promised promises responsible todo übernimmt übernehme übernehmen muss müssen bitte versprochen
encargo encarga encargará tenemos debemos preparará enviaré prometió
"""),
    (
        "i'll ", "i’ll ", "we'll ", "we’ll ", " i will ", "we will ", "he will ", "she will ", "they will ",
        "takes over", "took over", "action item", "remember to", "don't forget", "please send", "please review",
        "please check", "please pay", "please bring", "please call", "please sign", "please confirm", "please reply",
        "need to ", "have to ", "hay que", "por favor",
    ),
    ("负责", "保证", "必须", "需要", "请把", "请将", "记得", "务必", "会尽快"),
)  # fmt: skip
DEADLINE = Cue(
    listed("""
deadline due until expires expire expired frist fällig spätestens
gültig plazo vence
"""),
    (
        "by monday", "by tuesday", "by wednesday", "by thursday", "by friday", "by the end", "no later than",
        "bis zum ", "läuft ab", "fecha límite", "antes del", "a más tardar",
    ),
    ("截止", "到期", "有效期", "之前", "最晚"),
)  # fmt: skip
CAUSE = Cue(
    listed("""
because therefore caused reason fixed fixes solved solution works never always important urgent warning result
results shows weil deshalb grund ursache gelöst lösung wichtig dringend ergebnis funktioniert porque causa
solución resuelto importante urgente resultado
"""),
    ("turned out", "note that", "found that", "only if", "por eso"),
    ("因为", "所以", "原因", "解决", "重要", "紧急", "结果", "修复"),
)
CHATTER = re.compile(
    r"[^\w]*(?:hi|hey|hello|hallo|hola|moin|thanks?|thank you|thx|danke|gracias|lol|haha\w*|ok(?:ay)?|yes|yeah|yep|no"
    r"|nope|sure|great|nice|cool|wow|hmm+|well|bye"
    r"|cheers|regards|best|kind regards|good (?:morning|night|evening|idea|luck)"
    r"|see you|sorry|same here|me too|no idea|i (?:guess|think so|know)|how are you|what's up|happy birthday|congrat\w*"
    r"|guten (?:tag|morgen|abend)|liebe grüße|mit freundlichen grüßen|bis (?:bald|dann|morgen)|gute idee|genau|klar"
    r"|buen[oa]s|un saludo|saludos|vale|claro|hasta (?:luego|mañana))\b"
    r"|(?:谢谢|你好|大家好|好的|哈哈|嗯|再见|辛苦了|早上好|晚安)"
)
"""The beginning of a text that only greets, thanks or nods."""
