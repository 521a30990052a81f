"""The pages without a browser: each one is whole without a script, and what it does is what the command does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.actions import sources as source_actions
from agent.actions.home import open_home
from agent.actions.jobs import jobs
from agent.actions.models import add_profile, profile_of, profiles
from agent.actions.settings import settings
from agent.config import load_intent
from agent.errors import SapwoodError
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
from agent.states import JobStatus
from tests.gateway.page_reader import Read, Reader, forget_grown, grown_home, reading

EVERY_PAGE = (
    *("/?q=greenhouse", "/tree", "/tree/notes", "/sources", "/sources/add", "/sources/notes", "/sources/notes/remove"),
    *("/forget", "/work", "/models", "/models/add", "/models/builtin/consent", "/models/builtin/remove", "/settings"),
    *("/settings/desktop.tray", "/settings/models.local_hosts", "/help", "/help/logs", "/welcome", "/"),
)


@pytest.fixture(scope="module", autouse=True)
def _tidy() -> Iterator[None]:
    yield
    forget_grown()


@pytest.fixture
def grown_paths(tmp_path: Path) -> Paths:
    return grown_home(tmp_path)


@pytest.fixture
def reader(grown_paths: Paths) -> Iterator[Reader]:
    with reading(grown_paths) as found:
        yield found


@pytest.fixture
def newcomer(paths: Paths) -> Iterator[Reader]:
    """A reader of a home in which nothing is named yet."""
    with reading(paths) as found:
        yield found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the desktop was asked to open."""
    found: list[str] = []
    monkeypatch.setattr("agent.actions.opening_source.open_outside", found.append)
    return found


@pytest.fixture
def note(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def add_profiles(paths: Paths) -> None:
    with open_home(paths) as home:
        add_profile(home, profile_of({"name": "box", "provider": "ollama", "chat_model": "small"}))
        add_profile(home, profile_of({"name": "sky", "provider": "openai", "chat_model": "large"}))


def fail_a_job(paths: Paths) -> int:
    with open_home(paths) as home:
        job_id = enqueue(home.connection, NewJob.extract_chunk("made up"), home.clock.now_ms())
        assert job_id is not None
        with home.connection.write():
            home.connection.run(
                """
                UPDATE mem_tree_jobs
                   SET status = 'failed', failure_reason = 'auth_failed', failure_scope = 'sky',
                       failure_class = 'unrecoverable', last_error = 'the key is not accepted', completed_at_ms = 1
                 WHERE id = ?
                """,
                (job_id,),
            )
        return job_id


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_every_page_is_whole(reader: Reader, path: str) -> None:
    page = reader.get(path)
    assert page.status == 200
    assert len(page.tree.css("h1")) == 1
    assert len(page.tree.css("main")) == 1
    assert "Stopped" in page.one("#state").text()
    assert page.texts("nav .menu a") == ["Search", "Tree", "Sources", "Work", "Models", "Settings", "Help"]
    assert not page.tree.css("[style], style, script:not([src])"), "the policy forbids what is inline"
    assert not re.search(r'\son[a-z]+="', page.answer.text)


def test_what_is_not_built_is_absent(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.actions.capabilities import BUILT, Capability

    monkeypatch.setattr("agent.gateway.pages.rendering.BUILT", BUILT - {Capability.MODELS})
    assert "Models" not in reader.get("/tree").texts("nav .menu a")
    words = reader.get("/?q=greenhouse").words.lower()
    assert "digest" not in words
    assert "topics" not in words


def test_every_form_carries_the_token_of_the_session(reader: Reader) -> None:
    for path in EVERY_PAGE:
        for form in reader.get(path).tree.css("form[method=post]"):
            token = form.css_first("input[name=csrf]")
            assert token is not None, path
            assert token.attributes["value"] == reader.session.csrf


def test_search_marks_the_words_and_says_where_they_stand(reader: Reader) -> None:
    page = reader.get("/", q="spare key of the greenhouse")
    first = page.tree.css(".hit")[0]
    assert {"spare", "key", "greenhouse"} <= {mark.text().lower() for mark in first.css("mark")}
    assert re.search(r"inventory\.txt:\d+", first.text())
    found = reader.get(str(first.css_first("h2 a").attributes["href"]))
    assert "spare key" in found.main


def test_the_fragment_has_the_hits_of_the_page_and_nothing_around_them(reader: Reader) -> None:
    piece = reader.get("/search/hits", q="spare key")
    assert piece.texts(".hit h2") == reader.get("/", q="spare key").texts(".hit h2")
    assert "<html" not in piece.answer.text
    assert piece.one("[data-said]").attributes["data-said"] == f"{len(piece.texts('.hit'))} results for spare key"


def test_search_is_narrowed_by_source_and_kind(reader: Reader) -> None:
    page = reader.get("/", q="key", source="club-chat")
    assert set(page.texts('.hit .about a[href^="/tree"]')) == {"club-chat"}
    summaries = reader.get("/", q="greenhouse", kind="summary").texts(".hit .about")
    assert summaries
    assert all(text.startswith("summary") for text in summaries)


def test_a_filter_that_cannot_be_read_says_what_to_write(reader: Reader) -> None:
    page = reader.get("/", q="key", since="someday")
    assert "This is no date: someday" in page.main
    assert "2025-06-14" in page.one(".note-bad").text()
    assert page.one("#since").attributes["value"] == "someday"


def test_nothing_found_says_what_else_to_try(reader: Reader) -> None:
    page = reader.get("/", q="zyxwvut")
    assert "Nothing found for “zyxwvut”" in page.main
    nothing = reader.get("/", q="zyxwvut", source="club-chat", since="1990-01-01", until="1990-01-02")
    assert "without what narrows it down" in nothing.main


def test_a_memory_that_grows_says_that_not_all_was_searched(newcomer: Reader, note: Callable[[str, str], Path]) -> None:
    newcomer.send("/sources/add", path=str(note("a.md", "the lamp is in the attic")))
    assert "Not searched yet" in newcomer.get("/", q="lamp").main


def test_search_waits_for_enter_where_a_model_would_be_asked(reader: Reader, grown_paths: Paths) -> None:
    assert reader.get("/", q="key").tree.css("#search[data-live]")
    with open_home(grown_paths) as home:
        add_profile(
            home, profile_of({"name": "box", "provider": "ollama", "chat_model": "small", "embedding_model": "tiny"})
        )
    page = reader.get("/", q="key")
    assert not page.tree.css("#search[data-live]")
    assert "Press Enter" in page.main


def test_the_tree_leads_from_the_root_to_the_lines_of_the_file(reader: Reader) -> None:
    page = reader.get("/tree/notes")
    seen = []
    while True:
        seen.append(page.one("h1").text())
        below = [link for link in page.links() if link.startswith("/node/") and link in _entries(page)]
        if not below:
            break
        page = reader.get(below[0])
        assert len(seen) < 12
    assert "passage" in page.one("main .about").text()
    assert re.search(r":\d+", page.one(".facts").text()), "the lines"
    crumbs = page.texts(".crumbs li")
    assert crumbs[:2] == ["Tree", "notes"]
    assert len(crumbs) == len(seen) + 1


def _entries(page: Read) -> list[str]:
    return [str(each.attributes["href"]) for each in page.tree.css(".entry-title a")]


def test_an_open_tail_is_seen_in_the_tree(newcomer: Reader, paths: Paths, note: Callable[[str, str], Path]) -> None:
    from agent.queue import LocalContext, Registry, drain_until_idle
    from agent.worker.kinds import KIND_NAMES

    for name in "abc":
        note(f"{name}.md", f"# {name}\n\nthe lamp {name} stands in the attic\n")
    newcomer.send("/sources/add", path=str(note("d.md", "# d\n\nanother lamp\n").parent), name="lamps")
    with open_home(paths) as home:
        drain_until_idle(LocalContext(home.connection, home.clock, home.intent, paths), Registry.load(KIND_NAMES))
    page = newcomer.get("/tree/lamps")
    assert "still open" in page.main
    assert page.texts(".entry .badge-open") == ["open: no summary above it yet"] * 4


def test_out_of_date_summaries_are_badged(reader: Reader, grown_paths: Paths) -> None:
    with open_home(grown_paths) as home, home.connection.write():
        home.connection.run("UPDATE mem_tree_summaries SET stale = 1, degraded = 1")
    assert "out of date" in reader.get("/tree/notes").one(".entry").text()
    assert "made without a model" in reader.get("/tree/notes").one(".entry").text()


def test_a_passage_stands_between_its_neighbours(reader: Reader) -> None:
    for hit in reader.get("/", q="greenhouse", kind="leaf").tree.css(".hit h2 a"):
        page = reader.get(str(hit.attributes["href"]))
        near = page.texts(".text-near")
        if near:
            assert all(len(text) < 520 for text in near)
            return
    pytest.fail("no passage has a neighbour")


def test_the_file_of_a_node_is_opened_and_no_other(reader: Reader, opened: list[str]) -> None:
    hits = reader.get("/", q="spare key of the greenhouse")
    page = reader.press(hits, "Open the file")
    assert "The file was opened" in page.main
    assert opened[0].endswith("inventory.txt")
    for path in ("/node/..%2f..%2fetc%2fpasswd/open", "/node/%2Fetc%2Fpasswd/open", "/node/ffffffffffff/open"):
        assert reader.send(path).status in (400, 404)
    assert len(opened) == 1


def test_of_a_mailbox_the_folder_is_opened(reader: Reader, opened: list[str]) -> None:
    page = reader.get("/", q="pear tree", source="club-mail", kind="leaf")
    said = reader.press(page, "Open the file").main
    assert "The folder of this passage's file was opened" in said
    assert Path(opened[0]).is_dir()


def test_a_file_that_became_a_link_to_elsewhere_is_not_opened(
    newcomer: Reader, paths: Paths, note: Callable[[str, str], Path], tmp_path: Path, opened: list[str]
) -> None:
    from agent.queue import LocalContext, Registry, drain_until_idle
    from agent.worker.kinds import KIND_NAMES

    path = note("a.md", "# a\n\nthe lamp stands in the attic\n")
    newcomer.send("/sources/add", path=str(path.parent), name="lamps")
    with open_home(paths) as home:
        drain_until_idle(LocalContext(home.connection, home.clock, home.intent, paths), Registry.load(KIND_NAMES))
    page = newcomer.get("/", q="lamp", kind="leaf")
    (tmp_path / "secret.txt").write_text("secret")
    path.unlink()
    path.symlink_to(tmp_path / "secret.txt")
    assert "outside its source" in newcomer.press(page, "Open the file").main
    path.unlink()
    assert "The file is not there" in newcomer.press(page, "Open the file").main
    assert not opened


@pytest.mark.parametrize(
    ("name", "program", "wanted"),
    [
        ("INSTALL", "#!/bin/sh\n", "own"),
        ("a.txt", "\x7fELF", "own"),
        ("Tool.app/Contents/INSTALL", "#!/bin/sh\n", "own"),
        ("Tool.app/Contents/a.md", "", "own/Tool.app/Contents/a.md"),
        ("a.txt", "", "own/a.txt"),
    ],
)
def test_what_a_desktop_might_start_is_not_opened(
    newcomer: Reader,
    paths: Paths,
    note: Callable[[str, str], Path],
    tmp_path: Path,
    opened: list[str],
    name: str,
    program: str,
    wanted: str,
) -> None:
    from agent.queue import LocalContext, Registry, drain_until_idle
    from agent.worker.kinds import KIND_NAMES

    path = note(name, "the lamp stands in the attic\n")
    newcomer.send("/sources/add", path=str(tmp_path / "own"), name="lamps")
    with open_home(paths) as home:
        drain_until_idle(LocalContext(home.connection, home.clock, home.intent, paths), Registry.load(KIND_NAMES))
    page = newcomer.get("/", q="lamp", kind="leaf")
    path.write_text(f"{program}the lamp stands in the attic\n")
    path.chmod(0o755)  # as all files are on disks that know no rights
    newcomer.press(page, "Open the file")
    assert opened == [str(tmp_path / wanted)]


def test_a_source_is_named_by_its_path(newcomer: Reader, paths: Paths, note: Callable[[str, str], Path]) -> None:
    folder = note("a.md", "a lamp").parent
    page = newcomer.send(
        "/sources/add", path=str(folder), name="lamps", private="on", exclude="*.log\n\ndrafts/*", include=""
    )
    assert page.path == "/sources/lamps"
    assert "The source lamps is named: 1 item found." in page.main
    source = load_intent(paths).intent.source("lamps")
    assert source is not None
    assert (source.private, source.exclude, source.kind) == (True, ("*.log", "drafts/*"), "folder")


def test_a_path_that_is_not_there_is_told_and_stays_in_the_form(newcomer: Reader, paths: Paths) -> None:
    page = newcomer.send("/sources/add", path="/no/such/place", name="x", private="on")
    assert page.status == 400
    assert "There is nothing at this path: /no/such/place" in page.main
    assert page.one("#path").attributes["value"] == "/no/such/place"
    assert "checked" in page.one("#private").attributes
    assert newcomer.send("/sources/add", path=" ").status == 400
    assert not load_intent(paths).intent.sources


def test_a_source_is_removed_after_its_preview(reader: Reader, grown_paths: Paths) -> None:
    asked = reader.get("/sources/club-chat/remove")
    assert "3 items" in asked.main
    assert load_intent(grown_paths).intent.source("club-chat") is not None
    page = reader.press(asked, "Remove it")
    assert page.path == "/sources"
    assert "The source club-chat is removed: 3 items" in page.main
    assert load_intent(grown_paths).intent.source("club-chat") is None
    assert "club-chat" not in [each.id for each in _sources(grown_paths)]


def _sources(paths: Paths) -> tuple[source_actions.SourceRow, ...]:
    with open_home(paths) as home:
        return source_actions.sources(home).sources


def test_words_are_forgotten_after_their_preview_and_nowhere_in_the_file(reader: Reader, grown_paths: Paths) -> None:
    asked = reader.get("/forget", mentions="Quittengelee")
    assert "Forget this for good?" in asked.main
    assert b"Quittengelee" in grown_paths.database.read_bytes()
    page = reader.press(asked, "Forget it for good")
    assert "Forgotten: " in page.main
    assert "backups that you made" in page.main.lower()
    assert "Quittengelee" not in reader.get("/", q="Quittengelee").one("#hits").text().replace("“Quittengelee”", "")
    assert b"Quittengelee" not in grown_paths.database.read_bytes()


def test_what_nothing_matches_is_not_asked_about(reader: Reader) -> None:
    page = reader.get("/forget", mentions="zyxwvut")
    assert "Nothing in the memory matches" in page.main
    assert "Forget it for good" not in page.texts("button")
    assert reader.send("/forget", mentions="zyxwvut").status == 400


@pytest.mark.parametrize(("label", "kept"), [("Keep what is remembered", True), ("take it out", False)])
def test_a_source_that_shrank_is_asked_about(
    newcomer: Reader, paths: Paths, note: Callable[[str, str], Path], label: str, kept: bool
) -> None:
    from agent.queue import LocalContext, Registry, drain_until_idle
    from agent.worker.kinds import KIND_NAMES

    def work() -> None:
        with open_home(paths) as home:
            drain_until_idle(LocalContext(home.connection, home.clock, home.intent, paths), Registry.load(KIND_NAMES))

    files = [note(f"{number}.md", f"# {number}\n\nlamp {number}\n") for number in range(40)]
    newcomer.send("/sources/add", path=str(files[0].parent), name="lamps")
    work()
    for path in files[1:]:
        path.unlink()
    newcomer.press(newcomer.get("/sources/lamps"), "Look at it again")
    work()
    page = newcomer.get("/sources/lamps")
    assert "39 of 40 items are gone" in page.main
    said = newcomer.press(page, label).main
    assert f"39 items will be {'kept' if kept else 'taken out'}" in said
    work()
    assert _sources(paths)[0].items == (40 if kept else 1)


def test_unreadable_files_are_listed_with_their_reason(
    newcomer: Reader, paths: Paths, note: Callable[[str, str], Path]
) -> None:
    from agent.queue import LocalContext, Registry, drain_until_idle
    from agent.worker.kinds import KIND_NAMES

    folder = note("a.md", "# a\n\na lamp\n").parent
    (folder / "bad.md").write_bytes(b"\x00\x01\x02\xff" * 500)
    newcomer.send("/sources/add", path=str(folder), name="lamps")
    with open_home(paths) as home:
        drain_until_idle(LocalContext(home.connection, home.clock, home.intent, paths), Registry.load(KIND_NAMES))
    page = newcomer.get("/sources/lamps")
    row = page.one("#unreadable tbody tr").text()
    assert "bad.md" in row
    assert len(row.split()) > 2


def test_a_failed_job_is_shown_with_its_remedy_and_tried_again(reader: Reader, grown_paths: Paths) -> None:
    job_id = fail_a_job(grown_paths)
    page = reader.get("/work")
    assert f"Job {job_id}: extract chunk unrecoverable auth_failed" in page.main
    assert "sapwood key status" in page.one(".note-warn").text()
    assert reader.press(page, "Try again").main.startswith("1 job tried again.")
    with open_home(grown_paths) as home:
        assert jobs(home, status="failed").total == 0
    unknown = reader.send("/jobs/retry", "/work", job="999999")
    assert unknown.status == 400
    assert "There is no such job" in unknown.main


def test_a_job_is_cancelled(reader: Reader, grown_paths: Paths) -> None:
    job_id = fail_a_job(grown_paths)
    assert f"job {job_id} is cancelled" in reader.press(reader.get("/work"), "Cancel").main.lower()
    with open_home(grown_paths) as home:
        assert home.connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,)) == JobStatus.CANCELLED


@pytest.mark.parametrize("word", ["x", "-1", "9" * 30, "1; DROP"])
def test_what_is_no_job_is_refused(reader: Reader, word: str) -> None:
    assert reader.send("/jobs/cancel", job=word).status == 400


def test_work_is_paused_and_resumed(reader: Reader, grown_paths: Paths) -> None:
    from agent.actions.pausing import read_paused

    page = reader.press(reader.get("/work"), "Pause")
    assert "The work is paused." in page.main
    with open_home(grown_paths) as home:
        assert read_paused(home.connection, home.clock.now_ms()).paused_until_ms is not None
    reader.press(page, "Resume")
    with open_home(grown_paths) as home:
        assert read_paused(home.connection, home.clock.now_ms()).paused_until_ms is None


def test_a_cloud_is_used_after_its_consent_page_alone(reader: Reader, grown_paths: Paths) -> None:
    add_profiles(grown_paths)
    page = reader.send("/models/sky/use", "/models")
    assert page.path == "/models/sky/consent"
    assert load_intent(grown_paths).intent.models.active == "builtin"
    assert "May text be sent to api.openai.com?" in page.main
    assert "the text of new notes, mails and chats" in page.main
    assert "notes, club-mail, club-chat" in page.main
    said = reader.press(page, "I agree, use it")
    assert "You agree, and sky is used from the next job on." in said.main
    intent = load_intent(grown_paths).intent
    assert (intent.models.active, intent.profile("sky").has_consent()) == ("sky", True)  # type: ignore[union-attr]
    reader.press(reader.get("/models/sky/consent"), "Take it back")
    assert not load_intent(grown_paths).intent.profile("sky").has_consent()  # type: ignore[union-attr]


def test_looking_at_the_consent_page_agrees_to_nothing(reader: Reader, grown_paths: Paths) -> None:
    add_profiles(grown_paths)
    reader.get("/models/sky/consent")
    reader.get("/models/sky/consent?answer=use")
    assert not load_intent(grown_paths).intent.profile("sky").has_consent()  # type: ignore[union-attr]
    assert reader.send("/models/sky/consent", answer="whatever").status == 400


def test_a_profile_is_added_and_removed_and_no_key_is_asked_for(reader: Reader, grown_paths: Paths) -> None:
    form = reader.get("/models/add")
    assert not form.tree.css("input[type=password]")
    page = reader.send("/models/add", name="sky", provider="openai", chat_model="large", daily_tokens="5000")
    assert "The profile sky is added." in page.main
    assert "sapwood key set openai" in page.main
    with open_home(grown_paths) as home:
        assert {row.name: row.daily_tokens for row in profiles(home).profiles}["sky"] == 5000
    reader.press(reader.get("/models/sky/remove"), "Remove it")
    assert load_intent(grown_paths).intent.profile("sky") is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "No Name!"}, "This cannot be a profile"),
        ({"provider": "acme"}, "This cannot be a profile"),
        ({"chat_model": ""}, "This cannot be a profile"),
        ({"daily_tokens": "many"}, "whole number"),
        ({"base_url": "ftp://x"}, "cannot be a profile"),
    ],
)
def test_what_cannot_be_a_profile_stays_in_the_form(reader: Reader, fields: dict[str, str], words: str) -> None:
    page = reader.send("/models/add", **{"name": "box", "provider": "ollama", "chat_model": "kept", **fields})
    assert page.status == 400
    assert words in page.main
    assert page.one("#name").attributes["value"] == fields.get("name", "box")


def test_testing_a_server_that_is_away_says_what_to_do(reader: Reader, grown_paths: Paths) -> None:
    with open_home(grown_paths) as home:
        add_profile(
            home,
            profile_of(
                {"name": "box", "provider": "ollama", "chat_model": "small", "base_url": "http://127.0.0.1:9"}
            ),
        )  # fmt: skip
    page = reader.press(reader.get("/models"), "Test")
    assert "box does not work yet" in page.main
    assert len(page.texts(".note-bad p")) == 2, "what happened, and what to do"


def test_a_setting_is_changed_and_put_back(reader: Reader, grown_paths: Paths) -> None:
    page = reader.send("/settings/pool.max_workers", value="3", do="change")
    assert "Pool.max_workers is 3." in page.main or "pool.max_workers is 3." in page.main
    assert settings(grown_paths).one("pool.max_workers").origin == "file"
    assert "set by you" in reader.get("/settings").one('[id="pool.max_workers"]').text()
    reader.send("/settings/pool.max_workers", do="default")
    assert settings(grown_paths).one("pool.max_workers").origin == "default"


def test_a_value_that_cannot_be_is_told_and_stays_in_the_form(reader: Reader, grown_paths: Paths) -> None:
    page = reader.send("/settings/pool.max_workers", value="none", do="change")
    assert page.status == 400
    assert "pool.max_workers cannot be none" in page.main
    assert page.one("#value").attributes["value"] == "none"
    assert settings(grown_paths).one("pool.max_workers").origin == "default"


def test_a_list_is_one_entry_a_line(reader: Reader, grown_paths: Paths) -> None:
    reader.send("/settings/models.local_hosts", value="box.lan\r\n\r\nnas.lan", do="change")
    assert load_intent(grown_paths).intent.models.local_hosts == ("box.lan", "nas.lan")


def test_what_the_environment_says_is_told_as_such(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, grown_paths: Paths
) -> None:
    monkeypatch.setenv("SAPWOOD_POOL__MAX_WORKERS", "2")
    assert "from the environment" in reader.get("/settings").one('[id="pool.max_workers"]').text()
    said = reader.send("/settings/pool.max_workers", value="4", do="change").main
    assert "SAPWOOD_POOL__MAX_WORKERS beats it" in said


def test_a_broken_config_is_told_and_the_pages_go_on(reader: Reader, grown_paths: Paths) -> None:
    grown_paths.config_file.write_text("models = [broken")
    assert "its last good copy is in use" in reader.get("/settings").main
    assert reader.get("/", q="key").tree.css(".hit")


def test_start_at_login_is_switched(reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from agent.actions.autostart import Autostart

    state = {"on": False}

    def switch(on: bool, paths: Paths | None = None) -> Autostart:
        state["on"] = on
        return look(paths)

    def look(paths: Paths | None = None) -> Autostart:
        return Autostart(state["on"], "xdg", str(tmp_path / "entry"), "")

    monkeypatch.setattr("agent.actions.autostart.set_autostart", switch)
    monkeypatch.setattr("agent.actions.autostart.autostart_status", look)
    page = reader.press(reader.get("/settings"), "Start it at login")
    assert state["on"]
    assert "Sapwood starts when you log in." in page.main
    reader.press(page, "Do not start it")
    assert not state["on"]


def test_help_works_without_a_healthy_memory(reader: Reader, grown_paths: Paths) -> None:
    grown_paths.database.write_bytes(b"no database at all" * 1000)
    for path in ("/help", "/help/doctor", "/help/logs", "/settings"):
        page = reader.get(path)
        assert page.status == 200, path
        assert "Error" in page.one("#state").text()
    assert "to mend" in reader.get("/help/doctor").main
    broken = reader.get("/", q="key")
    assert broken.status == 500
    assert broken.one("h1").text()
    assert "sapwood" in broken.main


def test_the_report_is_shown_whole_before_it_is_saved(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from agent.actions import bug_report
    from agent.actions.bug_report import Report, ReportFile

    report = Report((ReportFile("report.md", "# all <well>", "what happened", 2),), {"addresses": 2}, 0)
    saved: list[Report] = []

    def save(found: Report, target: Path | None = None) -> Path:
        saved.append(found)
        return tmp_path / "report.zip"

    monkeypatch.setattr(bug_report, "collect", lambda paths: report)
    monkeypatch.setattr(bug_report, "save", save)
    page = reader.get("/help/bug-report")
    assert "# all <well>" in page.one("pre").text()
    assert "Taken out: addresses (2)." in page.main
    assert not saved
    said = reader.press(page, "Save it")
    assert str(tmp_path / "report.zip") in said.main
    assert saved == [report]


def test_the_first_screen_stands_until_something_is_named(
    newcomer: Reader, note: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = newcomer.get("/")
    assert page.path == "/welcome"
    assert page.texts(".step h2") == [
        "What should it remember?",
        "Which model makes the summaries?",
        "Should it start when you log in?",
    ]
    asked = newcomer.send("/sources/add", path=str(note("a.md", "a lamp").parent), name="lamps", then="welcome")
    assert asked.path == "/welcome", "there are two more questions"
    assert "Named so far: lamps" in asked.main
    assert newcomer.press(asked, "On to the search").path == "/"


def test_the_first_screen_can_be_skipped_and_stays_skipped(newcomer: Reader) -> None:
    page = newcomer.press(newcomer.get("/"), "Skip this for now")
    assert page.path == "/"
    assert "Nothing is remembered yet" in page.main
    assert newcomer.get("/").path == "/"
    assert newcomer.get("/welcome").status == 200


def test_nothing_is_read_by_opening_pages(newcomer: Reader, paths: Paths) -> None:
    for path in ("/", "/sources", "/sources/add", "/work", "/tree"):
        newcomer.get(path)
    with open_home(paths) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_jobs") == 0
        assert not home.intent.sources


def test_what_was_done_is_said_by_a_token_and_not_by_the_address(reader: Reader) -> None:
    page = reader.get("/sources", told="Your disk is broken, call us")
    assert "call us" not in page.words
    said = reader.press(reader.get("/sources/notes"), "Look at it again")
    assert "The source notes is looked at again." in said.main


def test_a_refused_form_leads_back_to_where_it_came_from(reader: Reader) -> None:
    page = reader.send("/sources/nope/sync", "/sources?x=1")
    assert page.one("main a").attributes["href"] == "/sources?x=1"
    assert "There are: notes, club-mail, club-chat" in page.main


@pytest.mark.parametrize("came_from", ["//evil.example/x", "@evil.example/x"])
def test_no_link_leads_back_to_elsewhere(reader: Reader, came_from: str) -> None:
    link = str(reader.send("/sources/nope/sync", came_from).one("main a").attributes["href"])
    assert link.startswith("/")
    assert not link.startswith("//")


def test_style_and_script_are_served_to_everybody_and_kept(reader: Reader) -> None:
    page = reader.get("/tree")
    style = str(page.one("link[rel=stylesheet]").attributes["href"])
    assert "immutable" in reader.get(style).answer.headers["cache-control"]
    assert reader.get("/static/page.css").answer.headers["cache-control"] == "no-cache"
    assert reader.get("/static/..%2f..%2f__init__.py").status == 404
    assert reader.get("/static/static.py").status == 404
    assert reader.get("/ping").status == 204


def test_times_are_the_owners_and_machines_read_them_too(grown_paths: Paths) -> None:
    from agent.config_edit import edit_intent

    edit_intent(grown_paths, lambda document: document.update(schedule={"timezone": "Pacific/Auckland"}))
    with reading(grown_paths) as reader:
        for each in reader.get("/", q="pear tree", source="club-mail", kind="leaf").tree.css(".hit time"):
            machine = str(each.attributes["datetime"])
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)", machine)
            from datetime import datetime
            from zoneinfo import ZoneInfo

            local = datetime.fromisoformat(machine).astimezone(ZoneInfo("Pacific/Auckland"))
            assert each.text() == f"{local.day} {local:%B %Y, %H:%M}"


def test_an_error_of_ours_is_told_with_what_to_do(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(home: object) -> None:
        raise SapwoodError("the lamp is out", "in the `attic`", "change it with `lamp set`")

    monkeypatch.setattr("agent.actions.sources.sources", refuse)
    page = reader.get("/sources")
    assert page.status == 422
    assert page.one("h1").text() == "The lamp is out"
    assert "lamp set" in page.one(".note code").text()
    assert page.texts("nav .menu a"), "the menu is still there"


def test_a_newcomer_is_told_what_to_click_and_never_what_to_type(newcomer: Reader) -> None:
    for path in ("/", "/tree", "/sources", "/sources/add", "/work", "/models", "/settings", "/welcome"):
        assert "<code>sapwood" not in newcomer.get(path).answer.text, path
    assert "Sapwood was ended" in newcomer.get("/tree").one("#state").text()
