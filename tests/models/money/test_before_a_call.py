"""What is asked before every call, and in which order: nothing is sent that must not be, nothing is asked in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.config import SourceIntent
from agent.errors import JobFailure, LeaseLost, Postponed
from agent.models.keys import KeyResult
from agent.models.providers.protocol import ChatAsk, Message, ModelFacts
from agent.models.surroundings import KEYS_KEY
from agent.profile_intent import ProfileIntent
from agent.states import Hold, KeyState
from tests.models.money.conftest import ASK, CLOUD, LOCAL, NOTES, SILENCE, Money

MINUTE_MS = 60_000


class Refusing:
    """A guard that refuses from its so-manieth look on."""

    def __init__(self, problem: Exception, after: int = 0) -> None:
        self.problem = problem
        self.looks_left = after

    def look(self, profile: ProfileIntent) -> Exception | None:
        del profile
        self.looks_left -= 1
        return self.problem if self.looks_left < 0 else None


def put_off(money: Money, profile: ProfileIntent = LOCAL) -> Postponed:
    with pytest.raises(Postponed) as found:
        money.calls(profile).chat(ASK, ["notes"])
    assert money.provider.asked == [], "nothing was sent"
    return found.value


def test_a_cloud_gets_nothing_without_consent_to_that_very_host_and_no_other_row_asks(money: Money) -> None:
    for consent in ("", "api.example.org"):
        later = put_off(money, replace(CLOUD, consent=consent))
        assert (later.code, later.scope) == (Hold.NO_CONSENT, "far")
        assert money.keys.asked == [], "no key is looked for"
        hold = money.hold("far")
        assert (hold.code, hold.is_on(money.clock.now_ms())) == (Hold.NO_CONSENT, True)
        assert "sapwood model use far" in hold.reason


def test_consent_that_was_withdrawn_since_the_job_began_counts_at_the_call(money: Money) -> None:
    calls = money.calls(CLOUD)
    money.profiles["far"] = replace(CLOUD, consent="")
    with pytest.raises(Postponed) as found:
        calls.chat(ASK, ["notes"])
    assert found.value.code == Hold.NO_CONSENT
    assert money.provider.asked == []


def test_a_private_source_never_goes_to_a_cloud_whoever_asks(money: Money) -> None:
    money.sources = (
        SourceIntent("diary", "folder", "diary", ("/d",), private=True),
        SourceIntent("notes", "folder", "notes", ("/n",)),
    )
    with pytest.raises(JobFailure) as found:
        money.calls(CLOUD).chat(ASK, ["notes", "diary"])
    assert found.value.code == "private_source"
    assert not found.value.is_unrecoverable(), "its next run takes the built-in profile for these words"
    assert money.provider.asked == []
    with pytest.raises(JobFailure):
        money.calls(CLOUD).embed(["a line of the diary"], ["diary"])
    assert money.provider.asked == []
    money.calls(LOCAL).chat(ASK, ["diary"])
    assert len(money.provider.asked) == 1, "what stays on this machine may be asked"


def test_words_of_a_source_that_nobody_names_any_more_never_go_to_a_cloud(money: Money) -> None:
    with pytest.raises(JobFailure) as found:
        money.calls(CLOUD).chat(ASK, ["notes", "taken-out"])
    assert found.value.code == "private_source"
    with pytest.raises(JobFailure) as found:
        money.calls(CLOUD).embed(["a line"], ["taken-out"])
    assert found.value.code == "private_source"
    assert money.provider.asked == []
    money.calls(LOCAL).chat(ASK, ["taken-out"])
    assert len(money.provider.asked) == 1


def test_a_source_that_becomes_private_while_the_key_is_looked_for_is_not_sent(money: Money) -> None:
    class Slow:
        def get(self, name: str, look: object = None) -> KeyResult:
            del name, look
            money.sources = (replace(NOTES, private=True),)
            return KeyResult(KeyState.VALUE, "a-key")

        def forget(self, name: str) -> None:
            del name

    calls = money.calls(CLOUD)
    money.shared[KEYS_KEY] = Slow()
    with pytest.raises(Postponed, match="private"):
        calls.chat(ASK, ["notes"])
    assert money.provider.asked == []


def test_a_call_under_way_ends_when_its_source_becomes_private(money: Money) -> None:
    def make_private() -> None:
        money.sources = (replace(NOTES, private=True),)

    money.provider.during = make_private
    money.provider.outcomes = [SILENCE]
    with pytest.raises(Postponed, match="private"):
        money.calls(replace(CLOUD, total_seconds=5.0)).chat(ASK, ["notes"])
    assert money.provider.closed == len(money.provider.endpoints)
    assert money.hold("far") is None, "nothing is wrong with the profile"


def test_a_host_that_is_no_longer_named_as_local_gets_no_private_words_from_a_call_that_took_it_for_one(
    money: Money,
) -> None:
    near = replace(CLOUD, name="near", base_url="http://box.example/v1", consent="box.example", key="openai")
    money.sources, money.local_hosts = (replace(NOTES, private=True),), ("box.example",)
    calls = money.calls(near)

    class Slow:
        def get(self, name: str, look: object = None) -> KeyResult:
            del name, look
            money.local_hosts = ()
            return KeyResult(KeyState.VALUE, "a-key")

    money.shared[KEYS_KEY] = Slow()
    with pytest.raises(Postponed, match="private"):
        calls.chat(ASK, ["notes"])
    assert money.provider.asked == []


def test_what_the_guard_says_is_raised_before_anything_is_sent(money: Money) -> None:
    with pytest.raises(LeaseLost):
        money.calls(guard=Refusing(LeaseLost("the worker is to stop"))).chat(ASK, [])
    assert money.provider.asked == []


def test_who_leaves_while_the_sdk_is_loaded_finds_that_nothing_was_sent(money: Money) -> None:
    switched = Postponed(money.clock.now_ms(), "the owner has switched to another model", "", "box")
    with pytest.raises(Postponed, match="switched"):
        money.calls(guard=Refusing(switched, after=1)).chat(ASK, [])
    assert money.provider.asked == []


def test_a_call_under_way_is_ended_when_the_guard_says_so_and_its_connection_is_closed(money: Money) -> None:
    money.provider.outcomes = [SILENCE]
    switched = Postponed(money.clock.now_ms(), "the owner has switched to another model", "", "box")
    with pytest.raises(Postponed, match="switched"):
        money.calls(guard=Refusing(switched, after=2)).chat(ASK, [])
    assert money.provider.closed == len(money.provider.endpoints)
    assert money.hold() is None, "nothing is wrong with the profile"
    assert money.usage() == []


def test_consent_withdrawn_during_a_call_keeps_the_other_rows_from_asking(money: Money) -> None:
    money.provider.outcomes = [SILENCE]
    withdrawn = Postponed(money.clock.now_ms(), "the owner has withdrawn the consent", Hold.NO_CONSENT, "far")
    with pytest.raises(Postponed) as found:
        money.calls(CLOUD, guard=Refusing(withdrawn, after=2)).chat(ASK, [])
    assert found.value.until_ms > money.clock.now_ms(), "it does not come round at once, again and again"
    assert money.hold("far").code == Hold.NO_CONSENT


def test_a_missing_key_fails_the_row_in_words_and_holds_the_others(money: Money) -> None:
    money.keys.held.clear()
    with pytest.raises(JobFailure) as found:
        money.calls(CLOUD).chat(ASK, [])
    assert (found.value.code, found.value.scope) == ("auth_failed", "far")
    assert "sapwood key set openai" in found.value.hint
    assert found.value.is_unrecoverable()
    assert put_off(money, CLOUD).code == Hold.AUTH_FAILED
    assert money.provider.asked == []


@pytest.mark.parametrize("state", [KeyState.LOCKED, KeyState.UNAVAILABLE, KeyState.TIMED_OUT, KeyState.NOT_YET])
def test_a_key_that_cannot_be_had_now_puts_the_job_off_and_is_asked_for_once(money: Money, state: KeyState) -> None:
    again_ms = money.clock.now_ms() + 45_000
    money.keys.states["openai"] = KeyResult(state, reason="the keyring is locked", hint="unlock it", again_ms=again_ms)
    later = put_off(money, CLOUD)
    assert (later.code, later.until_ms, later.scope) == (Hold.KEYS_NOT_YET, again_ms, "far")
    for _ in range(20):
        assert put_off(money, CLOUD).until_ms == again_ms
    assert money.keys.asked == ["openai"], "twenty others waited without a look at the keyring"
    money.keys.states.clear()
    money.clock.advance(45)
    money.calls(CLOUD).chat(ASK, [])
    assert money.provider.endpoints[0].key == "a-key"


def test_a_refused_key_is_forgotten_by_the_process(money: Money) -> None:
    from tests.models.money.conftest import failure

    money.provider.outcomes = [failure("auth_failed")]
    with pytest.raises(JobFailure):
        money.calls(CLOUD).chat(ASK, [])
    assert money.keys.forgotten == ["openai"]


def test_a_local_model_that_does_not_fit_into_memory_is_put_off(money: Money) -> None:
    money.provider.facts_said = ModelFacts("small:1b", 5_000_000_000, 8_192, is_loaded=False)
    money.memory.available = 5_100_000_000
    later = put_off(money)
    assert (later.code, later.until_ms) == (Hold.LOW_MEMORY, money.clock.now_ms() + MINUTE_MS)
    assert "5.5 GB" in later.reason
    money.clock.advance(61)
    money.memory.available = 6_000_000_000
    money.calls().chat(ASK, [])


def test_a_model_that_is_loaded_needs_no_more_memory(money: Money) -> None:
    money.provider.facts_said = ModelFacts("small:1b", 5_000_000_000, 8_192, is_loaded=True)
    money.memory.available = 400_000_000
    money.calls().chat(ASK, [])
    assert len(money.provider.asked) == 1


def test_the_profiles_own_size_counts_and_a_model_elsewhere_needs_none_of_our_memory(money: Money) -> None:
    money.provider.facts_said = ModelFacts("small:1b", None, 8_192, is_loaded=False)
    money.memory.available = 2_000_000_000
    money.calls().chat(ASK, [])
    money.provider.asked.clear()
    assert put_off(money, replace(LOCAL, model_bytes=3_000_000_000)).code == Hold.LOW_MEMORY
    money.clock.advance(61)
    money.memory.available = 1_000
    money.calls(CLOUD).chat(ASK, [])
    assert len(money.provider.asked) == 1


def test_secrets_are_masked_once_more_before_sending(money: Money) -> None:
    secret = "password: hunter2-and-more"
    money.calls().chat(ChatAsk((Message("user", f"note it, {secret}, please"),), 5, 5), [])
    money.calls().embed([f"the {secret}"], [])
    said = str(money.provider.asked)
    assert "hunter2" not in said
    assert said.count("[masked: password]") == 2


def test_a_call_ends_before_its_jobs_limit_of_time(money: Money) -> None:
    money.calls(replace(LOCAL, total_seconds=1_000.0)).chat(ASK, [])
    calls = money.calls(replace(LOCAL, total_seconds=1_000.0))
    money.clock.advance(100)
    calls.chat(ASK, [])
    money.calls(replace(LOCAL, total_seconds=30.0)).chat(ASK, [])
    assert [each.total_s for each in money.provider.endpoints][-3:] == [285.0, 185.0, 30.0]


def test_a_local_profile_may_only_reach_local_addresses(money: Money) -> None:
    money.calls(LOCAL).chat(ASK, [])
    money.calls(CLOUD).chat(ASK, [])
    assert [each.local_only for each in money.provider.endpoints if each.chat_model == "large"] == [False]
    assert all(each.local_only for each in money.provider.endpoints if each.chat_model == "small:1b")


def test_the_context_is_asked_for_once_a_process_and_the_profiles_own_word_beats_the_server(money: Money) -> None:
    for _ in range(3):
        assert money.calls().context_tokens() == 8_192
    assert money.provider.facts_asked == 1
    assert money.calls(replace(LOCAL, context_tokens=2_048)).context_tokens() == 2_048
    money.provider.facts_said = ModelFacts("large")
    assert money.calls(CLOUD).context_tokens() == 16_000
