"""What a frozen build is made of, as plain lists: the spec (``sapwood.spec``) and the tests both read them here.

Our own package goes in whole, module by module and file by file, because much of it is named by strings alone: the
mains of processes, the hooks of the supervisor, the handlers of jobs, the rooms of the page. So there is no list of
ours to forget something in. What others load by a string stands below.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agent"
ENTRY = PACKAGE / "cli" / "main.py"

LIBRARIES_BY_NAME = (
    # The clients of model servers (agent/models/providers), loaded before their first call.
    "anthropic",
    "ollama",
    "openai",
    # What assistants speak (it is loaded for them alone).
    "mcp",
    # A codec that e-mails name, and that is found by its name.
    "encodings.idna",
)
"""Modules of others that our code loads by a name in a string."""

PACKAGES_BY_NAME = ("keyring.backends", "uvicorn")
"""Packages of others that load their own modules by names in strings."""

_OF_A_SYSTEM: dict[str, tuple[str, ...]] = {
    "linux": ("secretstorage", "jeepney.io.blocking"),
    "win32": ("pystray._win32", "win32ctypes.core", "win32ctypes.core.ctypes"),
    "darwin": ("pystray._darwin",),
}

_NOT_ON_A_SYSTEM: dict[str, tuple[str, ...]] = {
    # There the icon goes straight over D-Bus, and pystray would need GTK's bindings.
    "linux": ("pystray", "PIL"),
}

_EXCLUDED = (
    # Windows of its own come from the desktop; a browser draws the page.
    "tkinter",
    "turtle",
    "idlelib",
    # GTK by its bindings is for installations from source; a build speaks to the panel over D-Bus.
    "gi",
    "Xlib",
    "pystray._xorg",
    # What tests and linters bring into the environment that a build is made in.
    "pytest",
    "_pytest",
    "hypothesis",
    "mypy",
    "playwright",
    "tests",
    "pip",
    "setuptools",
    "wheel",
    # What libraries would use where it is there, and do without.
    "IPython",
    "pandas",
    "scipy",
    "torch",
    "tokenizers",
    "huggingface_hub",
    "llama_cpp",
    "llm",
    "yaml",
    "uvloop",
    "httptools",
    # One SQLite library on the database: apsw's.
    "sqlite3",
)


def modules(package: Path = PACKAGE) -> list[str]:
    """Return the dotted name of every module of ours, packages by their own name."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def data_files(package: Path = PACKAGE) -> list[tuple[str, str]]:
    """Return every file of ours that is no code: its path, and the folder it goes to, seen from the build's own."""
    return [
        (str(path), path.parent.relative_to(package.parent).as_posix())
        for path in sorted(package.rglob("*"))
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    ]


def hidden_imports(platform: str = sys.platform) -> list[str]:
    """Return the modules that a search for ``import`` does not find, without those of ``PACKAGES_BY_NAME``."""
    return [*modules(), *LIBRARIES_BY_NAME, *_OF_A_SYSTEM.get(platform, ())]


def excluded(platform: str = sys.platform) -> list[str]:
    """Return the modules that stay out, whatever would like to have them."""
    return [*_EXCLUDED, *_NOT_ON_A_SYSTEM.get(platform, ())]


def distributions() -> list[str]:
    """Return the names of the libraries that the program needs: their versions are asked for when it runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in project["dependencies"]]


def version() -> str:
    """Return our version, without importing anything."""
    text = (PACKAGE / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise ValueError("agent/__init__.py says no version")
    return found[1]
