"""Every call is metered with its answer, no answer is paid for twice, and a limit of the day ends at its midnight."""

from __future__ import annotations

import errno
import multiprocessing
import os
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from agent.db import Connection, Database
from agent.db.nodes import remove_chunk
from agent.errors import Postponed
from agent.models.budget import day_of, next_midnight_ms, zone_of
from agent.models.calling import TRY_COUNTS_MS
from agent.models.providers.protocol import EmbedAnswer
from agent.models.results import WorkUnit
from agent.models.spending import Account, Spent, read_file, reconcile, usage_file
from agent.paths import Paths, paths_under
from agent.states import Hold
from tests.models.money.conftest import ASK, CLOUD, LOCAL, ChatAnswer, Money, failure
from tests.worker.memory import add_chunk, add_item


def chunks(connection: Connection, *texts: str) -> list[str]:
    with connection.write():
        item = add_item(connection)
        return [add_chunk(connection, item, text, order=order) for order, text in enumerate(texts)]


def unit(node_id: str, text: str = "input") -> WorkUnit:
    return WorkUnit.of("summarise", "Template", "ollama:small:1b", text, node_id)


def test_a_call_is_metered_in_the_transaction_that_stores_its_answer(money: Money) -> None:
    first, second = chunks(money.connection, "one", "two")
    calls = money.calls(CLOUD, kind="extract_chunk")
    answer = calls.chat(ASK, ["notes"])
    asked = unit(first)
    assert calls.find(asked) is None
    calls.keep(answer, [(asked, [first, second], '{"a": 1}')])
    assert calls.find(asked) == '{"a": 1}'
    assert money.usage() == [("far", "large", "extract_chunk", 1, 0, 11, 3)]
    assert money.connection.value("SELECT cost_micros FROM mem_tree_usage") == 11 * 2 + 3 * 10
    inputs = money.connection.all(
        "SELECT node_id FROM mem_tree_result_inputs WHERE input_hash = ?", (asked.input_hash,)
    )
    assert {row[0] for row in inputs} == {first, second}


def test_what_is_stored_waits_for_the_disk(money: Money, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    calls = money.calls()
    answer = calls.chat(ASK, [])
    from agent.models import calls as module

    real = module.meter_tx

    def watching(connection: Connection, account: Account, spent: Spent) -> None:
        levels.append(connection.value("PRAGMA synchronous"))
        real(connection, account, spent)

    monkeypatch.setattr(module, "meter_tx", watching)
    calls.keep(answer, [])
    calls.embed(["text"], [])
    calls.refuse(calls.chat(ASK, []), [])
    assert levels == [2, 2, 2], "FULL"


def test_an_answer_of_which_part_is_of_use_is_metered_once(money: Money) -> None:
    first, second = chunks(money.connection, "one", "two")
    for keep_first in (True, False):
        calls = money.calls(kind=f"kind-{keep_first}")
        answer = calls.chat(ASK, [])
        steps = [
            lambda calls=calls, answer=answer: calls.keep(answer, [(unit(first, "a"), [first], "{}")]),
            lambda calls=calls, answer=answer: calls.refuse(answer, [(unit(second, "b"), "no number")]),
        ]
        for step in steps if keep_first else reversed(steps):
            step()
    assert [row[3] for row in money.usage()] == [1, 1]
    assert sum(spent.calls for spent in read_file(money.paths).values()) == 2
    assert money.calls().tries(unit(second, "b")).count == 2


def test_an_answer_of_no_use_is_metered_counted_and_never_served(money: Money) -> None:
    (node,) = chunks(money.connection, "one")
    calls = money.calls()
    calls.refuse(calls.chat(ASK, []), [(unit(node), "a name that is not in the text")])
    assert money.usage() == [("box", "small:1b", "seal", 1, 1, 11, 3)]
    assert calls.find(unit(node)) is None
    assert (calls.tries(unit(node)).count, calls.tries(unit(node)).problem) == (1, "a name that is not in the text")
    assert read_file(money.paths)[Account(money_day(money), "box", "small:1b", "seal")] == Spent(1, 1, 0, 11, 3, 0)


def money_day(money: Money) -> str:
    return day_of(money.clock.now_ms(), zone_of(money.timezone))


def test_an_answer_in_vain_no_longer_counts_after_half_a_day_and_a_good_one_ends_the_count(money: Money) -> None:
    (node,) = chunks(money.connection, "one")
    calls = money.calls()
    for _ in range(2):
        calls.refuse(calls.chat(ASK, []), [(unit(node), "too long")])
    assert calls.tries(unit(node)).count == 2
    money.clock.advance(TRY_COUNTS_MS / 1000 + 1)
    assert calls.tries(unit(node)).count == 0
    calls.refuse(calls.chat(ASK, []), [(unit(node), "too long")])
    assert calls.tries(unit(node)).count == 1, "begun anew"
    calls.keep(calls.chat(ASK, []), [(unit(node), [node], "{}")])
    assert calls.tries(unit(node)).count == 0
    assert money.connection.value("SELECT count(*) FROM mem_tree_attempts") == 0


def test_embedding_is_metered_by_itself_and_what_the_server_did_not_count_is_marked(money: Money) -> None:
    money.provider.outcomes = [EmbedAnswer([[0.1, 0.2]], 7, counted=False)]
    money.calls(kind="search").embed(["where is the kettle"], [])
    assert money.usage() == [("box", "tiny-embed", "search", 1, 0, 7, 0)]
    assert money.connection.value("SELECT estimated FROM mem_tree_usage") == 1


def test_usage_is_the_sum_of_what_the_server_counted(money: Money) -> None:
    counts = [(10, 1), (200, 30), (3_000, 400)]
    money.provider.outcomes = [ChatAnswer("x", tokens_in, out) for tokens_in, out in counts] + [failure("unreachable")]
    for _ in counts:
        calls = money.calls(CLOUD)
        calls.keep(calls.chat(ASK, []), [])
    with pytest.raises(Exception, match="unreachable"):
        money.calls(CLOUD).chat(ASK, [])
    assert money.usage() == [("far", "large", "seal", 3, 0, 3_210, 431)], "one that failed said nothing"
    total = sum(read_file(money.paths).values(), Spent())
    assert (total.calls, total.tokens_in, total.tokens_out) == (3, 3_210, 431)


def test_an_answer_about_what_was_forgotten_meanwhile_is_paid_for_and_not_stored(money: Money) -> None:
    first, second = chunks(money.connection, "one", "two")
    calls = money.calls()
    answer = calls.chat(ASK, [])
    with money.connection.write():
        remove_chunk(money.connection, second)
    calls.keep(answer, [(unit(first), [first, second], "words of both")])
    assert calls.find(unit(first)) is None
    assert money.connection.value("SELECT count(*) FROM mem_tree_result_inputs") == 0
    assert money.usage()[0][3] == 1


def test_an_answer_that_a_full_disk_refused_is_stored_later_and_not_asked_for_again(
    money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = chunks(money.connection, "one")
    calls = money.calls()
    answer = calls.chat(ASK, [])
    with monkeypatch.context() as patch:
        patch.setattr("agent.models.calls.store_result_tx", full_disk)
        with pytest.raises(OSError, match="No space"):
            calls.keep(answer, [(unit(node), [node], "{}")])
    assert money.usage() == []
    assert money.calls().find(unit(node)) == "{}"
    assert money.usage() == [("box", "small:1b", "seal", 1, 0, 11, 3)]
    assert money.calls().find(unit(node)) == "{}"
    assert money.usage()[0][3] == 1


def full_disk(*_: object) -> bool:
    raise OSError(errno.ENOSPC, "No space left on device")


# -- a process that dies ----------------------------------------------------------------------------------------------


def one_job(home: str, dies: str) -> None:
    """Ask about a chunk as a job does, and die where told to; a file counts what the server was asked."""
    from pathlib import Path

    from agent.clock import FakeClock
    from agent.models.keys import FakeKeys
    from agent.system.memory import FakeMemory
    from tests.models.money.conftest import FakeProvider

    paths = paths_under(Path(home))
    database = Database(paths.database, paths.write_turn)
    connection = database.connection
    provider = FakeProvider()
    money = Money(connection, paths, FakeClock(), provider, FakeKeys(), FakeMemory(available=1 << 40), {"box": LOCAL})

    def answered() -> None:
        with Path(home, "asked").open("a") as stream:
            stream.write("x")
        if dies == "during":
            os._exit(9)

    provider.during = answered
    node = connection.value("SELECT chunk_id FROM mem_tree_chunks")
    calls = money.calls()
    if calls.find(unit(node)) is None:
        answer = calls.chat(ASK, [])
        if dies == "answered":
            os._exit(9)
        calls.keep(answer, [(unit(node), [node], "{}")])
    if dies == "kept":
        os._exit(9)
    database.close()


def in_a_process(*args: Any) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=one_job, args=args)
    process.start()
    process.join(60)
    return process.exitcode


def test_a_crash_pays_again_only_for_the_call_that_was_under_way(money: Money) -> None:
    chunks(money.connection, "one")
    home = str(money.paths.config_dir.parent)
    assert in_a_process(home, "kept") == 9
    assert in_a_process(home, "") == 0
    asked = (money.paths.config_dir.parent / "asked").read_text()
    assert asked == "x", "what was kept is not asked again"


def test_a_crash_between_answer_and_keeping_is_metered_at_the_next_start(money: Money) -> None:
    chunks(money.connection, "one")
    assert in_a_process(str(money.paths.config_dir.parent), "answered") == 9
    assert money.usage() == []
    assert reconcile(money.connection, money.paths) == 1
    assert [row[3:] for row in money.usage()] == [(1, 0, 11, 3)]
    assert reconcile(money.connection, money.paths) == 0


# -- the limit of a day -----------------------------------------------------------------------------------------------


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "now", "midnight"),
    [
        ("UTC", "2026-11-03T13:00:00+00:00", "2026-11-04T00:00:00+00:00"),
        ("Europe/Berlin", "2026-11-03T23:30:00+00:00", "2026-11-04T23:00:00+00:00"),
        ("Europe/Berlin", "2026-03-29T00:30:00+01:00", "2026-03-30T00:00:00+02:00"),  # a day of 23 hours
        ("Europe/Berlin", "2026-10-25T00:30:00+02:00", "2026-10-26T00:00:00+01:00"),  # a day of 25 hours
        ("Pacific/Auckland", "2026-09-26T12:30:00+00:00", "2026-09-27T11:00:00+00:00"),
        ("America/Santiago", "2026-09-05T12:00:00-04:00", "2026-09-06T01:00:00-03:00"),  # no midnight: clocks go to one
        ("Asia/Kathmandu", "2026-11-03T18:20:00+00:00", "2026-11-04T18:15:00+00:00"),
    ],
)
def test_the_next_day_begins_at_midnight_of_the_owners_zone(zone: str, now: str, midnight: str) -> None:
    assert zone_of(zone) is not None
    found = next_midnight_ms(at(now), zone_of(zone))
    assert found == at(midnight)
    assert day_of(found, zone_of(zone)) > day_of(at(now), zone_of(zone)) == day_of(found - 1, zone_of(zone))


def test_an_unknown_zone_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "Nowhere/Nothing", "../../etc/passwd"):
        assert zone_of(name) is None
    now_ms = at("2026-11-03T13:00:00+00:00")
    assert 0 < next_midnight_ms(now_ms, None) - now_ms <= 25 * 3_600_000


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles"])
def test_a_daily_limit_puts_jobs_off_until_midnight_in_the_owners_zone(money: Money, zone: str) -> None:
    money.timezone = zone
    money.clock.set_wall(at("2026-10-25T00:30:00+02:00"))
    limited = replace(LOCAL, daily_tokens=100)
    for _ in range(4):  # 14 tokens each; an ask may take 50
        calls = money.calls(limited)
        calls.keep(calls.chat(ASK, []), [])
    midnight = next_midnight_ms(money.clock.now_ms(), zone_of(zone))
    for _ in range(20):
        with pytest.raises(Postponed) as found:
            money.calls(limited).chat(ASK, [])
        assert (found.value.code, found.value.until_ms) == (Hold.DAILY_LIMIT, midnight)
    assert "100 tokens" in found.value.reason
    assert "56 used today" in found.value.reason
    assert len(money.provider.asked) == 4
    money.clock.set_wall(midnight - 1)
    with pytest.raises(Postponed):
        money.calls(limited).chat(ASK, [])
    money.clock.set_wall(midnight)
    calls = money.calls(limited)
    calls.keep(calls.chat(ASK, []), [])
    assert money.hold() is None


def test_a_limit_below_one_call_says_so(money: Money) -> None:
    with pytest.raises(Postponed, match="less than one call takes") as found:
        money.calls(replace(LOCAL, daily_tokens=20)).chat(ASK, [])
    assert "profiles.box.daily_tokens" in found.value.reason


# -- the lines beside the ledger --------------------------------------------------------------------------------------


def spend(money: Money, times: int = 1) -> None:
    for _ in range(times):
        calls = money.calls(CLOUD)
        calls.keep(calls.chat(ASK, []), [])


def test_a_memory_that_begins_anew_knows_what_was_spent(money: Money, paths: Paths) -> None:
    spend(money, 3)
    before = money.usage()
    money.connection.run("DELETE FROM mem_tree_usage")
    reconcile(money.connection, paths)
    assert money.usage() == before


def test_a_file_that_was_lost_is_made_again_from_the_memory(money: Money, paths: Paths) -> None:
    spend(money, 3)
    before = read_file(paths)
    usage_file(paths).unlink()
    reconcile(money.connection, paths)
    assert read_file(paths) == before
    assert usage_file(paths).stat().st_mode & 0o777 == 0o600


def test_a_torn_line_and_nonsense_in_the_file_cost_nothing_else(money: Money, paths: Paths) -> None:
    spend(money)
    with usage_file(paths).open("ab") as stream:
        stream.write(b'[]\nnull\n{"day": 5}\n\xff\xfe\n')
        stream.write(b'{"day":"2026-01-01","profile":"p","model":"m","kind":"k","calls":1e400}\n{"da')
    spend(money)
    assert sum(spent.calls for spent in read_file(paths).values()) == 2


def test_a_long_file_becomes_one_line_an_account_and_counts_the_same(
    money: Money, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.models import spending

    monkeypatch.setattr(spending, "COMPACT_BYTES", 600)
    spend(money, 20)
    assert len(usage_file(paths).read_bytes()) <= 700
    assert sum(read_file(paths).values(), Spent()) == Spent(20, 0, 0, 220, 60, 20 * (22 + 30))


def test_a_disk_that_takes_no_line_costs_no_answer(money: Money, paths: Paths) -> None:
    usage_file(paths).mkdir()
    spend(money)
    assert money.usage()[0][3] == 1
