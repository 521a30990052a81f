"""Bytes to text, whatever they say they are.

The ladder: what was declared, under the names it goes by; UTF-8; what ``charset-normalizer`` finds; Windows-1252 with
replacements. Nothing here raises on content.
"""

from __future__ import annotations

import codecs
import re

_ALIASES = {
    "utf8": "utf-8",
    "utf-8-sig": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
    "us-ascii": "ascii",
    "ansi_x3.4-1968": "ascii",
    "ansi_x3.110-1983": "cp1252",
    "ascii": "ascii",
    "7bit": "ascii",
    "8bit": "",
    "unknown": "",
    "x-unknown": "",
    "unknown-8bit": "",
    "x-user-defined": "",
    "default": "",
    "default_charset": "",
    # What declares the smaller set usually holds the larger one (the WHATWG encoding standard's labels).
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "big5": "cp950",
    "big5-hkscs": "big5hkscs",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601": "cp949",
    "ksc5601": "cp949",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-2022-jp-1": "iso2022_jp_ext",
    "cp-850": "cp850",
    "tis-620": "cp874",
    "x-mac-roman": "mac-roman",
    "macintosh": "mac-roman",
    "utf-7": "",  # browsers dropped it, and stray pluses and minuses are more likely than honest UTF-7
}
_SINGLE_BYTE_LIAR = frozenset({"ascii", "cp1252", "cp1254", "iso8859-15"})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 64 * 1024
_TOLERATED = 0.02
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_text(data: bytes, declared: str | None = None) -> str:
    """Return bytes as text by the ladder. Never raises; line ends are left as they are."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return clean(data[len(mark) :].decode(name, "replace"))
    codec = known_codec(declared)
    if codec is not None and codec not in _SINGLE_BYTE_LIAR:
        found = _strict(data, codec)
        if found is not None:
            return clean(found)
    # Bytes that are valid UTF-8 beyond ASCII are UTF-8 even where Latin-1 was declared: the chance of the opposite is
    # nil, and Latin-1 accepts everything.
    found = _strict(data, "utf-8")
    if found is not None:
        return clean(found)
    if codec is not None:
        lenient = data.decode(codec, "replace")
        if codec in _SINGLE_BYTE_LIAR:
            if codec != "ascii" and "\ufffd" not in lenient:
                return clean(lenient)
        elif _mostly_right(lenient):
            return clean(lenient)
    return clean(_guess(data))


def decode_file(data: bytes) -> str | None:
    """Return a file's bytes as text, or ``None`` where they are no text (NUL bytes without a byte order mark)."""
    if any(data.startswith(mark) for mark, _ in _BOMS):
        return decode_text(data)
    if b"\0" in data:
        return None
    return decode_text(data)


def known_codec(declared: str | None) -> str | None:
    """Return the codec for a declared charset, or ``None`` where it names none that exists."""
    if not declared:
        return None
    name = declared.strip().strip("\"'").strip().lower()
    name = _ALIASES.get(name, name)
    if not name:
        return None
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    # Python also registers codecs that are no charsets (rot13, hex, zip): a mail must not reach them.
    return info.name if getattr(info, "_is_text_encoding", True) else None


def clean(text: str) -> str:
    """Return text that can be stored: no NUL, no lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "")
    if not text.isascii() and _SURROGATE.search(text) is not None:
        text = _SURROGATE.sub("\ufffd", text)
    return text


def normalise_line_ends(text: str) -> str:
    """Return the text with every line end as one newline."""
    if "\r" in text:
        return text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _mostly_right(lenient: str) -> bool:
    """Whether a few bytes are broken, or the charset is another one: then what is not ASCII is broken throughout."""
    broken = lenient.count("\ufffd")
    foreign = sum(letter > "\x7f" for letter in lenient) - broken
    return broken <= _TOLERATED * len(lenient) and foreign > broken


def _strict(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except (UnicodeError, ValueError):
        return None


def _guess(data: bytes) -> str:
    from charset_normalizer import from_bytes

    sample = data
    if len(data) > _SAMPLE:
        # The bytes that matter are the ones beyond ASCII; a mail's may all be at its end.
        first = next((at for at, byte in enumerate(data) if byte >= 0x80), 0)
        begin = max(0, min(first - 1024, len(data) - _SAMPLE))
        sample = data[begin : begin + _SAMPLE]
    best = from_bytes(sample).best()
    if best is not None and not best.encoding.startswith(("utf_16", "utf_32")):
        text = data.decode(best.encoding, "replace")
        if text.count("\ufffd") <= _TOLERATED * len(text):
            return text
    return data.decode("cp1252", "replace")
