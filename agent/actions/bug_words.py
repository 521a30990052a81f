"""The words that a bug report may say: those of the program itself and of the system below it.

Content is kept out of logs by those who write them. This is the net under that: whatever is put into a report and is
not made of the program's own words, was somebody's name, a path, or what they wrote. Words are taken from the constants
of the code, so a message that is written tomorrow needs no list to be kept. Rooms that hold words of languages (names,
months, what mail programs write) lend none.
"""

from __future__ import annotations

import builtins
import errno
import functools
import os
import pkgutil
import re
import signal
import types
from collections.abc import Iterable, Iterator
from http import HTTPStatus

MESSAGE_CHARS = 600
_WITHOUT = (
    "agent.models.builtin",
    "agent.models.language",
    "agent.models.grounding",
    "agent.masking",
    "agent.ingest.readers",
    "agent.ingest.html",
    "agent.ingest.charsets",
    "agent.ingest.front_matter",
    "agent.ingest.mail",
    "agent.actions.samples",
    "agent.actions.demo",
    "agent.actions.trying",
    "agent.actions.settings",
    "agent.cli",
    "agent.gateway.mcp.guide",
)
# What Python, SQLite, sockets and libraries say in faults that matter here, and the names of what we run on. They are
# no list to be complete: what is missing is masked, which costs a word of a report.
_SAID_BY_PYTHON = """
Fatal Python error Segmentation fault Aborted Bus error Illegal instruction Floating point exception Thread Current
thread most recent call first Stack no Python frame Extension modules total Garbage collecting File line in module
lambda listcomp genexpr Windows fatal access violation code stack overflow main MainThread caused by Traceback last
argument arguments required positional keyword missing unexpected given takes object attribute has not subscriptable
callable iterable index out of range invalid literal for int with base could convert string to float division zero
maximum recursion depth exceeded cannot allocate memory codec decode encode byte position start continuation ordinal
surrogate allowed expecting value delimiter property name double quotes extra data column char unterminated
dictionary changed size during iteration deque empty pop list tuple dict str bytes bool None True False NoneType
import partially initialized circular module named package DLL load failed while importing shared library symbol
asyncio coroutine was never awaited retrieved Task exception Future Executing took seconds Exception callback
pending destroyed Unclosed transport loop closed slow selector
"""
_SAID_BY_SQLITE = """
database or disk is full disk image is malformed file is not a database locked table schema has changed disk I/O error
unable to open attempt to write a readonly query aborted interrupted constraint failed UNIQUE NOT NULL FOREIGN KEY
CHECK no such column near syntax error out of memory bad parameter other API misuse authorization denied
BusyError LockedError CorruptError NotADBError FullError IOError CantOpenError ReadOnlyError ConstraintError
InterruptError SQLError SchemaChangeError ThreadingViolationError row missing from index wrong of entries
Tree page cell pages never used invalid number freelist rowid order btree initPage returns overflow
"""
_SAID_BY_NETWORKS = """
Connection refused reset by peer timed out timeout broken pipe host unreachable network is down Name or service not
known Temporary failure in name resolution getaddrinfo certificate verify failed self signed issuer expired hostname
mismatch SSL TLS handshake protocol wrong version EOF occurred violation ConnectError ConnectTimeout ReadTimeout
WriteTimeout PoolTimeout ReadError WriteError RemoteProtocolError LocalProtocolError ProxyError HTTPStatusError
TransportError RequestError APIError APIConnectionError APITimeoutError APIStatusError AuthenticationError
BadRequestError RateLimitError NotFoundError PermissionDeniedError InternalServerError OverloadedError ResponseError
invalid_request_error authentication_error permission_error not_found_error rate_limit_error api_error overloaded_error
insufficient_quota context_length_exceeded model_not_found pulling try it first server disconnected without sending
response chunked incomplete read body payload proxy redirect DBusError AuthError InvalidAddressError ServiceUnknown
NoReply AccessDenied StatusNotifierItem StatusNotifierWatcher appindicator dbusmenu org freedesktop DBus kde
"""
_NAMES = """
Linux Windows Darwin macOS FreeBSD debian ubuntu fedora arch manjaro opensuse suse mint pop nixos gentoo alpine rhel
centos rocky alma kali raspbian elementary zorin endeavouros GNOME KDE Plasma XFCE Cinnamon MATE LXQt LXDE Unity
Budgie Pantheon sway hyprland i3 awesome Deepin COSMIC Enlightenment X11 wayland tty mir x86 amd64 arm64 aarch64 i686
generic lowlatency server cloud azure aws gcp rt lts zen hardened WSL microsoft standard CPython PyPy ext2 ext3 ext4
btrfs xfs zfs ntfs apfs hfs vfat exfat tmpfs overlay f2fs fuseblk nfs cifs
llama qwen mistral mixtral gemma phi gpt claude deepseek smollm nomic mxbai bge embed embedding text codestral devstral
command granite falcon vicuna tinyllama openchat starcoder yi minicpm olmo solar gemini grok kimi glm haiku sonnet opus
mini nano turbo small medium large base instruct chat latest code coder vision preview thinking reasoning flash pro max
distill it oss minilm arctic snowflake jina e5 gte ada davinci
httpx httpcore uvicorn starlette mcp apsw filelock watchfiles keyring msgspec tomlkit numpy pillow pystray psutil click
rich selectolax pathspec pydantic openai anthropic ollama regex jinja2 platformdirs dbus fast charset normalizer
google groq openrouter huggingface together fireworks perplexity cohere deepinfra cerebras nvidia scaleway azure
"""

_WORD = re.compile(r"[A-Za-z]{2,}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# "12ms", "4b", "q4", "v2", "x86": a figure with its unit, or a short name with its number.
_FIGURE = re.compile(r"\d{1,6}(?:ms|s|m|h|d|b|k|kb|mb|gb|kib|mib|gib|x|px|min|st|nd|rd|th)|[a-z]\d{1,4}", re.I)


@functools.cache
def words() -> frozenset[str]:
    """Return the words, in lower case. Takes half a second the first time."""
    found: set[str] = set()
    for text in _texts():
        found.update(word.lower() for word in _WORD.findall(text))
    return frozenset(found)


def is_word(run: str) -> bool:
    """Return whether a run of letters, digits and underscores is the program's own."""
    known = words()
    for part in run.split("_"):
        if not part or part.lower() in known or (len(part) == 1 and part.isascii()):
            continue
        if not part.isascii():
            return False
        if part.isdigit():
            if len(part) > 6:
                return False
            continue
        if _FIGURE.fullmatch(part):
            continue
        pieces = _PART.findall(part)
        if len(pieces) < 2 or "".join(pieces) != part or not all(_is_piece(piece, known) for piece in pieces):
            return False
    return True


def _is_piece(piece: str, known: frozenset[str]) -> bool:
    if piece.isdigit():
        return len(piece) <= 4
    return len(piece) > 2 and piece.lower() in known


def _texts() -> Iterator[str]:
    yield from (_SAID_BY_PYTHON, _SAID_BY_SQLITE, _SAID_BY_NETWORKS, _NAMES)
    yield from (os.strerror(number) for number in errno.errorcode)
    yield from errno.errorcode.values()
    yield from (status.phrase for status in HTTPStatus)
    yield from (name.name for name in signal.Signals)
    yield from dir(builtins)
    for code in _modules():
        yield code.co_filename.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
        yield from _of(code)


def _modules() -> Iterator[types.CodeType]:
    import agent

    for found in pkgutil.walk_packages(agent.__path__, "agent.", onerror=_pass_over):
        if found.name.startswith(_WITHOUT):
            continue
        # By the loader, so that it works in a frozen build, where there are no sources.
        spec = found.module_finder.find_spec(found.name, None)
        get_code = getattr(spec.loader if spec is not None else None, "get_code", None)
        code = get_code(found.name) if get_code is not None else None
        if isinstance(code, types.CodeType):
            yield code


def _pass_over(_name: str) -> None:
    """A part that this system lacks lends no words."""


def _of(code: types.CodeType) -> Iterator[str]:
    """Yield names and constants of a code object and those within, but what it says of itself in its docstring."""
    yield code.co_name
    yield from code.co_names
    document = code.co_consts[0] if code.co_consts and isinstance(code.co_consts[0], str) else None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _of(constant)
        elif constant is not document:
            yield from _strings(constant)


def _strings(constant: object) -> Iterable[str]:
    if isinstance(constant, str):
        # What is longer is no message: a prompt, a page, a table of the database.
        if len(constant) <= MESSAGE_CHARS:
            yield constant
    elif isinstance(constant, (tuple, frozenset)):
        for each in constant:
            yield from _strings(each)
