"""Another embedding model: its vectors are built beside the old ones, take over in one step, and cost no call twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.db.serving import embedding_progress
from agent.db.wipe import wipe
from agent.errors import JobFailure
from agent.models.mending import mend
from agent.paths import Paths
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.holds import read_hold
from agent.queue.recovery import recover_stale_locks
from agent.queue.registry import Registry
from agent.queue.requeue import self_heal
from agent.queue.run import run_once
from agent.queue.types import REEMBED_BACKFILL_REVISIT_MS
from agent.states import Lifecycle
from agent.worker.handlers import reembed_backfill
from agent.worker.handlers.reembed_backfill import SPEC
from agent.worker.profile import active_profile, arm_reembed
from tests.worker.embedding_model import CLOUD, DIARY, LOCAL, NOTES, Switching, switching
from tests.worker.memory import add_chunk, add_item, add_summary

BUILTIN = "builtin:static256-i4-2@256"
WORDS = "ollama:words@256"
CLOUDY = "openai:cloudy@256"


@pytest.fixture
def home(connection: Connection, clock: FakeClock, paths: Paths) -> Switching:
    return switching(connection, clock, paths)


def fill(home: Switching, count: int, source_id: str = "notes", first: int = 0) -> list[str]:
    with home.connection.write():
        item = add_item(home.connection, f"{source_id}-{first}.md", source_id=source_id)
        return [
            add_chunk(home.connection, item, f"kettle number{at}", order=at, lifecycle=Lifecycle.SEALED)
            for at in range(first, first + count)
        ]


def test_the_first_model_of_a_home_serves_at_once(home: Switching) -> None:
    fill(home, 3)
    home.use("box")
    home.arm()
    home.turn()
    assert home.serving == WORDS
    assert home.nodes_at(WORDS) == [1, 2, 3]


def test_the_old_signature_serves_until_the_new_one_covers_everything(home: Switching) -> None:
    fill(home, 150)
    home.finish()
    assert home.serving == BUILTIN
    home.use("box")
    home.sweep()
    while home.serving == BUILTIN:
        assert home.nodes_at(BUILTIN) == list(range(1, 151)), "not one is missing meanwhile"
        assert home.turn()
    assert home.serving == WORDS
    assert home.nodes_at(WORDS) == list(range(1, 151)), "it covers everything in the moment that it takes over"
    home.finish()
    assert home.nodes_at(BUILTIN) == []
    assert not home.sweep(), "nothing is left to do"


def test_old_vectors_go_in_bounded_batches(home: Switching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed_backfill, "SPARE_A_RUN", 4)
    fill(home, 10)
    home.finish()
    home.use("box")
    home.sweep()
    left = []
    while home.turn():
        left.append(len(home.nodes_at(BUILTIN)))
    assert left == [6, 2, 0]


def test_a_run_makes_one_call_of_a_bounded_size_and_comes_back_in_750_ms(home: Switching) -> None:
    fill(home, 150)
    home.use("box")
    home.arm()
    home.turn()
    assert [len(each) for each in home.server.asked] == [64]
    due = home.connection.value("SELECT available_at_ms FROM mem_tree_jobs")
    assert due == home.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS
    home.finish()
    assert [len(each) for each in home.server.asked] == [64, 64, 22]


def test_switching_the_chat_model_reembeds_nothing(home: Switching) -> None:
    fill(home, 5)
    home.finish()
    before = home.connection.all("SELECT * FROM mem_tree_vectors")
    home.use("chatty", NOTES)
    chatty = replace(LOCAL, name="chatty", chat_model="another", embedding_model="", embedding_dimensions=None)
    home.context.intent = replace(home.context.intent, profiles=(chatty,))
    assert home.wanted == BUILTIN
    assert not home.sweep()
    assert home.connection.all("SELECT * FROM mem_tree_vectors") == before
    assert home.server.asked == []


def test_back_again_asks_only_about_what_came_meanwhile(home: Switching) -> None:
    fill(home, 200)
    home.use("box")
    home.finish()
    home.use("second")
    home.sweep()
    home.turn()
    fill(home, 1, first=200)
    home.turn()
    assert home.serving == WORDS
    assert 201 not in home.nodes_at(WORDS)
    asked = len(home.server.texts)
    home.use("box")
    home.finish()
    assert [text.split()[-1] for text in home.server.texts[asked:]] == ["number200"]
    assert home.nodes_at(WORDS) == list(range(1, 202))
    assert home.nodes_at("ollama:letters@256") == [], "what was begun with the other one serves nobody"


def test_a_chain_of_a_model_that_nobody_wants_ends(home: Switching) -> None:
    fill(home, 3)
    home.use("box")
    home.arm()
    home.use("second")
    home.turn()
    assert home.row()[0] == "done"
    assert home.server.asked == []


def test_lost_queue_in_the_middle_of_a_switch_is_found_again(home: Switching) -> None:
    fill(home, 100)
    home.finish()
    home.use("box")
    home.sweep()
    home.turn()
    with home.connection.write():
        home.connection.run("DELETE FROM mem_tree_jobs")
    assert home.serving == BUILTIN
    assert home.finish()
    assert (home.serving, home.nodes_at(BUILTIN)) == (WORDS, [])


def test_when_all_that_was_not_covered_is_deleted_the_new_one_takes_over(home: Switching) -> None:
    chunks = fill(home, 100)
    home.finish()
    home.use("box")
    home.sweep()
    home.turn()
    with home.connection.write():
        for chunk in chunks[64:]:
            remove_chunk(home.connection, chunk)
        home.connection.run("DELETE FROM mem_tree_jobs")
    assert home.serving == BUILTIN
    home.finish()
    assert (home.serving, home.nodes_at(BUILTIN)) == (WORDS, [])


def test_a_crash_in_the_middle_repeats_no_more_than_the_call_in_flight(home: Switching) -> None:
    class Dies(BaseException):
        pass

    def dying(context, job):  # type: ignore[no-untyped-def]
        SPEC.handle(context, job)
        raise Dies

    fill(home, 100)
    home.finish()
    home.use("box")
    home.sweep()
    home.turn()
    home.clock.advance(1)
    with pytest.raises(Dies):
        run_once(home.connection, Registry.of([replace(SPEC, handle=dying)]), home.context)
    home.clock.advance(3_600)
    recover_stale_locks(home.connection, home.clock.now_ms(), crash_limit=9)
    home.finish()
    assert (home.serving, home.nodes_at(WORDS)) == (WORDS, list(range(1, 101)))
    assert len(home.server.asked) == 3, "the one that died was asked for again"


def test_forgetting_takes_the_vectors_of_every_signature(home: Switching) -> None:
    chunks = fill(home, 70)
    home.finish()
    home.use("box")
    home.sweep()
    home.turn()
    with home.connection.write():
        remove_chunk(home.connection, chunks[0])
    assert 1 not in [*home.nodes_at(BUILTIN), *home.nodes_at(WORDS)]


def test_a_memory_that_is_grown_again_begins_with_the_wanted_model(home: Switching) -> None:
    fill(home, 3)
    home.finish()
    home.use("box")
    with home.connection.write():
        wipe(home.connection)
    fill(home, 3)
    home.arm()
    home.turn()
    assert home.serving == WORDS


# -- private sources


def test_private_nodes_never_go_to_a_cloud_and_count_as_covered(home: Switching) -> None:
    fill(home, 3)
    fill(home, 2, "diary", first=3)
    home.use("far")
    home.finish()
    assert home.nodes_at(CLOUDY) == [1, 2, 3]
    assert [text.split()[-1] for text in home.server.texts] == ["number0", "number1", "number2"]
    assert home.held()[3:] == [-2, -2]
    assert not home.sweep()
    progress = embedding_progress(home.connection, CLOUDY, home.clock.now_ms())
    assert (progress.nodes, progress.embedded, progress.private, progress.percent) == (5, 3, 2, 100)


def test_nodes_of_a_source_that_nobody_names_are_not_sent_either(home: Switching) -> None:
    fill(home, 2, "lost")
    home.use("far")
    home.finish()
    assert home.server.asked == []
    assert home.held() == [-2, -2]


def test_private_nodes_keep_their_old_vectors_until_the_cloud_takes_over(home: Switching) -> None:
    fill(home, 300)
    fill(home, 2, "diary", first=300)
    home.finish()
    home.use("far")
    home.sweep()
    home.turn()
    assert home.serving == BUILTIN
    assert len(home.nodes_at(BUILTIN)) == 302
    home.finish()
    assert home.serving == CLOUDY


def test_what_the_built_in_profile_did_for_a_private_source_is_armed_for_the_model_in_use(home: Switching) -> None:
    home.use("far")
    stood_in = active_profile(home.context, "seal", ["diary"])
    assert stood_in.embedder.signature == BUILTIN
    (armed,) = arm_reembed(home.context, stood_in)
    assert armed.dedupe_key == f"reembed_backfill:{CLOUDY}"


def test_a_private_source_that_is_opened_is_embedded_then(home: Switching) -> None:
    fill(home, 2)
    fill(home, 2, "diary", first=2)
    home.use("far")
    home.finish()
    home.use("far", NOTES, replace(DIARY, private=False))
    assert home.sweep()
    home.finish()
    assert home.nodes_at(CLOUDY) == [1, 2, 3, 4]


def test_a_source_that_becomes_private_and_is_opened_again_loses_nothing(home: Switching) -> None:
    fill(home, 2)
    home.use("far")
    home.finish()
    home.use("far", replace(NOTES, private=True))
    fill(home, 1, first=2)
    home.finish()
    assert home.nodes_at(CLOUDY) == [1, 2], "what was sent before keeps its vectors"
    assert home.held()[2] == -2
    home.use("far", NOTES)
    home.finish()
    assert home.nodes_at(CLOUDY) == [1, 2, 3]


def test_a_source_that_is_opened_while_it_is_being_marked_loses_nothing(home: Switching) -> None:
    fill(home, 1)
    home.use("far")
    home.finish()
    fill(home, 600, first=1)
    home.use("far", replace(NOTES, private=True))
    home.arm()
    home.turn()
    assert home.held().count(-2) == 512
    home.use("far", NOTES)
    home.finish()
    assert len(home.nodes_at(CLOUDY)) == 601


def test_a_model_at_home_embeds_what_the_cloud_may_not_see(home: Switching) -> None:
    fill(home, 2, "diary")
    home.use("far")
    home.finish()
    assert home.held() == [-2, -2]
    home.use("box")
    home.finish()
    assert home.nodes_at(WORDS) == [1, 2]


def test_many_private_nodes_cost_the_sweep_nothing(home: Switching) -> None:
    def steps() -> int:
        counted = [0]

        def count() -> bool:
            counted[0] += 1
            return False

        home.connection.raw.set_progress_handler(count, 1)
        assert not home.sweep()
        home.connection.raw.set_progress_handler(None, 1)
        return counted[0]

    home.use("far")
    fill(home, 5, "diary")
    home.finish()
    few = steps()
    fill(home, 500, "diary", first=5)
    home.finish()
    assert steps() == few


# -- refusals


@pytest.mark.parametrize("code", ["context_overflow", "bad_output"])
def test_a_text_that_is_refused_is_found_alone_and_covered_without_a_vector(home: Switching, code: str) -> None:
    fill(home, 100)
    home.server.refuses["number37"] = code
    home.use("box")
    home.finish()
    assert home.refused() == [38]
    assert home.nodes_at(WORDS) == [node for node in range(1, 101) if node != 38]
    assert home.serving == WORDS
    assert not home.sweep(), "it is not asked for again"
    assert [len(each) for each in home.server.asked][:4] == [64, 8, 16, 32]
    assert len(home.server.asked) < 20
    assert all("number37" not in text for text in home.server.asked[-1])


def test_neighbours_that_are_all_refused_keep_nobody_else_from_the_provider(home: Switching) -> None:
    fill(home, 100)
    home.server.refuses |= {f"number{at}": "bad_output" for at in range(34, 38)}
    home.use("box")
    home.sweep()
    while home.turn():
        hold = read_hold(home.connection, "box")
        assert hold is None or hold.openings == 0, "texts are to blame, not the provider"
    assert sorted(home.refused()) == [35, 36, 37, 38]
    assert home.serving == WORDS


def test_refusals_are_counted_where_their_owner_sees_them(home: Switching) -> None:
    fill(home, 20)
    home.server.refuses["number7"] = "context_overflow"
    home.use("box")
    home.finish()
    progress = embedding_progress(home.connection, WORDS, home.clock.now_ms())
    assert (progress.refused, progress.embedded, progress.percent) == (1, 20, 100)
    assert progress.words == "1 text refused by the model"


def test_a_text_whose_vector_is_no_number_spoils_no_other(home: Switching) -> None:
    fill(home, 20)
    home.server.silent.add("number7")
    home.use("box")
    home.finish()
    assert home.refused() == [8]
    assert len(home.server.asked) == 1


def test_shrinking_a_batch_is_no_progress(home: Switching) -> None:
    fill(home, 20)
    home.server.refuses["number0"] = "context_overflow"
    home.use("box")
    home.arm()
    home.turn()
    status, _, _, reason, progress_at_ms = home.row()
    assert (status, progress_at_ms) == ("ready", None)
    assert "a smaller one is tried" in str(reason)
    for _ in range(9):
        home.turn()
    assert home.row()[4] is not None


def test_a_server_that_refuses_everything_buries_nothing(home: Switching) -> None:
    fill(home, 100)
    home.server.refuses["number"] = "context_overflow"
    home.use("box")
    home.arm()
    while home.turn():
        pass
    assert home.row()[:3] == ("failed", 1, "context_overflow")
    assert home.refused() == []
    assert home.held() == [None] * 100


@pytest.mark.parametrize("code", ["unreachable", "auth_failed", "model_missing"])
def test_what_is_everybodys_matter_is_no_refusal(home: Switching, code: str) -> None:
    fill(home, 5)
    make = JobFailure.transient if code == "unreachable" else JobFailure.unrecoverable
    home.server.out = make(code, title="it is out")
    home.use("box")
    home.arm()
    home.turn()
    assert home.row()[2] == code
    assert len(home.server.asked) == 1
    assert home.held() == [None] * 5


def grow_and_arm(home: Switching, rounds: int, first: int = 100) -> None:
    """Let a node grow so many times, as extraction does: the back-fill is armed for each, and a minute goes by."""
    for at in range(rounds):
        fill(home, 1, first=first + at)
        with home.connection.write():
            enqueue_many_tx(home.connection, arm_reembed(home.context, active_profile(home.context)), 0)
        home.clock.advance(60)
        home.turn()


def test_a_missing_embedding_model_is_asked_once_however_much_grows(home: Switching) -> None:
    home.use("box")
    home.server.out = JobFailure.unrecoverable("model_missing", title="it has no such model")
    grow_and_arm(home, 20)
    assert len(home.server.asked) == 1
    assert home.connection.value("SELECT count(*) FROM mem_tree_jobs") == 1, "one row says it"
    home.server.out = None
    mend(home.connection, home.clock.now_ms(), scopes=["box"], codes=["model_missing"])
    home.finish()
    assert home.nodes_at(WORDS) == list(range(1, 21))
    grow_and_arm(home, 1, first=200)
    assert home.nodes_at(WORDS) == list(range(1, 22))


def test_vectors_of_no_use_are_not_paid_for_again_whenever_a_node_grows(home: Switching) -> None:
    home.use("box")
    home.server.dimensions = 64
    grow_and_arm(home, 30)
    assert len(home.server.asked) == 3, "as many as the row has attempts"
    home.server.dimensions = 256
    self_heal(home.connection, home.clock.now_ms())
    home.finish()
    assert home.nodes_at(WORDS) == list(range(1, 31))


def test_vectors_of_another_size_are_nobodys_text(home: Switching) -> None:
    fill(home, 5)
    home.server.dimensions = 64
    home.use("box")
    home.arm()
    home.turn()
    status, _, code, words, _ = home.row()
    assert (status, code) == ("ready", "bad_output")
    assert "64 dimensions in place of 256" in str(words)
    assert home.held() == [None] * 5


def test_a_cloud_without_consent_is_not_asked(home: Switching) -> None:
    fill(home, 5)
    home.use("far")
    home.context.intent = replace(home.context.intent, profiles=(replace(CLOUD, consent=""),))
    home.arm()
    home.turn()
    assert home.row()[:3] == ("ready", 0, "no_consent")
    assert home.server.asked == []


# -- summaries, ages


def test_summaries_go_the_same_way(home: Switching) -> None:
    fill(home, 1)
    with home.connection.write():
        seq = add_summary(home.connection, "the kettle whistles")
    home.finish()
    home.use("box")
    home.finish()
    assert home.nodes_at(WORDS) == [-seq, 1]
    assert home.nodes_at(BUILTIN) == []


def test_a_back_fill_that_has_not_moved_for_a_day_says_so(home: Switching) -> None:
    fill(home, 70)
    home.use("box")
    home.arm()
    home.turn()
    moved_ms = home.clock.now_ms()
    home.server.out = JobFailure.transient("rate_limited", title="it asks for a pause")
    for _ in range(25):
        home.clock.advance(3_600)
        home.turn()
    progress = embedding_progress(home.connection, WORDS, home.clock.now_ms())
    assert progress.stuck_since_ms == moved_ms
    assert "has not moved since" in str(progress.words)
    assert "it asks for a pause" in str(progress.words)
    home.server.out = None
    home.clock.advance(24 * 3_600)
    home.finish()
    assert embedding_progress(home.connection, WORDS, home.clock.now_ms()).stuck_since_ms is None
