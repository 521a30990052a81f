"""Which language a text is in, cheaply: by its script, and in Latin script by the small words that every text has.

Good enough to say "Answer in German" in a prompt. Where it is not sure it says nothing, and the prompt says "the
language of the material".
"""

from __future__ import annotations

import re
from collections import Counter

from agent.models.builtin.rules.words import listed

UNSURE = "the language of the material"
_SAMPLE = 4_000  # characters

_SCRIPTS = (
    ("Japanese", re.compile("[\u3040-\u30ff]")),
    ("Korean", re.compile("[\uac00-\ud7af]")),
    ("Chinese", re.compile("[\u3400-\u9fff]")),
    ("Greek", re.compile("[\u0370-\u03ff]")),
    ("Hebrew", re.compile("[\u0590-\u05ff]")),
    ("Thai", re.compile("[\u0e00-\u0e7f]")),
    # Scripts of several languages: known to be no other, and not named.
    ("", re.compile("[\u0400-\u052f\u0600-\u06ff\u0900-\u0dff\u0e80-\u0fff\u1000-\u18af]")),
)
_LATIN = re.compile("[A-Za-zÀ-ɏ]")
_WORD = re.compile(r"[^\W\d_]+")

# Words of each that the others do not have; shared ones ("in", "die", "a", "es", "de") tell nothing.
_SMALL = {
    "English": listed("""
the and of to is was are were that this with have has had not you they from which would will been there their what can
we it for be on as at but if or our my your
"""),
    "German": listed("""
und der das ist nicht mit von für auf dem den ein eine einen sich auch wird wurde sind haben hat wir ich zu zum zur bei
nach noch oder aber wenn als kann im am
"""),
    "Spanish": listed("""
el los las una y que con para por del está este esta pero más muy como su sus al lo son fue han hay ya también nos
"""),
    "French": listed("""
le les des et est dans une pour pas que qui vous nous ce cette avec sur sont mais ou où plus au aux je il elle été
"""),
    "Italian": listed("""
il lo gli della delle dei di e è che per non una sono con più questo questa anche come nel alla ho hai abbiamo
"""),
    "Portuguese": listed("""
o os as uma e é que não com para por do da dos das mais em no na foi são você isso também já ao
"""),
    "Dutch": listed("""
het een en van ik niet dat zijn voor met op aan ook maar bij naar wordt werd hebben heeft wij deze dit nog
"""),
}
_LEAST = 2  # small words
_AHEAD = 1.3  # times as many as in the language that comes next


def language_of(text: str) -> str:
    """Return the English name of the language that a text is in, or "" where that is not sure. Pure."""
    sample = text[:_SAMPLE]
    latin = len(_LATIN.findall(sample))
    for name, letters in _SCRIPTS:
        count = len(letters.findall(sample))
        # An ideograph says about as much as three letters; names and code in Latin letters stand in any text.
        if count * 3 > latin:
            return _east_asian(sample) if name in ("Japanese", "Chinese") else name
    return _latin_language(sample) if latin else ""


def _east_asian(sample: str) -> str:
    kana = len(_SCRIPTS[0][1].findall(sample))
    han = len(_SCRIPTS[2][1].findall(sample))
    return "Japanese" if kana * 10 > han else "Chinese"


def _latin_language(sample: str) -> str:
    words = Counter(_WORD.findall(sample.lower()))
    found = sorted(((sum(words[small] for small in listed_), name) for name, listed_ in _SMALL.items()), reverse=True)
    (most, name), (next_most, _) = found[0], found[1]
    return name if most >= _LEAST and most >= _AHEAD * next_most else ""


def answer_language(text: str) -> str:
    """Return what a prompt says after "Answer in": a language, or that of the material."""
    return language_of(text) or UNSURE
