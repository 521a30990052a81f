"""Nothing that is its owner's leaves in a report: not from any input, in any way to write it."""

from __future__ import annotations

import json
import os
import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent.actions.bug_masking import Known, Masker
from agent.actions.bug_report import collect
from agent.actions.bug_words import is_word
from agent.paths import Paths, paths_under
from tests.actions.bug_plants import TELLING, PlantedHome, collected, planted_home, survivors, unzipped

__all__ = ["planted_home"]


def test_nothing_that_was_planted_survives(planted_home: PlantedHome, tmp_path: Path) -> None:
    files = collected(planted_home, tmp_path / "r.zip")
    assert survivors(files, planted_home.all()) == []
    assert survivors(files, TELLING) == []
    assert "lines removed" not in json.loads(files["manifest.json"])["masked"], "the other nets hold by themselves"
    assert {"report.md", "manifest.json", "logs/worker-1.log", "logs/supervisor.log", "logs/tray.log"} <= files.keys()


@pytest.mark.parametrize(
    "damage",
    [
        "no memory",
        "damaged",
        "half",
        "newer",
        "broken config",
        "broken config, a copy",
        "config is bytes",
        "config is a folder",
        "environment",
    ],
)
def test_nothing_survives_where_something_is_broken(
    planted_home: PlantedHome, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = planted_home
    database = home.paths.database
    broken = home.config() + f'\n[{home.words["source name"]}\npaths = "{home.words["title"]}\n'
    if damage == "no memory":
        database.unlink()
    elif damage == "damaged":
        database.write_bytes(home.words["sentence"].encode() * 3_000)
    elif damage == "half":
        data = database.read_bytes()
        database.write_bytes(data[: len(data) // 2])
    elif damage == "newer":
        import apsw

        connection = apsw.Connection(str(database))
        connection.execute("PRAGMA user_version = 99").fetchall()
        connection.close()
    elif damage == "broken config":
        home.write_config(broken)
    elif damage == "broken config, a copy":
        home.paths.last_good_config.write_text(home.config(), "utf-8")
        home.write_config(broken)
    elif damage == "config is bytes":
        home.paths.config_file.write_bytes(b"\xff\xfe" + broken.encode("utf-16-le"))
    elif damage == "config is a folder":
        home.paths.config_file.unlink()
        home.paths.config_file.mkdir()
    else:
        monkeypatch.setenv("SAPWOOD_POOL__MAX_WORKERS", home.words["sentence"])
        monkeypatch.setenv("SAPWOOD_PLOSKONOS__KVETNICE", home.words["English"])
    files = collected(home, tmp_path / "r.zip")
    assert survivors(files, home.all()) == []
    assert survivors(files, TELLING) == []
    assert b"a line was removed" not in b"".join(files.values()), "the other nets hold by themselves"
    report = files["report.md"].decode()
    assert "## Doctor" in report
    assert "## The memory" in report


def test_what_helps_survives(planted_home: PlantedHome, tmp_path: Path) -> None:
    files = {name: data.decode() for name, data in collected(planted_home, tmp_path / "r.zip").items()}
    report = files["report.md"]
    assert "1 × seal / transient / unreachable: the server does not answer: ConnectError" in report
    assert "source-1: folder, 1 of 2 paths there, private, 1 exclude" in report
    assert "profile-1: openai, local, with consent" in report
    assert "models.active: profile-1" in report
    assert "XDG_CURRENT_DESKTOP: [user] GNOME" in report
    assert "- schema 3, this build's 3" in report
    assert "the clock was set back" in report
    dump = next(text for name, text in files.items() if name.startswith("crashes/") and "worker-1" in name)
    assert "Fatal Python error: Segmentation fault" in dump
    assert 'File "agent/db/connection.py", line 77 in all' in dump
    assert 'File "python/os.py", line 4 in walk' in dump
    assert 'File "python/os.py", line 3 in […]' in dump
    manifest = json.loads(files["manifest.json"])
    assert manifest["masked"]["words that are not the program's"] > 100
    assert manifest["masked"]["user names"] > 5
    assert {each["name"] for each in manifest["files"]} == files.keys() - {
        "manifest.json",
        "names of files",
        "comment",
    }


def test_loopback_and_known_vendors_are_shown() -> None:
    masker = Masker(Known())
    assert masker.text("it listens at 127.0.0.1:8080 and ::1") == "it listens at 127.0.0.1:8080 and ::1"
    assert masker.text("https://api.openai.com/v1/chat?key=1 said 429") == "https://api.openai.com/… said 429"
    assert masker.text("https://u:p@llm.firma.example/v1 said 429") == "[url] said 429"
    assert masker.text("http://localhost:11434/api/chat") == "http://localhost:11434/…"


@pytest.mark.parametrize("name", ["root", "user", "home", "work", "notes", "mail", "max"])
def test_a_name_that_is_a_common_word_leaves_every_sentence_whole(name: str) -> None:
    known = Known(homes={f"/home/{name}"}, users={name}, sources={name: "source-1"})
    masker = Masker(known)
    sentence = f"the work of this user on notes and mail at home needs no root, max 3: {name}"
    assert masker.text(sentence) == sentence
    assert masker.looked_through(f"- {sentence}\n") == f"- {sentence}\n"
    assert masker.text(f"cannot read /home/{name}/x") == "cannot read ~/x"
    assert masker.text(f"lost sync:{name}, ingest:{name}") == "lost sync:source-1, ingest:source-1"


def test_names_are_found_in_spite_of_case_and_by_whole_words() -> None:
    masker = Masker(Known(users={"Anka"}, hosts={"Brloh"}, sources={"Denik": "source-1"}))
    assert masker.text("source DENIK of ANKA on brloh failed") == "source source-1 of [user] on [host] failed"


@pytest.mark.parametrize(
    "cut",
    [
        "\u200b".join,
        "\u00ad".join,
        "\x00".join,
        "\\x00".join,
        "\\u200b".join,
        "\\\\u0000".join,
        "%00".join,
        " ".join,
        ".".join,
        ", ".join,
    ],
)
def test_a_name_or_a_key_in_single_letters_is_found_all_the_same(cut: Callable[[str], str]) -> None:
    masker = Masker(Known(users={"zdenkap"}))
    for name in ("zdenkap", "Ploskonos", "Krkavec"):
        shown = masker.text(f"cannot read {cut(name)}: no such file")
        assert shown in ("cannot read […]: no such file", "cannot read [user]: no such file"), name
    if cut("ab").strip(" .,a") != "b":
        assert masker.text(cut("sk-proj-Zr8kQ2vN7wXy4LmPa9TbHc3DfGj6Ks1U")) == "[secret]"


@pytest.mark.parametrize("number", ["601 777 333", "601-777-333", "0601 777 333", "785613/1234", "1234 5678 9012"])
def test_a_number_in_groups_is_masked_and_a_date_is_not(number: str) -> None:
    assert Masker(Known()).text(f"failed: {number} was there") == "failed: [number] was there"
    for kept in ("2026-03-01 10:00:00 12 jobs", "pid 1234 5678", "12 of 34, 56 left"):
        assert Masker(Known()).text(kept) == kept


def test_the_last_look_takes_whole_lines_and_counts_them() -> None:
    # Made of the program's own words alone, so that no other net holds it.
    masker = Masker(Known(sources={"late night work": "source-1"}, others={"/data/open/notes"}))
    text = "- one\n- it is LATE night  work again\n- in /Data/open/notes/x\n- late work at night\n"
    shown = masker.looked_through(text)
    assert shown.count("a line was removed") == 2
    assert "- one\n" in shown
    assert "- late work at night\n" in shown
    assert masker.taken() == {"lines removed": 2}


def test_links_and_folders_among_the_logs_are_passed_over(planted_home: PlantedHome, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the clock was slow\n" * 3)
    (planted_home.paths.log_dir / "worker-9.log.d").mkdir()
    try:
        (planted_home.paths.log_dir / "worker-9.log").symlink_to(secret)
    except OSError:
        pytest.skip("this system makes no links for everybody")
    assert not any(b"clock was slow" in data for data in collected(planted_home, tmp_path / "r.zip").values())


_LETTERS = string.ascii_letters + "äöüßéčřžŁøñ" + "あいう心理医" + "абвгд" + "αβγ" + " -_.'"
_PLANTS = (
    st.text(_LETTERS, min_size=4, max_size=40)
    .map(lambda text: " ".join(text.split()))
    .filter(lambda text: len(text) >= 4 and sum(letter.isalpha() for letter in text) >= 4)
)
_BEFORE: dict[str, bytes] = {}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plants=st.lists(_PLANTS, min_size=4, max_size=4, unique=True))
def test_random_names_paths_and_content_never_occur(
    plants: list[str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("random")
    if not _BEFORE:
        _BEFORE.update(unzipped(collect(paths_under(folder / "bare").make()), folder / "bare.zip"))
    name, path, content, user = plants
    # Words that the program itself uses, and what any report has, say nothing of a plant.
    assume(not any(all(map(is_word, re.findall(r"\w+", each))) for each in plants))
    telling = {
        kind: text
        for kind, text in (("name", name), ("path", path), ("content", content), ("user", user))
        if not any(text.lower().encode() in data.lower() for data in _BEFORE.values())
    }
    paths = paths_under(folder / "home").make()
    monkeypatch.setenv("USER", user)
    _plant(paths, name, path, content, user)
    files = unzipped(collect(paths), folder / "r.zip")
    shown = [
        f"{kind} {text!r} in {file}"
        for kind, text in telling.items()
        for file, data in files.items()
        if text.lower().encode() in data.lower()
    ]
    assert shown == []


def _plant(paths: Paths, name: str, path: str, content: str, user: str) -> None:
    quoted = json.dumps(name, ensure_ascii=False)
    paths.config_file.write_text(
        f'[[sources]]\nid = "s1"\nkind = "folder"\nname = {quoted}\npaths = [{json.dumps(f"/mnt/{path}")}]\n', "utf-8"
    )
    sentences = [
        f"source {name} cannot be read: /mnt/{path}/x.md",
        f"job failed: {content}",
        f"'{content}'",
        f"ValueError: {content} ({user})",
        f"/home/{user}/{path}",
        content,
    ]
    head = "2026-03-01T10:00:00.000+00:00 ERROR pid=7 worker-1 sapwood.x: "
    lines = [*(head + each for each in sentences), *sentences, *(f"    {each}" for each in sentences)]
    (paths.log_dir / "worker-1.log").write_text("\n".join(lines), "utf-8")
    dump = ["Fatal Python error: Aborted", f'  File "/home/{user}/{path}", line 3 in {content}', *sentences]
    (paths.log_dir / f"worker-1-{os.getpid() + 1}.crash.log").write_text("\n".join(dump), "utf-8")
