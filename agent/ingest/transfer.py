"""Content-Transfer-Encoding, undone: tolerant, for what was cut, padded or declared wrongly."""

from __future__ import annotations

import base64
import binascii
import quopri
import re

_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")


def transfer_decode(raw: bytes, encoding: str) -> bytes:
    """Return a body without its transfer encoding; what is no encoding, or is broken, comes back as it is."""
    word = encoding.strip().strip("\"'; ").partition(";")[0].strip().lower().replace("-", "").replace(" ", "")
    if word == "base64":
        return from_base64(raw)
    if word in ("quotedprintable", "qp"):
        try:
            return quopri.decodestring(raw)
        except (ValueError, binascii.Error):
            return raw
    if word in ("xuuencode", "uuencode", "xuue", "uue"):
        return _from_uu(raw)
    return raw


def _from_uu(raw: bytes) -> bytes:
    out = bytearray()
    inside = False
    for line in raw.splitlines():
        if line.startswith(b"begin "):
            inside = True
            continue
        if line.strip() in (b"end", b"`") or not inside:
            continue
        try:
            out += binascii.a2b_uu(line)
        except binascii.Error:
            # A known fault of old encoders: a line longer than it says. Python's own decoder works around it alike.
            length = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                out += binascii.a2b_uu(line[:length])
            except binascii.Error:
                continue
    return bytes(out) if out else raw


def from_base64(data: bytes) -> bytes:
    """Return what base64 stands for, whatever stands between its letters; the input where it is none."""
    packed = _NOT_BASE64.sub(b"", data)
    packed = packed[: len(packed) - 1] if len(packed) % 4 == 1 else packed
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4))
    except (binascii.Error, ValueError):
        return data
