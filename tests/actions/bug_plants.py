"""A home in which everything that is nobody's business is planted, in every place that a report is made from."""

from __future__ import annotations

import json
import os
import socket
import sys
import zipfile
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from agent.actions.bug_report import Report, collect, save
from agent.db import Database
from agent.paths import Paths

USER = "zdenkap"
FULL_NAME = "Zdenka Ploskonosova"
HOST = "zdenkas-thinkbox.ploskonos.example"
SECRETS = {
    "OpenAI key": "sk-proj-Zr8kQ2vN7wXy4LmPa9TbHc3DfGj6Ks1U",
    "AWS key": "AKIAZ7QK3VN2XW5Y8LMP",
    "password": "password=Vrbovka!77lipa",
    "bearer": "Authorization: Bearer qWv8ZkN3xY7pLm2TbHc9Df",
}
ADDRESSES = {
    "mail": "zdenka.ploskonosova@posta.example",
    "IPv4": "203.0.113.77",
    "IPv6": "2001:db8:77:aa::beef",
    "MAC": "3c:22:fb:9a:7e:41",
    "phone": "+420 601 777 333",
    "URL": "https://intranet.ploskonos.example/dossiers/kvetna?patient=Vrbovka&id=4711#part",
    "userinfo": "https://zdenkap:heslo-lipa@git.ploskonos.example/repo.git",
}
NAMES = {
    "source name": "Kvetnice zapisky",
    "source id": "kvetnice-zapisky",
    "profile": "ploskonos-gpt",
    "profile host": "llm.ploskonos.example",
    "file": "Rozvod_Ploskonos_2024.pdf",
    "file in Chinese": "离婚协议书草案.docx",
    "file in Greek": "Ημερολόγιο.md",
    "Windows path": r"C:\Users\zdenkap\Dokumenty\Lekarske zpravy\nalez.docx",
    "UNC path": r"\\nas-ploskonos\rodina\fotky",
    "forgotten source": "Rodinna posta",
    "title": "Vysledky biopsie pro Zdenku",
    "author": "MUDr. Bohuslav Krkavec",
}
CONTENT = {
    "sentence": "Vcera mi lekar rekl ze nalez je zhoubny",
    "English": "My sister borrowed eleven thousand crowns from Bohuslav and nobody may ever hear of it",
    "quoted": 'she wrote "Krkavec knows everything" on a napkin',
    "umlauts": "Müßiggänger Überraschungsbesuch bei Großtante Käthe",
    "Chinese": "我昨天偷偷去看了心理医生",
    "lines": "prvni radek tajemstvi\ndruhy radek tajemstvi",
}
# What of them must not be found by itself either: a report with the half of a sentence says enough.
_TELLING = """
Ploskonos Zdenka zdenkap Vrbovka Krkavec Bohuslav Kvetnice Rozvod biopsie zhoubny lekar crowns borrowed napkin
Überraschungsbesuch Käthe 心理医生 离婚协议书 Ημερολόγιο tajemstvi thinkbox dossiers 4711 heslo fotky nalez
"""
TELLING = {word: word for word in _TELLING.split()}


def planted() -> dict[str, str]:
    return {**SECRETS, **ADDRESSES, **NAMES, **CONTENT, "user": USER, "full name": FULL_NAME, "host": HOST}


def variants(text: str) -> set[str]:
    """Return a text as it is written in other places."""
    return {
        text,
        text.upper(),
        text.lower(),
        quote(text),
        quote(text, safe=""),
        json.dumps(text)[1:-1],
        text.replace("\\", "\\\\"),
        text.replace("\\", "/"),
        text.replace("\n", "\\n"),
        repr(text)[1:-1],
        b64encode(text.encode()).decode(),
    }


@dataclass
class PlantedHome:
    paths: Paths
    person: Path
    """The home folder of whoever owns it."""
    words: dict[str, str] = field(default_factory=planted)

    @property
    def source(self) -> Path:
        return self.person / "Dokumenty" / "Kvetnice"

    def all(self) -> dict[str, str]:
        return {**self.words, "home": str(self.person), "source path": str(self.source)}

    def sentences(self) -> list[str]:
        """Return every plant in every way to write it, as something that a program might say."""
        found = []
        for text in self.all().values():
            for shown in sorted(variants(text)):
                found += [f"could not read {shown}", f"job failed: [Errno 2] No such file: '{shown}'", shown]
                found.append(f"source {shown}: it says ({shown}), url=file://{shown}/x and /mnt/{shown}/notes")
        return found

    def write_config(self, text: str | None = None) -> None:
        self.paths.config_file.write_text(text if text is not None else self.config(), "utf-8")

    def config(self) -> str:
        names = self.words
        return "\n".join(
            [
                "[models]",
                f'active = "{names["profile"]}"',
                f'local_hosts = ["{names["profile host"]}", "198.51.100.23"]',
                "[[profiles]]",
                f'name = "{names["profile"]}"',
                'provider = "openai"',
                f'chat_model = "{names["profile"]}:latest"',
                f'base_url = "http://{names["profile host"]}:8080/v1"',
                f'key = "{names["profile"]}"',
                f'consent = "{names["profile host"]}"',
                "[[sources]]",
                f'id = "{names["source id"]}"',
                'kind = "folder"',
                f'name = "{names["source name"]}"',
                f"paths = ['{self.source}', '{names['Windows path']}']",
                f'exclude = ["{names["file"]}"]',
                "private = true",
                f"# {names['English']}",
                "",
            ]
        )

    def write_logs(self) -> None:
        head = "2026-03-01T10:00:0{0}.000+00:00 {1} pid=7 {2} sapwood.x: "
        for number, process in enumerate(("supervisor", "worker-1", "tray", "gateway", "command")):
            lines = [head.format(number, "ERROR", process) + each.replace("\n", "\\n") for each in self.sentences()]
            lines += self.sentences()  # what is no line of ours
            lines += [f"    {each}\n      {each}.py:7 {each}" for each in self.sentences()]
            lines += [f"2026-03-01T10:00:09.000+00:00 {USER} pid=7 {USER} job=3 kind={USER} {USER}: lease lost"]
            lines += ["2026-03-01T10:00:09.000+00:00 WARNING pid=7 worker-1 sapwood.x: the clock was set back"]
            (self.paths.log_dir / f"{process}.log").write_text("\n".join(lines), "utf-8")
        (self.paths.log_dir / f"{USER}.log").write_text("\n".join(self.sentences()), "utf-8")
        (self.paths.log_dir / f"worker-1.log.{self.words['file']}").write_text("x", "utf-8")

    def write_dumps(self) -> None:
        lines = ["Fatal Python error: Segmentation fault", "", "Current thread 0x00007f0a (most recent call first):"]
        lines += [f'  File "{self.person}/agent/db/connection.py", line 77 in all']
        lines += [f'  File "{os.__file__}", line 3 in zdenkap', f'  File "{os.__file__}", line 4 in walk']
        lines += [f'  File "{each}", line 3 in {each}' for each in self.sentences()]
        lines += self.sentences()
        (self.paths.log_dir / "worker-1-77.crash.log").write_text("\n".join(lines), "utf-8")
        (self.paths.log_dir / f"{USER}-78.crash.log").write_text("\n".join(lines), "utf-8")

    def write_inbox(self) -> None:
        folder = self.paths.inbox / self.words["source id"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.words["file"]).write_text(self.words["sentence"], "utf-8")

    def write_memory(self) -> None:
        database = Database(self.paths.database, self.paths.write_turn)
        connection = database.connection
        everything = list(self.all().values())
        with connection.write():
            for number, text in enumerate(everything):
                # Only what is a source by name is one: the other plants must be found without being known.
                is_source = text in (self.words["source id"], self.words["forgotten source"])
                connection.run(
                    "INSERT OR IGNORE INTO mem_tree_sources (source_id, kind, last_error) VALUES (?, ?, ?)",
                    (text if is_source else f"s{number}", text, f"could not look at {text}"),
                )
                connection.run(
                    "INSERT INTO mem_tree_items (item_seq, source_id, item_key, source_kind, place, title, sort_key, "
                    "state, reason) VALUES (?, 's', ?, 'document', ?, ?, x'00', 'unreadable', ?)",
                    (number + 1, text, text, text, f"cannot be read: {text}"),
                )
                connection.run(
                    "INSERT INTO mem_tree_chunks (chunk_id, source_kind, source_id, item_key, item_seq, position, "
                    "body_hash, order_key, sort_key, break_key, author, title, locator, tokens, text, lifecycle, "
                    "created_at_ms) VALUES (?, 'document', 's', ?, ?, 0, 'h', 0, x'00', 0, ?, ?, ?, 1, ?, ?, 0)",
                    (f"c{number}", text, number + 1, text, text, text, text, text),
                )
                connection.run(
                    "INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, "
                    "available_at_ms, last_error, failure_reason, failure_class, created_at_ms, completed_at_ms) "
                    "VALUES (?, ?, ?, 'failed', 5, 0, ?, ?, ?, 0, 0)",
                    (f"kind {text}", text, f"ingest:{text}", f"FileNotFoundError: '{text}'", text, text),
                )
                connection.run("INSERT INTO mem_tree_signatures (signature) VALUES (?)", (f"openai:{text}@256",))
                connection.run(
                    "INSERT INTO mem_tree_holds (scope, code, reason, until_ms, changed_at_ms) VALUES (?, ?, ?, 0, 0)",
                    (text, text, f"the server says: {text}"),
                )
            connection.run(
                "INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, last_error, "
                "failure_reason, failure_class, created_at_ms) VALUES ('seal', '{}', 'failed', 5, 0, "
                "'the server does not answer: ConnectError', 'unreachable', 'transient', 0)"
            )
        database.close()


@pytest.fixture
def planted_home(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlantedHome:
    person = tmp_path / "lide" / "Zdenka Ploskonosova"
    home = PlantedHome(paths, person)
    home.source.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("USERPROFILE", str(person))
    monkeypatch.setenv("USER", USER)
    monkeypatch.setenv("LOGNAME", USER)
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", f"{USER}:GNOME")
    monkeypatch.setenv("DESKTOP_SESSION", home.words["English"])
    monkeypatch.setenv("HTTPS_PROXY", home.words["userinfo"])
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    if sys.platform != "win32":
        import pwd

        real = pwd.getpwuid(os.getuid())
        fake = type("Entry", (), {"pw_dir": str(person), "pw_name": USER, "pw_gecos": f"{FULL_NAME},,,"})
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: fake if uid == os.getuid() else real)
    home.write_config()
    home.write_logs()
    home.write_dumps()
    home.write_inbox()
    home.write_memory()
    return home


def unzipped(report: Report, target: Path) -> dict[str, bytes]:
    """Save a report and return every file of the zip, and what stands in the zip beside them."""
    path = save(report, target)
    with zipfile.ZipFile(path) as held:
        found = {info.filename: held.read(info) for info in held.infolist()}
        found["names of files"] = "\n".join(f"{info.filename} {info.comment!r}" for info in held.infolist()).encode()
        found["comment"] = held.comment
    return found


def survivors(files: dict[str, bytes], plants: dict[str, str]) -> list[str]:
    """Return what of the plants is found in any file, by its bytes, whatever the case."""
    found = []
    for kind, text in plants.items():
        for shown in variants(text):
            needle = shown.lower().encode()
            found += [f"{kind} in {name}: {shown!r}" for name, data in files.items() if needle in data.lower()]
    return found


def collected(home: PlantedHome, target: Path) -> dict[str, bytes]:
    return unzipped(collect(home.paths), target)
