"""The shipped samples are invented, and the lock file is fit for any machine."""

from __future__ import annotations

import mailbox
import re
import tomllib
from email.utils import parsedate_to_datetime
from importlib.resources import as_file, files
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_samples_are_shipped_with_the_package() -> None:
    with as_file(files("agent.actions").joinpath("samples")) as samples:
        notes = [path for path in samples.joinpath("notes").rglob("*") if path.is_file()]
        assert len(notes) >= 12
        assert {path.suffix for path in notes} == {".md", ".txt"}
        assert len(list(samples.joinpath("club-chat").iterdir())) == 3


def test_samples_name_nobody_real() -> None:
    with as_file(files("agent.actions").joinpath("samples")) as samples:
        for path in samples.rglob("*"):
            if path.is_file():
                addresses = re.findall(r"[\w.-]+@([\w.-]+\w)", path.read_text("utf-8"))
                assert set(addresses) <= {"example.org"}, path


def test_sample_mailbox_holds_threads() -> None:
    with as_file(files("agent.actions").joinpath("samples", "club-mail.mbox")) as path:
        box = mailbox.mbox(path, create=False)
        mails = list(box)
        box.close()
    known = {mail["Message-ID"] for mail in mails}
    assert len(mails) == len(known) == 25
    assert sum("References" not in mail for mail in mails) == 6
    assert all(mail["In-Reply-To"] in known for mail in mails if "In-Reply-To" in mail)
    dates = [parsedate_to_datetime(mail["Date"]) for mail in mails]
    assert dates == sorted(dates)


def test_lock_file_names_no_address_and_has_hashes() -> None:
    text = (REPOSITORY / "requirements.lock").read_text("utf-8")
    assert "://" not in text
    blocks = re.split(r"\n(?=[a-z])", text)[1:]
    assert len(blocks) > 20
    assert all("--hash=sha256:" in block for block in blocks)


def test_lock_file_has_what_the_package_asks_for_in_its_part() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    run, _, test = (REPOSITORY / "requirements.lock").read_text("utf-8").partition("# --- only for the tests ---")

    def names(lines: str | list[str]) -> set[str]:
        found = lines.splitlines() if isinstance(lines, str) else lines
        return {match[0].lower() for line in found if (match := re.match(r"[A-Za-z0-9-]+", line))}

    assert names(project["project"]["dependencies"]) | names(project["build-system"]["requires"]) <= names(run)
    assert names(project["project"]["optional-dependencies"]["test"]) <= names(test)
    # A version may stand in both where the tests need it under more Pythons than the package does.
    requirements = [{line for line in part.splitlines() if re.match(r"[A-Za-z0-9]", line)} for part in (run, test)]
    assert not requirements[0] & requirements[1]
