"""The parts of a text: paragraphs, turns of a chat, items of a list, sentences of Latin and CJK scripts.

Everything returned stands in the text as it is, but for white space: nothing is put together that was not together.
"""

from __future__ import annotations

import re
from itertools import pairwise

PARAGRAPH = re.compile(r"\n[^\S\n]*\n(?:[^\S\n]*\n)*")

# "[10:31] <kestrel> …", "**Ada**: …", "10:31 Ada: …", "<kestrel> …": what stands before a turn of a chat.
TURN = re.compile(
    r"[^\S\n]*(?:\[[^\]\n]{3,40}\][^\S\n]*|\d{1,2}:\d\d(?::\d\d)?(?:[^\S\n]?[AP]M)?[^\S\n]+(?:[-–—][^\S\n]*)?)?"
    r"(?:<(?P<angled>[^<>\s\n][^<>\n]{0,40})>|\*\*(?P<bold>[^*\n]{1,40}?):?\*\*(?:[^\S\n]*\([^)\n]{1,30}\))?:?"
    r"|(?P<plain>[^\W\d_][^\W\n]*(?:[ .'’-]{1,2}[^\W\n]+){0,3})[^\S\n]*:)[^\S\n]+"
)
_TIMED = re.compile(r"[^\S\n]*(?:\[[^\]\n]{3,40}\]|\d{1,2}:\d\d)")

_LINE_START = re.compile(
    r"(?m)^[^\S\n]*(?:[-*+•·–][^\S\n]+|\d{1,3}[.)][^\S\n]+|[#|>]|\.\. |```|~~~|<[^<>\s]|\*\*|\[|\d{1,2}:\d\d)"
)
_ITEM = re.compile(r"[^\S\n]*(?:[-*+•·–]|\d{1,3}[.)])[^\S\n]+(?:\[[ xX]\][^\S\n]+)?")
_QUOTE = re.compile(r"(?:[^\S\n]*>)+[^\S\n]?")
_INDENTED = re.compile(
    r"(?:(?: {4}|\t)(?!\s*(?:[-*+•]|\d{1,3}[.)])\s)[^\n]*(?:\n|\Z))+"
)  # code, in Markdown and in RST
_ADDRESSES = re.compile(r"(?:(?:From|To|Cc|Bcc|Date|Subject|Attachment): [^\n]*(?:\n|\Z))+")
_CLOCK = r"[^\S\n]*(?:\[[^\]\n]{3,40}\][^\S\n]*|\d{1,2}:\d\d(?::\d\d)?[^\S\n]+)?"
_EVENT = re.compile(_CLOCK + r"(?:===|\*\*\*|-!-|-->|<--|--)[^\S\n]")
_ACTION = re.compile(_CLOCK + r"\*[^\S\n]+(?=\S)")
_DIRECTIVE = re.compile(r"\s*\.\. ")
_RULE = re.compile(r"[\W_]*\Z")

_END = re.compile(
    r"(?<=[.!?…])[\"'”’»)\]]{0,2}\s+(?=[\"'“‘«¿¡(\[]{0,2}[^\W_a-zß-öø-ÿ])"
    r"|(?<=[。！？；!?])[”’」』）)]{0,2}(?=[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff“‘「『（])"
)
# A point after these does not end a sentence: titles, "z. B.", initials, ordinals such as "12. März".
_NO_END = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Sra|Srta|St|Jr|vs|Nr|No|Hr|Fr|bzw|ca|etc|approx|Ing|Dipl|Abs|Art|usw|evtl|ggf|inkl"
    r"|Fig|Sec|e\.g|i\.e|z\.[^\S\n]?B|u\.[^\S\n]?a|d\.[^\S\n]?h|p\.[^\S\n]?ej|al|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)"
    r"|\b[A-Za-zÀ-Þ]|(?<![\d.])\d{1,2})\.\Z"
)
_MONTH_NEXT = re.compile(
    r"(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz]|Jahrhundert|Stock|Klasse|Etage)", re.ASCII
)


def turns(paragraph: str) -> list[str] | None:
    """Return the turns, actions and events of a paragraph that is a chat, each with its lines; ``None`` if it is none.

    "Name: …" may be any list of things; without a clock or brackets it is a chat only where somebody speaks again.
    """
    lines = paragraph.split("\n")
    said = [(number, _speaker(line)) for number, line in enumerate(lines) if is_turn(line)]
    if not said:
        return None
    if all(weak for _, (_, _, weak) in said) and (
        len(said) < 3 or len({name for _, (name, _, _) in said}) == len(said)
    ):
        return None
    starts = [number for number, line in enumerate(lines) if is_turn(line) or _EVENT.match(line) or _ACTION.match(line)]
    if 2 * len(starts) < len(lines):
        return None
    bounds = [0, *(start for start in starts if start), len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(bounds)]


def is_turn(line: str) -> bool:
    """Return whether a line begins like a turn of a chat."""
    return TURN.match(line) is not None


def _speaker(line: str) -> tuple[str | None, str, bool]:
    found = TURN.match(line)
    if found is None:
        return None, line, True
    name = found["angled"] or found["bold"] or found["plain"]
    weak = found["plain"] is not None and _TIMED.match(line) is None
    return name.strip(), line[found.end() :], weak


def speaker(turn: str) -> tuple[str | None, str]:
    """Return who speaks in a turn and what is said; ``None`` where the line does not say."""
    name, said, _ = _speaker(turn)
    return name, said


def sentences(prose: str) -> list[str]:
    """Return the sentences of one run of prose, white space collapsed, in order, none left out."""
    prose = " ".join(prose.split())
    found: list[str] = []
    start = 0
    for end in _END.finditer(prose):
        before = prose[start : end.start()]
        if before.endswith(".") and _NO_END.search(before[-12:]) is not None:
            ordinal = before[-2:-1].isdigit()
            if not ordinal or _MONTH_NEXT.match(prose, end.end()) is not None:
                continue
        cut = end.end()
        found.append(prose[start:cut].rstrip())
        start = cut
    if start < len(prose):
        found.append(prose[start:])
    return found


def blocks(text: str) -> list[tuple[str | None, str]]:
    """Return a text's runs of prose in order, each with its speaker, if it has one.

    A run is a paragraph, an item of a list, a turn of a chat, a row of a table. Headings, code with its fences, quoted
    mail, directives and rulers are left out: they are context, not statements.
    """
    runs: list[tuple[str | None, str]] = []
    fenced = ""
    for paragraph in PARAGRAPH.split(text):
        if not fenced and (_INDENTED.fullmatch(paragraph) or _ADDRESSES.fullmatch(paragraph)):
            continue
        if not fenced and _LINE_START.search(paragraph) is None:
            said = turns(paragraph) if ":" in paragraph else None
            if said is None:
                runs.append((None, paragraph))
            else:
                runs += [speaker(turn) for turn in said]
            continue
        fenced = _lines(paragraph, fenced, runs)
    return [(who, run) for who, run in runs if run and not run.isspace()]


def _lines(paragraph: str, fenced: str, runs: list[tuple[str | None, str]]) -> str:
    """Add the runs of a paragraph whose lines matter; return the fence that is still open after it, if one is."""
    prose: list[str] = []
    who: str | None = None

    def close() -> None:
        if prose:
            runs.append((who, "\n".join(prose)))
            prose.clear()

    said = turns(paragraph) is not None
    for line in paragraph.split("\n"):
        mark = line.lstrip()[:3]
        if fenced:
            if mark == fenced:
                fenced = ""
            continue
        if mark in ("```", "~~~"):
            close()
            fenced = mark
        elif (
            (mark.startswith("#") and mark.strip("#") in ("", " "))
            or _RULE.match(line)
            or _QUOTE.match(line)
            or _DIRECTIVE.match(line)
        ):
            close()
        elif said and is_turn(line):
            close()
            who, rest = speaker(line)
            prose.append(rest)
        elif said and _EVENT.match(line):
            close()
            who = None
        elif said and (action := _ACTION.match(line)):
            close()
            who = None  # "* kim waves" says itself who it is; it is not what the one before said
            prose.append(line[action.end() :])
        elif item := _ITEM.match(line):
            close()
            who = who if said else None
            prose.append(line[item.end() :])
        elif mark.startswith("|"):
            close()
            runs.append((None, " ".join(line.strip().strip("|").split("|"))))
        else:
            prose.append(line)
    close()
    return fenced
