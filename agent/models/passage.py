"""What lets a call pass, or keeps it back: the guard, consent, private sources, holds, the daily limit, the key.

Each look costs nothing that is paid for. What keeps one call back is made known to the others by a hold on the profile,
so that they do not find it out one by one; what a call's answer disproves is lifted here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.errors import JobFailure, Postponed
from agent.models.breaker import fail, give_probe_back, hold_back, is_disproved, take_probe
from agent.models.budget import day_of, next_midnight_ms, over_limit, tokens_on, zone_of
from agent.models.surroundings import KEYS_KEY, SPARE_S
from agent.queue.holds import bring_forward, lift_hold_tx, put_hold_tx, read_hold
from agent.queue.requeue import requeue_failed
from agent.states import Hold, KeyState

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.models.calling import CallGuard
    from agent.models.keys import KeyResult, KeySource
    from agent.models.providers.protocol import Endpoint
    from agent.models.surroundings import Surroundings
    from agent.profile_intent import ProfileIntent

NO_CONSENT_MS = 15 * 60_000
KEYS_MS = 30_000


class Passage:
    """The way of one job's or command's calls past all that may keep them back."""

    def __init__(self, around: Surroundings, profile: ProfileIntent, guard: CallGuard) -> None:
        self._around = around
        self._connection = around.connection
        self._clock = around.clock
        self._profile = profile
        self._guard = guard
        self._started = around.clock.monotonic()
        self._sources: tuple[str, ...] = ()
        """Whose words the call holds."""
        self._probe_ms: int | None = None
        """Until when the profile's hold goes on while ours is the one call that is tried after it."""

    def enter(self, sources: Iterable[str]) -> Intent:
        """Pass the guard, consent, private sources and the hold; return the intent that the call is made by.

        Raises ``Postponed`` or ``JobFailure``. After it, ``failed``, ``kept_back`` or ``end_probe`` is told how the
        call ended where it ended badly, ``lift_tx`` where it was answered.
        """
        self.guarded()
        self._sources = tuple(sources)
        intent = self._around.intent()
        is_local = intent.is_local(self._profile)
        self._need_consent(intent, is_local)
        self._refuse_private(intent, is_local)
        self._pass_hold()
        return intent

    def failed(self, failure: JobFailure, *, embeds: bool) -> JobFailure | Postponed:
        if failure.code == Hold.AUTH_FAILED and self._profile.key_name:
            self._keys().forget(self._profile.key_name)
        if self._around.is_trial:
            return failure
        is_probe, self._probe_ms = self._probe_ms is not None, None
        name, now_ms = self._profile.name, self._clock.now_ms()
        return fail(self._connection, failure, name, now_ms, is_probe=is_probe, embeds=embeds)

    def kept_back(self, later: Postponed) -> Postponed:
        """Return a word to wait, with the hold that keeps others from hearing the same one by one."""
        if later.code == Hold.NO_CONSENT:
            return self.hold_back(Hold.NO_CONSENT, later.reason, NO_CONSENT_MS)
        self.end_probe()
        return later

    def hold_back(self, code: Hold, reason: str, wait_ms: int) -> Postponed:
        now_ms = self._clock.now_ms()
        if self._around.is_trial:
            return Postponed(now_ms + wait_ms, reason, str(code), self._profile.name)
        is_probe, self._probe_ms = self._probe_ms is not None, None
        return hold_back(
            self._connection, self._profile.name, code, reason, now_ms + wait_ms, now_ms, is_probe=is_probe
        )

    def end_probe(self) -> None:
        if self._probe_ms is not None:
            give_probe_back(self._connection, self._profile.name, self._probe_ms, self._clock.now_ms())
            self._probe_ms = None

    def guarded(self) -> None:
        problem = self._guard.look(self._profile)
        if isinstance(problem, Postponed):
            raise self.kept_back(problem)
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
            raise self.hold_back(Hold.NO_CONSENT, reason, NO_CONSENT_MS)

    def look(self) -> Exception | None:
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
            until_ms = now_ms + round((self.limit_s() + SPARE_S) * 1000)
            if take_probe(self._connection, held, now_ms, until_ms):
                self._probe_ms = until_ms
                return
            held = read_hold(self._connection, self._profile.name) or held
        if held.is_on(now_ms):
            raise Postponed(held.until_ms, held.reason, str(held.code), held.scope)

    def stay_within_limit(self, tokens: int) -> None:
        profile = self._profile
        if profile.daily_tokens is None:
            return
        now_ms, zone = self._clock.now_ms(), self.zone()
        problem = over_limit(tokens_on(self._connection, profile.name, day_of(now_ms, zone)), tokens, profile)
        if problem is not None:
            until_ms = next_midnight_ms(now_ms, zone)
            raise self.hold_back(Hold.DAILY_LIMIT, f"{problem}; it goes on at {iso(until_ms)}", until_ms - now_ms)

    def endpoint(self, intent: Intent) -> Endpoint:
        from agent.models.providers.protocol import Endpoint

        profile = self._profile
        return Endpoint(
            provider=profile.provider,
            base_url=profile.address,
            chat_model=profile.chat_model,
            embedding_model=profile.embedding_model,
            key=self._key(),
            local_only=intent.is_local(profile),
            local_hosts=intent.models.local_hosts,
            context_tokens=profile.context_tokens,
            keep_alive=profile.keep_alive,
            json_schema=profile.json_schema,
            connect_s=profile.connect_seconds,
            read_s=profile.read_seconds,
            total_s=self.limit_s(),
        )

    def _key(self) -> str | None:
        name = self._profile.key_name
        if not name:
            return None
        found: KeyResult = self._keys().get(name, self.guarded)
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
        raise self.hold_back(Hold.KEYS_NOT_YET, words, max(1_000, again_ms - now_ms))

    def _keys(self) -> KeySource:
        given: KeySource | None = self._around.shared.get(KEYS_KEY)
        if given is not None:
            return given
        from agent.models.keys import open_keys

        return open_keys(self._around.paths, self._clock)

    def limit_s(self) -> float:
        total_s, around = self._profile.total_seconds, self._around
        if around.limit_s is None:
            return total_s
        # What the job did before counts as well.
        left_s = around.limit_s - (self._clock.monotonic() - self._started)
        return min(total_s, max(around.shortest_s, left_s))

    def zone(self) -> Any:
        return zone_of(self._around.intent().schedule.timezone)

    def lift_tx(self, *, embeds: bool = False) -> bool:
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

    def bring_back(self, lifted: bool, reasons: Sequence[str]) -> None:
        if lifted:
            name, now_ms = self._profile.name, self._clock.now_ms()
            requeue_failed(self._connection, now_ms, scopes=[name], reasons=reasons)
            bring_forward(self._connection, name, now_ms)
