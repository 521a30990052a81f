"""Passwords, tokens and keys that are told from the name they are given to: ``DB_PASSWORD=…``, ``"api_key": "…"``,
``Passwort: …``.

The name says that a secret may follow; the value has to look like one. Prose ("password: ask Marta"), variables
("password = user.password"), placeholders and types are left alone. Only what stands behind a name is looked at, a
bounded number of characters, so a text of nothing but names costs its length. Where one text says a name again and
again, what was found is remembered by all that was looked at: such a text mostly repeats itself.
"""

from __future__ import annotations

import re

from agent.masking.span import Span
from agent.masking.values import Value, is_password, is_token

PASSWORD, SECRET = "password", "secret"

# Name in lower case → whether it is a password (a person's own words may follow in prose) or a machine's secret.
_NAMES: dict[str, bool] = {
    "password": True,
    "passwd": True,
    "passwort": True,
    "passphrase": True,
    "passcode": True,
    "kennwort": True,
    "pwd": True,
    "passw": True,
    "db_pass": True,
    "smtp_pass": True,
    "mot de passe": True,
    "contraseña": True,
    "senha": True,
    "wachtwoord": True,
    "lösenord": True,
    "hasło": True,
    "пароль": True,
    "密码": True,
    "密碼": True,
    "パスワード": True,
    "secret": False,
    "token": False,
    "key": False,
    "credential": False,
}
_SEARCHES = [(name, is_own, "pass" in name, name.isascii()) for name, is_own in _NAMES.items()]
# "key" alone is a word for everything; with one of these before it, it opens something.
_KEYS = re.compile(
    r"(?:api|access|secret|private|encryption|encrypt|signing|sign|account|master|auth|session|storage|shared|"
    r"subscription|service|client|license|licence|deploy|webhook|consumer|app|application|admin|root|ssl|hmac|jwt|"
    r"project|write|read|aes|rsa|data|cookie|flask|django)[_\-. ]?\Z",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"(?:[_\-]?(?:\d{1,3}|prod|production|dev|test|staging|live|main|old|new|value|raw|hash|base64|b64|hex))?"
    r"[*_`\"'\])]{0,5}"
    r"(?P<label>[ \t]\([^()\n]{1,30}\)|[ \t](?:[^\W\d_]{2,12}[ \t]){0,3}[^\W\d_]{2,16})?"
    r"[*_`]{0,3}[ \t]{0,20}(?P<sep>=>|:=|==|[=:：]|\|)(?P<rest>)[*_`]{0,3}[ \t]{0,20}",
    re.IGNORECASE,
)
_TYPED = re.compile(r"[ \t]?:[ \t]?(?:str|string|String|Optional\[str\]|&str|&'static str)[ \t]?=[ \t]?")
_FLAG = re.compile(r"[ \t]{1,4}")
_IS = re.compile(
    r"[ \t]{1,4}(?:(?:is|ist|lautet|war|was|est|es|è|é|to|auf)[ \t]{1,4}|(?=['\"]))[:=]?[ \t]{0,4}", re.IGNORECASE
)
_XML = re.compile(r">([^<>\n]{3,200})</")
_QUOTED = re.compile(
    r"b?(?:\"([^\"\n]{1,400})\"|'([^'\n]{1,400})'|`([^`\n]{1,400})`|„([^“”\n]{1,200})[“”]|“([^”\n]{1,200})”)"
)
_BARE = re.compile(r"(?:(?![&;][A-Za-z#][\w ]{0,30}[=;])[^\s\"'<>`|]){1,160}")
_LOGIN = re.compile(r"\b(?:login|machine)[ \t]+\S{1,100}[ \t\n]+\Z")
# All that is ever looked at around a name, in characters, and then some.
_BEFORE, _AFTER = 128, 640
_MANY = 200  # of one name in a text
_MOST = 500  # looks that are remembered at once
_SSHPASS = re.compile(
    r"(?<!\w)sshpass[ \t]+-p[ \t]*(?:'([^'\n]{3,100})'|\"([^\"\n]{3,100})\"|((?!\[masked)[^\s'\"]{3,100}))"
)


def find_assigned(text: str, lowered: str) -> list[Span]:
    """Return the secrets in a text that a name announces; ``lowered`` is the same text in lower case."""
    if len(lowered) != len(text):
        lowered = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    found: list[Span] = []
    is_ascii = lowered.isascii()
    has_pass = "pass" in lowered
    for name, is_own, in_pass, in_ascii in _SEARCHES:
        if (in_pass and not has_pass) or (is_ascii and not in_ascii):
            continue
        at = lowered.find(name)
        looks = 0
        known: _Known = {}
        while at >= 0:
            end = at + len(name)
            looks += 1
            look = (text, lowered, at, end, is_own, name)
            span = _look(*look) if looks <= _MANY else _look_once(known, *look)
            if span is not None:
                found.append(span)
            at = lowered.find(name, end if span is None else max(end, span.end))
    if "sshpass" in lowered:
        for match in _SSHPASS.finditer(text):
            found.append(Span(*match.span(match.lastindex or 0), PASSWORD))
    return found


_Known = dict[tuple[int, str], "tuple[int, int, str] | None"]
"""What was found, relative to a name, by all that was looked at: where the name stands in that, and its text."""


def _look_once(known: _Known, text: str, lowered: str, at: int, end: int, is_own: bool, name: str) -> Span | None:
    """Look at a name unless the same was looked at in the same surroundings."""
    before = min(at, _BEFORE)
    seen = before, text[at - before : end + _AFTER]
    if seen in known:
        found = known[seen]
        return None if found is None else Span(at + found[0], at + found[1], found[2])
    if len(known) >= _MOST:
        known.clear()
    span = _look(text, lowered, at, end, is_own, name)
    known[seen] = None if span is None else (span.start - at, span.end - at, span.name)
    return span


def _look(text: str, lowered: str, at: int, end: int, is_own: bool, name: str) -> Span | None:
    following = text[end : end + 1]
    if following.isalpha() and name in ("key", "token", "secret", "pwd", "passw"):
        return None
    if name == "key" and _KEYS.search(text, max(0, at - 14), at) is None:
        return None
    if name == "secret" and following in "_-" and lowered.startswith("key", end + 1):
        return None  # the key behind it is looked at by itself
    kind = PASSWORD if is_own else SECRET
    if following == ">":
        xml = _XML.match(text, end)
        if xml is not None and _is_good(is_own, Value(xml[1], quoted=True, assigned=True, alone=True)):
            return Span(*xml.span(1), kind)
    value = _separated(text, at, end, is_own)
    return None if value is None else Span(*value, kind)


def _separated(text: str, at: int, end: int, is_own: bool) -> tuple[int, int] | None:
    behind = _TYPED.match(text, end) or _BEHIND.match(text, end)
    if behind is not None:
        separator = behind.groupdict().get("sep") or "="
        label = bool(behind.groupdict().get("label"))
        if separator == "|" and not _is_cell(text, at):
            return None
        if label and (not is_own or separator == "="):
            return None
        return _value(
            text,
            behind.end(),
            is_own,
            assigned=separator in ("=", ":=", "=>"),
            compared=separator == "==",
            tight=text[end : behind.end()].strip("\"']") == "=",
            strict=label,
            name_starts=_start_of_name(text, at),
        )
    if _is_flag(text, at):
        flag = _FLAG.match(text, end)
        if flag is not None:
            return _value(text, flag.end(), is_own, assigned=True, tight=True, name_starts=at)
    if is_own:
        if _LOGIN.search(text, max(0, at - 120), at) is not None:
            flag = _FLAG.match(text, end)
            if flag is not None:
                return _value(text, flag.end(), is_own, assigned=True, tight=True, name_starts=at)
        said = _IS.match(text, end)
        if said is not None:
            return _value(text, said.end(), is_own, assigned=False, strict=True, name_starts=at)
    return None


def _value(
    text: str,
    begin: int,
    is_own: bool,
    *,
    assigned: bool,
    name_starts: int,
    tight: bool = False,
    compared: bool = False,
    strict: bool = False,
) -> tuple[int, int] | None:
    quoted = _QUOTED.match(text, begin)
    if quoted is not None:
        group = quoted.lastindex or 0
        shown = Value(quoted[group], quoted=True, assigned=assigned, alone=True, strict=strict or compared)
        return quoted.span(group) if _is_good(is_own, shown) else None
    bare = _BARE.match(text, begin)
    if bare is None:
        return None
    stop = bare.end()
    while stop > begin and text[stop - 1] in ",;)]}\\":
        stop -= 1
    if stop == begin:
        return None
    closed = stop < bare.end() and text[stop] in ",)"
    line_end = text.find("\n", bare.end(), bare.end() + 80)
    rest = text[bare.end() : line_end if line_end >= 0 else bare.end() + 80].strip()
    shown = Value(
        text[begin:stop],
        quoted=False,
        assigned=assigned,
        alone=(not rest or rest.startswith(("#", "//", "&&", "|"))) and not closed,
        tight=tight and not closed and name_starts >= 0,
        strict=strict or compared or text[stop : stop + 1] in ("(", "["),
    )
    return (begin, stop) if _is_good(is_own, shown) else None


def _is_good(is_own: bool, value: Value) -> bool:
    return is_password(value) if is_own else is_token(value)


def _is_flag(text: str, at: int) -> bool:
    begin = at
    while begin and at - begin < 24 and (text[begin - 1].isalnum() or text[begin - 1] in "-_"):
        begin -= 1
    return text.startswith("--", begin)


def _is_cell(text: str, at: int) -> bool:
    before = text[max(0, at - 40) : at]
    return before.rpartition("\n")[2].lstrip().startswith("|")


def _start_of_name(text: str, at: int) -> int:
    """Return where the name begins that ends in the word at ``at``, if its line begins with it, else −1."""
    begin = at
    while begin and at - begin < 60 and (text[begin - 1].isalnum() or text[begin - 1] in "_-."):
        begin -= 1
    before = text[max(0, begin - 24) : begin].rpartition("\n")[2].strip(" \t>;-?&\"'`")
    return begin if before in ("", "export", "set", "ENV", "ARG", "$", "env", "setx", "e", "docker run -e") else -1
