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

from agent.db.faults import is_database_fault
from agent.errors import JobFailure, Postponed
from agent.models.breaker import (
    MENDED_BY_CHAT,
    MENDED_BY_EMBEDDING,
)
from agent.models.budget import day_of
from agent.models.calling import Tries
from agent.models.passage import Passage
from agent.models.results import count_try_tx, find_result, find_tries, forget_tries_tx, store_result_tx
from agent.models.spending import Account, Spent, cost_micros, meter_tx, note_spent
from agent.models.surroundings import FACTS_KEY, MEMORY_KEY, OPENER_KEY, SHORTEST_S, SPARE_S, NoGuard, Surroundings
from agent.states import Hold

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.calling import CallGuard, ModelCalls
    from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, ModelFacts, Provider
    from agent.models.results import WorkUnit
    from agent.paths import Paths
    from agent.profile_intent import ProfileIntent
    from agent.queue.registry import JobContext

LATE_KEY = "answers_to_be_stored"
"""Answers that the database refused (a full disk): stored as soon as it takes them, and not asked for again."""
MOST_LATE = 1_000

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
        self._passage = Passage(around, profile, guard)
        self._answered: list[_Answered] = []

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
            lifted = self._passage.lift_tx(embeds=True)
        self._passage.bring_back(lifted, MENDED_BY_EMBEDDING)
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
        self._passage.bring_back(lifted, MENDED_BY_CHAT)

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
        self._passage.bring_back(lifted, MENDED_BY_CHAT)

    def _of(self, answer: ChatAnswer) -> _Answered:
        return next(each for each in reversed(self._answered) if each.answer is answer)

    def _meter_tx(self, found: _Answered, spent: Spent) -> bool:
        if not found.is_metered:
            meter_tx(self._connection, found.account, spent)
        return self._passage.lift_tx()

    def _took(self, tokens_in: int, tokens_out: int, model: str, counted: bool) -> tuple[Account, Spent]:
        """Return what a call took, which is on the disk beside the ledger by then."""
        profile = self._profile
        day = day_of(self._clock.now_ms(), self._passage.zone())
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
        asked lifts the hold with the passage's ``lift_tx``.
        """
        intent = self._passage.enter(sources)
        try:
            self._passage.stay_within_limit(tokens)
            endpoint = self._passage.endpoint(intent)
            if loads:
                self._need_memory(endpoint)
            return self._send(endpoint, ask)
        except _WaitedForTooLong as over:
            self._passage.end_probe()
            raise over.failure from None
        except JobFailure as failure:
            raise self._passage.failed(failure, embeds=embeds) from None
        except Postponed as later:
            raise self._passage.kept_back(later) from None
        except BaseException:
            self._passage.end_probe()
            raise

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
        raise self._passage.hold_back(Hold.LOW_MEMORY, reason, LOW_MEMORY_MS)

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
        self._passage.end_probe()  # the question itself is still to come
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
            return send(open_it, ask, self._passage.look, endpoint.total_s)
        except JobFailure as failure:
            is_ours = self._around.is_hasty and endpoint.total_s < self._profile.total_seconds
            if is_ours and failure.code == Hold.UNREACHABLE and time.monotonic() - began_s >= endpoint.total_s:
                # A model that is being loaded takes longer: the jobs that wait for it are not to be held for that.
                raise _WaitedForTooLong(failure) from None
            raise
