"""The words of a sentence that say what it is about, in scripts with and without spaces between words."""

from __future__ import annotations

import re

from agent.models.builtin.rules.words import listed

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
# Python's \w leaves out the vowel signs of Indic scripts, hence the ranges.
_WORD = re.compile(rf"(?:(?![{_UNSPACED}])[^\W_]|[\u0900-\u0dff])+|[{_UNSPACED}]+|[\U00020000-\U0003ffff]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]")
_PLAIN = re.compile(r"[a-z0-9]+")

STOP = listed("""
a about above after again all also am an and any are as at be because been before being below between both but by
can could did do does doing don down during each either else even every few for from further get got had has have
having he her here hers him his how i if in into is it its itself just like ll m me more most much must my no nor
not now of off on once one only or other our ours out over own re same she should so some such t than that the their
theirs them then there these they this those through to too under until up us ve very was we were what when where
which while who whom why will with would yes you your yours s d aber als am an auch auf aus bei beim bin bis da das
dass dein dem den der des die dies diese dieser dir doch dort du durch ein eine einem einen einer eines er es euch
für habe haben hat hatte hier ich ihm ihn ihr im in ist ja kann kein keine man mein mich mir mit muss nach nicht
noch nun nur ob oder sehr sein seine sich sie sind so um und uns unter vom von vor war was weil wenn wer wie wir
wird wo zu zum zur über al algo como con de del desde donde el ella ellos en entre era es esa ese eso esta este esto
está están fue ha han hasta hay la las le les lo los más me mi muy ni nos o para pero por porque que qué quien se
ser si sin sobre son su sus también te tiene tu un una uno y ya yo au aux avec ce ces cette dans des du elle est et
eux il ils je leur lui mais même ne notre nous on ou où par pas plus pour qui sa sans ses sont sur vous été à
""")
"""Words of English, German, Spanish and French that say nothing about what a text is about."""


def words(text: str) -> list[str]:
    """Return the words of a text, lower-cased; runs without spaces as overlapping pairs of characters."""
    lowered = text.lower()
    if lowered.isascii():
        return _PLAIN.findall(lowered)
    found: list[str] = []
    for word in _WORD.findall(lowered):
        if _IS_UNSPACED.match(word):
            found += [word[place : place + 2] for place in range(len(word) - 1)] or [word]
        else:
            found.append(word)
    return found
