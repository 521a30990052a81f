"""Every call of a model goes through here: see ``calling.py`` for what it promises.

Before a call, in this order: may it go on at all, consent, private sources, a hold that another process opened, the
daily limit, the key, the memory of this machine. Each of these costs nothing that is paid for, puts the job off or
fails it in words, and keeps the other rows from asking the same. Then secrets are masked once more and it is sent.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from agent.clock import iso
from agent.db.faults import is_database_fault
from agent.errors import JobFailure, Postponed
from agent.models.breaker import (
    MENDED_BY_CHAT,
    MENDED_BY_EMBEDDING,
    fail,
    give_probe_back,
    hold_back,
    is_disproved,
    take_probe,
)
from agent.models.budget import day_of, next_midnight_ms, over_limit, tokens_on, zone_of
from agent.models.calling import Tries
from agent.models.results import count_try_tx, find_result, find_tries, forget_tries_tx, store_result_tx
from agent.models.spending import Account, Spent, cost_micros, meter_tx, note_spent
from agent.queue.holds import bring_forward, lift_hold_tx, put_hold_tx, read_hold
from agent.queue.requeue import requeue_failed
from agent.states import Hold, KeyState

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.calling import CallGuard, ModelCalls
    from agent.models.keys import KeyResult, KeySource
    from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, ModelFacts, Provider
    from agent.models.results import WorkUnit
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent
    from agent.queue.registry import JobContext

OPENER_KEY, KEYS_KEY, MEMORY_KEY, FACTS_KEY = "open_provider", "model_keys", "memory_probe", "model_facts"
"""What stands in ``shared``: a test's way to a provider, to keys and to the memory; what servers said of models."""
LATE_KEY = "answers_to_be_stored"
"""Answers that the database refused (a full disk): stored as soon as it takes them, and not asked for again."""
MOST_LATE = 1_000

SPARE_S = 15.0
"""A call ends so long before its job's limit of time: the supervisor's kill must never come first."""
SHORTEST_S = 5.0
NO_CONSENT_MS = 15 * 60_000
KEYS_MS = 30_000
LOW_MEMORY_MS = 60_000
SPARE_BYTES = 300_000_000
"""What a model takes besides its file (its context), at least; a tenth of the file where that is more."""
LOCAL_CONTEXT, CLOUD_CONTEXT = 4_096, 16_000
"""What a model is taken to read at once where neither the profile nor the server says it."""

AnswerT = TypeVar("AnswerT")


def calls_of(context: JobContext, profile: ProfileIntent, kind: str, guard: CallGuard) -> ModelCalls:
    """Return the calls of one job. ``kind`` is what the meter files them under."""
    return Calls(
        Surroundings(
            context.connection,
            context.paths,
            context.clock,
            lambda: context.intent_now,
            context.shared,
            context.intent.time_limit_s(kind) - SPARE_S,
            SHORTEST_S,
        ),
        profile,
        kind,
        guard,
    )


def calls_for(
    connection: Connection,
    paths: Paths,
    clock: Clock,
    intent: Intent | Callable[[], Intent],
    profile: ProfileIntent,
    kind: str,
    guard: CallGuard | None = None,
    *,
    shared: dict[str, Any] | None = None,
    limit_s: float | None = None,
    is_trial: bool = False,
) -> ModelCalls:
    """Return calls without a job: of a search, of ``sapwood model test``. They meet the same holds and limits.

    ``shared`` is what lives as long as the process. ``limit_s`` is how long a call may take, where the profile's own
    total limit is too much. The caller takes the permit. ``is_trial``: the owner wants to know now whether a cause is
    mended, so a hold keeps it from nothing, and what comes of it holds nobody else back.
    """
    now = intent if callable(intent) else (lambda: intent)
    shared = {} if shared is None else shared
    around = Surroundings(
        connection, paths, clock, now, shared, limit_s, is_hasty=limit_s is not None, is_trial=is_trial
    )
    return Calls(around, profile, kind, NoGuard() if guard is None else guard)


class NoGuard:
    """Lets every call go on: somebody waits for it at the keyboard and ends it there."""

    def look(self, profile: ProfileIntent) -> Exception | None:
        """Return ``None``."""
        del profile
        return None


@dataclass(frozen=True)
class Surroundings:
    """What calls need to know. ``limit_s`` is counted from when the calls were made for a job; what a call gets of it
    is never less than ``shortest_s``. ``is_hasty``: it is how long somebody waits, no measure of a server.
    ``is_trial``: no hold counts, and none comes of it.
    """

    connection: Connection
    paths: Paths
    clock: Clock
    intent: Callable[[], Intent]
    shared: dict[str, Any]
    limit_s: float | None
    shortest_s: float = 0.5
    is_hasty: bool = False
    is_trial: bool = False


class _WaitedForTooLong(Exception):
    """A hasty call came to its end before its server's limits did."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__()
        self.failure = failure


@dataclass
class _Answered:
    """An answer that is in nobody's keep yet, and what it took."""

    answer: ChatAnswer
    account: Account
    spent: Spent
    is_metered: bool = False
    is_kept: bool = False


class Calls:
    """The calls of one profile for one job or command."""

    def __init__(self, around: Surroundings, profile: ProfileIntent, kind: str, guard: CallGuard) -> None:
        self._around = around
        self._connection = around.connection
        self._clock = around.clock
        self._profile = profile
        self._kind = kind
        self._guard = guard
        self._started = around.clock.monotonic()
        self._answered: list[_Answered] = []
        self._sources: tuple[str, ...] = ()
        """Whose words the call holds."""
        self._probe_ms: int | None = None
        """Until when the profile's hold goes on while ours is the one call that is tried after it."""

    @property
    def profile(self) -> ProfileIntent:
        return self._profile

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def secret(self) -> bytes:
        from agent.models.fencing import install_secret

        return install_secret(self._around.paths.config_dir)

    # -- asking

    def context_tokens(self) -> int:
        if self._profile.context_tokens is not None:
            return self._profile.context_tokens
        said = self._facts().context_tokens
        if said is not None:
            return said
        return LOCAL_CONTEXT if self._around.intent().is_local(self._profile) else CLOUD_CONTEXT

    def chat(self, ask: ChatAsk, sources: Iterable[str]) -> ChatAnswer:
        from agent.masking.mask import mask_secrets

        messages = tuple(replace(each, text=mask_secrets(each.text)) for each in ask.messages)
        sent = replace(ask, messages=messages)
        answer = self._call(
            lambda provider: provider.chat(sent), sources, ask.prompt_tokens + ask.max_output_tokens, loads=True
        )
        account, spent = self._took(answer.tokens_in, answer.tokens_out, self._profile.chat_model, answer.counted)
        self._answered.append(_Answered(answer, account, spent))
        return answer

    def embed(self, texts: Sequence[str], sources: Iterable[str]) -> EmbedAnswer:
        from agent.masking.mask import mask_secrets
        from agent.tokens import count_tokens

        sent = [mask_secrets(text) for text in texts]
        wanted = sum(map(count_tokens, sent))
        answer = self._call(lambda provider: provider.embed(sent), sources, wanted, embeds=True)
        account, spent = self._took(answer.tokens_in, 0, self._profile.embedding_model, answer.counted)
        with self._connection.write(full=True):
            meter_tx(self._connection, account, spent)
            lifted = self._lift_tx(embeds=True)
        self._bring_back(lifted, MENDED_BY_EMBEDDING)
        return answer

    # -- what was answered

    def find(self, unit: WorkUnit) -> str | None:
        self._store_late()
        return find_result(self._connection, unit)

    def tries(self, unit: WorkUnit) -> Tries:
        return Tries(*find_tries(self._connection, unit, self._clock.now_ms()))

    def keep(self, answer: ChatAnswer, results: Sequence[tuple[WorkUnit, Sequence[str], str]]) -> None:
        found = self._of(answer)
        try:
            lifted = self._keep(found, results)
        except Exception as error:
            late = self._late()
            if is_database_fault(error) and len(late) < MOST_LATE:
                late.append((found, tuple(results)))
            raise
        self._bring_back(lifted, MENDED_BY_CHAT)

    def _keep(self, found: _Answered, results: Sequence[tuple[WorkUnit, Sequence[str], str]]) -> bool:
        now_ms = self._clock.now_ms()
        with self._connection.write(full=True):
            for unit, node_ids, result in results:
                store_result_tx(self._connection, unit, result, now_ms, node_ids)
                forget_tries_tx(self._connection, unit)
            lifted = self._meter_tx(found, found.spent)
        found.is_metered = True
        found.is_kept = found.is_kept or bool(results)
        return lifted

    def _store_late(self) -> None:
        late = self._late()
        while late:
            self._keep(*late[0])
            del late[0]

    def _late(self) -> list[tuple[_Answered, tuple[tuple[WorkUnit, Sequence[str], str], ...]]]:
        found: list[Any] = self._around.shared.setdefault(LATE_KEY, [])
        return found

    def refuse(self, answer: ChatAnswer | None, refused: Sequence[tuple[WorkUnit, str]]) -> None:
        now_ms = self._clock.now_ms()
        if answer is None:
            with self._connection.write(full=True):
                for unit, problem in refused:
                    count_try_tx(self._connection, unit, problem, now_ms)
            return
        found = self._of(answer)
        invalid = Spent() if found.is_kept else Spent(invalid=1)
        with self._connection.write(full=True):
            for unit, problem in refused:
                count_try_tx(self._connection, unit, problem, now_ms)
            lifted = self._meter_tx(found, found.spent + invalid)
        if invalid and not found.is_metered:
            note_spent(self._around.paths, found.account, invalid)
        found.is_metered = True
        self._bring_back(lifted, MENDED_BY_CHAT)

    def _of(self, answer: ChatAnswer) -> _Answered:
        return next(each for each in reversed(self._answered) if each.answer is answer)

    def _meter_tx(self, found: _Answered, spent: Spent) -> bool:
        if not found.is_metered:
            meter_tx(self._connection, found.account, spent)
        return self._lift_tx()

    def _took(self, tokens_in: int, tokens_out: int, model: str, counted: bool) -> tuple[Account, Spent]:
        """Return what a call took, which is on the disk beside the ledger by then."""
        profile = self._profile
        day = day_of(self._clock.now_ms(), self._zone())
        account = Account(day, profile.name, model, self._kind)
        spent = Spent(
            calls=1,
            estimated=int(not counted),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_micros=cost_micros(tokens_in, tokens_out, profile.price_in, profile.price_out),
        )
        note_spent(self._around.paths, account, spent)
        return account, spent

    def _lift_tx(self, *, embeds: bool = False) -> bool:
        """Lift the profile's hold where an answer disproves it; return whether rows are to be brought back for that."""
        if self._around.is_trial:
            return False  # who tries mends all that an answer disproves
        held = read_hold(self._connection, self._profile.name)
        probe_ms, self._probe_ms = self._probe_ms, None
        is_probe = probe_ms is not None
        if embeds and held is not None and held.code is Hold.MODEL_MISSING:
            # That is the chat model, of which this answer says nothing: a call of it is still to be tried.
            if is_probe and held.until_ms == probe_ms:
                put_hold_tx(self._connection, replace(held, until_ms=self._clock.now_ms()), self._clock.now_ms())
            return False
        if held is None or not is_disproved(held, self._clock.now_ms(), is_probe=is_probe):
            return False
        lift_hold_tx(self._connection, self._profile.name)
        return held.openings > 0

    def _bring_back(self, lifted: bool, reasons: Sequence[str]) -> None:
        if lifted:
            name, now_ms = self._profile.name, self._clock.now_ms()
            requeue_failed(self._connection, now_ms, scopes=[name], reasons=reasons)
            bring_forward(self._connection, name, now_ms)

    # -- before a call

    def _call(
        self,
        ask: Callable[[Provider], Awaitable[AnswerT]],
        sources: Iterable[str],
        tokens: int,
        *,
        embeds: bool = False,
        loads: bool = False,
    ) -> AnswerT:
        """Return what the provider says, when everything allows that it is asked. ``tokens`` is the most it may take.

        ``loads``: it needs the chat model in the memory. Where it is the one call that is tried after a hold, whoever
        asked lifts the hold with ``_lift_tx``.
        """
        self._guarded()
        self._sources = tuple(sources)
        intent = self._around.intent()
        is_local = intent.is_local(self._profile)
        self._need_consent(intent, is_local)
        self._refuse_private(intent, is_local)
        self._pass_hold()
        try:
            self._stay_within_limit(tokens)
            endpoint = self._endpoint(intent, is_local)
            if loads:
                self._need_memory(endpoint)
            return self._send(endpoint, ask)
        except _WaitedForTooLong as over:
            self._end_probe()
            raise over.failure from None
        except JobFailure as failure:
            raise self._failed(failure, embeds=embeds) from None
        except Postponed as later:
            raise self._kept_back(later) from None
        except BaseException:
            self._end_probe()
            raise

    def _failed(self, failure: JobFailure, *, embeds: bool) -> JobFailure | Postponed:
        if failure.code == Hold.AUTH_FAILED and self._profile.key_name:
            self._keys().forget(self._profile.key_name)
        if self._around.is_trial:
            return failure
        is_probe, self._probe_ms = self._probe_ms is not None, None
        name, now_ms = self._profile.name, self._clock.now_ms()
        return fail(self._connection, failure, name, now_ms, is_probe=is_probe, embeds=embeds)

    def _kept_back(self, later: Postponed) -> Postponed:
        """Return a word to wait, with the hold that keeps others from hearing the same one by one."""
        if later.code == Hold.NO_CONSENT:
            return self._hold(Hold.NO_CONSENT, later.reason, NO_CONSENT_MS)
        self._end_probe()
        return later

    def _hold(self, code: Hold, reason: str, wait_ms: int) -> Postponed:
        now_ms = self._clock.now_ms()
        if self._around.is_trial:
            return Postponed(now_ms + wait_ms, reason, str(code), self._profile.name)
        is_probe, self._probe_ms = self._probe_ms is not None, None
        return hold_back(
            self._connection, self._profile.name, code, reason, now_ms + wait_ms, now_ms, is_probe=is_probe
        )

    def _end_probe(self) -> None:
        if self._probe_ms is not None:
            give_probe_back(self._connection, self._profile.name, self._probe_ms, self._clock.now_ms())
            self._probe_ms = None

    def _guarded(self) -> None:
        problem = self._guard.look(self._profile)
        if isinstance(problem, Postponed):
            raise self._kept_back(problem)
        if problem is not None:
            raise problem

    def _need_consent(self, intent: Intent, is_local: bool) -> None:
        if is_local:
            return
        current = intent.profile(self._profile.name)
        agreed = self._profile.has_consent() and (current is None or current.has_consent())
        if not agreed:
            reason = (
                f"text may not be sent to {self._profile.host} before its owner agrees: "
                f"`sapwood model use {self._profile.name}`"
            )
            raise self._hold(Hold.NO_CONSENT, reason, NO_CONSENT_MS)

    def _look(self) -> Exception | None:
        """Return why the call must end: what the guard says, or that its words may not leave this machine any more."""
        problem = self._guard.look(self._profile)
        if problem is not None:
            return problem
        intent = self._around.intent()
        if intent.is_local(self._profile) or not any(map(intent.is_private, self._sources)):
            return None
        # The next run takes another profile for them.
        return Postponed(self._clock.now_ms(), "a source of these words is private now", "", None)

    def _refuse_private(self, intent: Intent, is_local: bool) -> None:
        if is_local or not any(map(intent.is_private, self._sources)):
            return
        # Who asks chose another profile for these words. Mostly the owner called the source private a moment ago, and
        # the next run takes the built-in profile; a fault of the program ends after the row's attempts.
        failure = JobFailure.transient(
            "private_source",
            title="text of a private source was about to be sent to a cloud",
            detail=f"to {self._profile.host}; it was not sent",
            hint="it is tried again by itself; please report it if it comes again",
        )
        failure.scope = self._profile.name
        raise failure

    def _pass_hold(self) -> None:
        """Go on where the profile has no hold, or where it is over and ours is the one call that is tried."""
        if self._around.is_trial:
            return
        held = read_hold(self._connection, self._profile.name)
        if held is None or held.openings == 0 or self._probe_ms is not None:
            return
        now_ms = self._clock.now_ms()
        if not held.is_on(now_ms):
            until_ms = now_ms + round((self._limit_s() + SPARE_S) * 1000)
            if take_probe(self._connection, held, now_ms, until_ms):
                self._probe_ms = until_ms
                return
            held = read_hold(self._connection, self._profile.name) or held
        if held.is_on(now_ms):
            raise Postponed(held.until_ms, held.reason, str(held.code), held.scope)

    def _stay_within_limit(self, tokens: int) -> None:
        profile = self._profile
        if profile.daily_tokens is None:
            return
        now_ms, zone = self._clock.now_ms(), self._zone()
        problem = over_limit(tokens_on(self._connection, profile.name, day_of(now_ms, zone)), tokens, profile)
        if problem is not None:
            until_ms = next_midnight_ms(now_ms, zone)
            raise self._hold(Hold.DAILY_LIMIT, f"{problem}; it goes on at {iso(until_ms)}", until_ms - now_ms)

    def _endpoint(self, intent: Intent, is_local: bool) -> Endpoint:
        from agent.models.providers.protocol import Endpoint

        profile = self._profile
        return Endpoint(
            provider=profile.provider,
            base_url=profile.address,
            chat_model=profile.chat_model,
            embedding_model=profile.embedding_model,
            key=self._key(),
            local_only=is_local,
            local_hosts=intent.models.local_hosts,
            context_tokens=profile.context_tokens,
            keep_alive=profile.keep_alive,
            json_schema=profile.json_schema,
            connect_s=profile.connect_seconds,
            read_s=profile.read_seconds,
            total_s=self._limit_s(),
        )

    def _key(self) -> str | None:
        name = self._profile.key_name
        if not name:
            return None
        found: KeyResult = self._keys().get(name, self._guarded)
        if found.state is KeyState.VALUE:
            return found.value
        if found.state is KeyState.MISSING:
            raise JobFailure.unrecoverable(
                str(Hold.AUTH_FAILED),
                title=f"there is no key for {self._profile.host}",
                detail=f"{name}, which the profile '{self._profile.name}' uses",
                hint=f"`sapwood key set {name}`; what waits goes on by itself then",
            )
        reason = found.reason or "the key cannot be had now"
        words = f"{reason}; {found.hint}" if found.hint else reason
        now_ms = self._clock.now_ms()
        again_ms = now_ms + KEYS_MS if found.again_ms is None else found.again_ms
        raise self._hold(Hold.KEYS_NOT_YET, words, max(1_000, again_ms - now_ms))

    def _keys(self) -> KeySource:
        given: KeySource | None = self._around.shared.get(KEYS_KEY)
        if given is not None:
            return given
        from agent.models.keys import open_keys

        return open_keys(self._around.paths, self._clock)

    def _need_memory(self, endpoint: Endpoint) -> None:
        """See to it that a model of this machine fits into its memory, unless it is there already."""
        from agent.profile_intent import is_loopback

        if not is_loopback(self._profile.host):
            return
        available = self._available_bytes()
        size = self._profile.model_bytes or self._kept_facts(endpoint).size_bytes
        if available is None or size is None:
            return
        wanted = size + max(SPARE_BYTES, size // 10)
        if available >= wanted or self._ask_facts(endpoint).is_loaded:
            return
        reason = (
            f"{self._profile.chat_model} needs about {wanted / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are "
            "free: it goes on when there is more, or with a smaller model"
        )
        raise self._hold(Hold.LOW_MEMORY, reason, LOW_MEMORY_MS)

    def _available_bytes(self) -> int | None:
        probe = self._around.shared.get(MEMORY_KEY)
        if probe is None:
            from agent.system.memory import SystemMemory

            probe = self._around.shared[MEMORY_KEY] = SystemMemory()
        found: int | None = probe.available_bytes()
        return found

    # -- what the server says of its model

    def _facts(self) -> ModelFacts:
        kept: ModelFacts | None = self._all_facts().get(self._facts_key())
        if kept is not None:
            return kept
        facts = self._call(lambda provider: provider.facts(), (), 0)
        self._end_probe()  # the question itself is still to come
        self._all_facts()[self._facts_key()] = facts
        return facts

    def _kept_facts(self, endpoint: Endpoint) -> ModelFacts:
        kept: ModelFacts | None = self._all_facts().get(self._facts_key())
        return self._ask_facts(endpoint) if kept is None else kept

    def _ask_facts(self, endpoint: Endpoint) -> ModelFacts:
        facts = self._all_facts()[self._facts_key()] = self._send(endpoint, lambda provider: provider.facts())
        return facts

    def _all_facts(self) -> dict[tuple[str, str], ModelFacts]:
        found: dict[tuple[str, str], ModelFacts] = self._around.shared.setdefault(FACTS_KEY, {})
        return found

    def _facts_key(self) -> tuple[str, str]:
        return (self._profile.address, self._profile.chat_model)

    # -- the call itself

    def _send(self, endpoint: Endpoint, ask: Callable[[Provider], Awaitable[AnswerT]]) -> AnswerT:
        from agent.models.sending import send

        given: Callable[[Endpoint], Provider] | None = self._around.shared.get(OPENER_KEY)

        def open_it() -> Provider:
            from agent.models.providers.opening import open_provider

            return (given or open_provider)(endpoint)

        if given is None:
            from agent.models.providers.opening import load_sdk

            load_sdk(endpoint.provider)
        began_s = time.monotonic()
        try:
            return send(open_it, ask, self._look, endpoint.total_s)
        except JobFailure as failure:
            is_ours = self._around.is_hasty and endpoint.total_s < self._profile.total_seconds
            if is_ours and failure.code == Hold.UNREACHABLE and time.monotonic() - began_s >= endpoint.total_s:
                # A model that is being loaded takes longer: the jobs that wait for it are not to be held for that.
                raise _WaitedForTooLong(failure) from None
            raise

    def _limit_s(self) -> float:
        total_s, around = self._profile.total_seconds, self._around
        if around.limit_s is None:
            return total_s
        # What the job did before counts as well.
        left_s = around.limit_s - (self._clock.monotonic() - self._started)
        return min(total_s, max(around.shortest_s, left_s))

    def _zone(self) -> Any:
        return zone_of(self._around.intent().schedule.timezone)
