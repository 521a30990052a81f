"""What goes into a frozen build: everything of ours that is found by a name in a string, or read as a file."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY

NAME_OF_OURS = re.compile(r"agent(\.[a-z_0-9]+)+(:\w+)?")
"""A module of ours, or something in it, as it is handed over to be found later."""
NOT_MODULES = {"agent.json", "agent.sock"}
LOADS_NOTHING = {"bug_words.py"}
"""Names the modules whose words it leaves alone."""


def load_parts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sapwood_parts", REPOSITORY / "packaging" / "parts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PARTS = load_parts()


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names_in_strings() -> set[str]:
    return {
        text
        for path in (REPOSITORY / "agent").rglob("*.py")
        if path.name not in LOADS_NOTHING
        for text in strings(path)
        if NAME_OF_OURS.fullmatch(text) and text not in NOT_MODULES
    }


def test_every_module_that_is_named_in_a_string_alone_goes_into_the_build() -> None:
    named = {text.partition(":")[0] for text in names_in_strings()}
    assert {"agent.worker.process", "agent.desktop.tray.process", "agent.gateway.process"} <= named
    assert named - set(PARTS.hidden_imports()) == set()


def test_what_a_string_names_is_there() -> None:
    """A name that nothing answers to would be missed in the build, and noticed by its owner alone."""
    for text in sorted(names_in_strings()):
        module, _, attribute = text.partition(":")
        found = importlib.import_module(module)
        assert not attribute or hasattr(found, attribute), text


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_nothing_is_both_asked_for_and_kept_out(platform: str) -> None:
    kept_out = PARTS.excluded(platform)
    for name in PARTS.hidden_imports(platform):
        assert not any(name == other or name.startswith(f"{other}.") for other in kept_out), name


def test_what_is_imported_by_a_name_of_others_goes_into_the_build() -> None:
    """``import_module("x")`` is seen by nobody who looks for imports."""
    named = set()
    for path in (REPOSITORY / "agent").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                named |= {each.value for each in node.args if isinstance(each, ast.Constant)}
    assert named <= set(PARTS.hidden_imports())


def test_every_file_of_ours_that_is_no_code_goes_into_the_build() -> None:
    places = {Path(path).name: folder for path, folder in PARTS.data_files()}
    for name, folder in (
        ("vocab.txt", "agent/models/builtin"),
        ("static256_i4.npz", "agent/models/builtin"),
        ("NOTICE", "agent/models/builtin"),
        ("club-mail.mbox", "agent/actions/samples"),
        ("base.html", "agent/gateway/templates"),
        ("py.typed", "agent"),
    ):
        assert places.get(name) == folder
    assert any(folder == "agent/desktop/icons" for folder in places.values())
    assert any(folder == "agent/models/prompts" for folder in places.values())
    assert any(folder == "agent/gateway/static" for folder in places.values())


def test_the_version_of_a_build_is_that_of_the_program() -> None:
    from agent import __version__

    assert PARTS.version() == __version__


def test_every_library_that_the_program_needs_is_known_by_its_name() -> None:
    names = PARTS.distributions()
    assert "apsw" in names
    assert all(re.fullmatch(r"[a-z][a-z0-9-]+", name) for name in names)


def test_a_build_is_one_folder_that_is_not_packed() -> None:
    """Programs that unpack themselves are taken for malware (pyinstaller 6754, 5668)."""
    tree = ast.parse((REPOSITORY / "packaging" / "sapwood.spec").read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    named = {ast.unparse(call.func): {each.arg: ast.unparse(each.value) for each in call.keywords} for call in calls}
    assert named["EXE"]["exclude_binaries"] == "True"
    assert named["EXE"]["upx"] == "False"
    assert named["COLLECT"]["upx"] == "False"


def test_a_child_process_is_recognised_before_anything_else() -> None:
    """Without it a frozen program starts itself again and again (pyinstaller 5565, 4865, 4157)."""
    tree = ast.parse((REPOSITORY / "agent" / "cli" / "main.py").read_text("utf-8"))
    entry = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "entry")
    first = next(node for node in entry.body if not isinstance(getattr(node, "value", None), ast.Constant))
    assert ast.unparse(first) == "multiprocessing.freeze_support()"
    before = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert before == ["from __future__ import annotations", "import multiprocessing", "import sys"]


def test_parts_need_nothing_that_a_build_machine_may_lack() -> None:
    tree = ast.parse((REPOSITORY / "packaging" / "parts.py").read_text("utf-8"))
    for node in ast.walk(tree):
        for name in [each.name for each in node.names] if isinstance(node, ast.Import) else []:
            assert name in sys.stdlib_module_names
