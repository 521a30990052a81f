"""A mailbox in several exports that overlap: threads, replies that quote, charsets, encodings, HTML."""

from __future__ import annotations

import base64
import math
import quopri
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from tests.generated.words import (
    CHINESE,
    ENGLISH,
    FRENCH,
    GERMAN,
    JAPANESE,
    RUSSIAN,
    Language,
    language_of,
    made_up,
    paragraph,
)

_CHARSETS = {
    ENGLISH.name: ("us-ascii", "utf-8"),
    GERMAN.name: ("utf-8", "iso-8859-1", "windows-1252"),
    FRENCH.name: ("utf-8", "iso-8859-15"),
    RUSSIAN.name: ("utf-8", "koi8-r", "windows-1251"),
    CHINESE.name: ("utf-8", "gb2312"),
    JAPANESE.name: ("utf-8", "iso-2022-jp"),
}
_MEDIAN_SENTENCES = 7
_MOST_SENTENCES = 120
_FIRST = datetime(2014, 3, 3, 8, 0, tzinfo=UTC)
_OVERLAP = 0.08
_PEOPLE = 60


@dataclass(frozen=True)
class Mail:
    """One mail: its id, the bytes of the message, and the text that its author wrote."""

    message_id: str
    raw: bytes
    words: str
    sent: datetime


@dataclass
class _Thread:
    language: Language
    subject: str
    ids: list[str]
    said: list[tuple[str, str]]


def mails(count: int, seed: int = 1) -> Iterator[Mail]:
    """Yield ``count`` mails in order of time, about two in three of them replies."""
    choose = random.Random(f"mail:{seed}")
    threads: list[_Thread] = []
    sent = _FIRST
    for number in range(count):
        sent += timedelta(minutes=choose.expovariate(1 / 160))
        if threads and choose.random() < 0.66:
            thread = threads[-1 - min(len(threads) - 1, int(choose.expovariate(0.15)))]
        else:
            language = language_of(choose)
            thread = _Thread(language, f"{made_up(choose.randrange(4096))} {number}".capitalize(), [], [])
            threads = [*threads[-40:], thread]
        yield _mail(choose, thread, number, seed, sent)


def write_exports(folder: Path, count: int, seed: int = 1, exports: int = 3) -> list[Path]:
    """Write the mailbox as ``exports`` files, each beginning with the end of the one before; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = list(mails(count, seed))
    paths = []
    size = math.ceil(count / exports)
    for number in range(exports):
        begin = max(0, number * size - int(size * _OVERLAP))
        path = folder / f"export-{number + 1}.mbox"
        path.write_bytes(b"".join(as_mbox(mail) for mail in everything[begin : (number + 1) * size]))
        paths.append(path)
    return paths


def as_mbox(mail: Mail) -> bytes:
    """Return a mail as it stands in a mailbox: a From line before, an empty line behind, its own From lines quoted."""
    lines = mail.raw.split(b"\n")
    body = b"\n".join(b">" + line if line.lstrip(b">").startswith(b"From ") else line for line in lines)
    return b"From sender@club.example " + f"{mail.sent:%a %b %d %H:%M:%S %Y}".encode() + b"\n" + body + b"\n\n"


def _mail(choose: random.Random, thread: _Thread, number: int, seed: int, sent: datetime) -> Mail:
    person = choose.randrange(_PEOPLE)
    name, address = f"{made_up(person * 7).capitalize()} {made_up(person * 31).capitalize()}", f"p{person}@club.example"
    message_id = f"<{seed}.{number}@club.example>"
    sentences = min(_MOST_SENTENCES, max(1, round(choose.lognormvariate(math.log(_MEDIAN_SENTENCES), 0.8))))
    said = []
    while sentences > 0:
        size = min(sentences, choose.randint(1, 5))
        said.append(paragraph(choose, thread.language, size))
        sentences -= size
    words = "\n\n".join(said)
    text = words
    head = [f"From: {name} <{address}>", f"To: club@club.example, p{choose.randrange(_PEOPLE)}@club.example"]
    if thread.ids:
        head += [f"Subject: Re: {thread.subject}", f"In-Reply-To: {thread.ids[-1]}"]
        head.append("References: " + "\n ".join(thread.ids[-8:]))
        text += _quoted(choose, *thread.said[-1])
    else:
        head.append(f"Subject: {thread.subject}")
    if choose.random() < 0.5:
        text += f"\n\n-- \n{name}\nThe Garden Club\n"
    head += [f"Date: {format_datetime(sent)}", f"Message-ID: {message_id}", "MIME-Version: 1.0"]
    charset = choose.choice(_CHARSETS[thread.language.name])
    thread.ids.append(message_id)
    thread.said.append((name, words))
    raw = "\n".join(head).encode() + b"\n" + _body(choose, text, charset)
    return Mail(message_id, raw, words, sent)


def _quoted(choose: random.Random, name: str, words: str) -> str:
    lines = [line for line in words.split("\n") if line][: choose.randint(1, 6)]
    return f"\n\n{name} wrote:\n" + "\n".join(f"> {line}" for line in lines) + "\n"


def _body(choose: random.Random, text: str, charset: str) -> bytes:
    kind = choose.random()
    if kind < 0.08:
        html = f"<html><body><p>{text.replace('&', '&amp;').replace('>', '&gt;')}</p></body></html>"
        return _part(choose, html, charset, "text/html")
    if kind < 0.2:
        html = f"<p>{text.replace('&', '&amp;').replace('>', '&gt;')}</p>"
        edge = f"=_{choose.randrange(1 << 40):x}"
        parts = (_part(choose, text, charset, "text/plain"), _part(choose, html, charset, "text/html"))
        joined = b"".join(f"--{edge}\n".encode() + part + b"\n" for part in parts)
        head = f'Content-Type: multipart/alternative; boundary="{edge}"\n\n'
        return head.encode() + joined + f"--{edge}--\n".encode()
    return _part(choose, text, charset, "text/plain")


def _part(choose: random.Random, text: str, charset: str, kind: str) -> bytes:
    if charset == "us-ascii" and not text.isascii():
        charset = "utf-8"
    content = text.encode(charset, "replace")
    if charset in ("us-ascii", "iso-2022-jp"):
        how = "7bit"
    else:
        how = choose.choice(("8bit", "quoted-printable", "base64"))
        if how == "quoted-printable":
            content = quopri.encodestring(content)
        elif how == "base64":
            content = base64.encodebytes(content)
    head = f"Content-Type: {kind}; charset={charset}\nContent-Transfer-Encoding: {how}\n\n"
    return head.encode() + content
