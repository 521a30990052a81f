"""What can go wrong, in words an owner can act on.

There are two branches. A ``JobFailure`` is about one job and is settled into its row; an ``AgentFault`` is about this
process and carries the exit code of the command. Foreign exceptions are turned into these at the border of each room.
"""

from __future__ import annotations

from agent.states import FailureClass


class SapwoodError(Exception):
    """An error with a title (what happened), a detail (to what) and a hint (what to do next)."""

    def __init__(self, title: str, detail: str = "", hint: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(kind: type[SapwoodError], state: dict[str, object]) -> SapwoodError:
    error = kind.__new__(kind)
    Exception.__init__(error, state.get("title"))
    error.__dict__.update(state)
    return error


class JobFailure(SapwoodError):
    """A typed failure of one job (the seed's ``JobFailure``): a code, a class, maybe a retry time."""

    def __init__(
        self,
        code: str,
        failure_class: FailureClass,
        title: str = "",
        detail: str = "",
        hint: str = "",
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(title or code, detail, hint)
        self.code = code
        self.failure_class = failure_class
        self.retry_after_ms = retry_after_ms
        self.scope: str | None = None
        """The model profile whose cause this is: mending it requeues what it parked and nothing else."""

    @classmethod
    def transient(
        cls, code: str, title: str = "", detail: str = "", hint: str = "", retry_after_ms: int | None = None
    ) -> JobFailure:
        """Return a failure that a retry may mend: it burns an attempt and backs off."""
        return cls(code, FailureClass.TRANSIENT, title, detail, hint, retry_after_ms)

    @classmethod
    def unrecoverable(cls, code: str, title: str = "", detail: str = "", hint: str = "") -> JobFailure:
        """Return a failure that is terminal on the first attempt."""
        return cls(code, FailureClass.UNRECOVERABLE, title, detail, hint)

    @classmethod
    def budget_exhausted(cls) -> JobFailure:
        """Return the failure of a call that the owner's budget no longer covers."""
        return cls.unrecoverable("budget_exhausted")

    def is_unrecoverable(self) -> bool:
        """Return whether retrying cannot help."""
        return self.failure_class is FailureClass.UNRECOVERABLE


class Postponed(SapwoodError):
    """The job cannot go on now, and that is no failure of it: look again at ``until_ms`` (UTC ms).

    It becomes a ``Defer`` at the border, which burns no attempt. ``code`` is a word of ``Hold`` or empty, ``scope`` the
    model profile that it is about.
    """

    def __init__(self, until_ms: int, reason: str, code: str = "", scope: str | None = None) -> None:
        super().__init__(reason)
        self.until_ms = until_ms
        self.reason = reason
        self.code = code
        self.scope = scope


class LeaseLost(SapwoodError):
    """The job's lease belongs to somebody else by now: nothing of this run may be applied."""


class AgentFault(SapwoodError):
    """A fault of this process. ``exit_code`` is what a command ends with (1 failed, 2 usage, 3 agent needed)."""

    def __init__(self, title: str, detail: str = "", hint: str = "", exit_code: int = 1) -> None:
        super().__init__(title, detail, hint)
        self.exit_code = exit_code


class UsageFault(AgentFault):
    """What was asked for cannot be asked for (exit code 2)."""

    def __init__(self, title: str, detail: str = "", hint: str = "") -> None:
        super().__init__(title, detail, hint, exit_code=2)


class AgentNotRunning(AgentFault):
    """The command needs the running agent (exit code 3)."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("the agent is not running", detail, "`sapwood run` starts it", exit_code=3)


class DatabaseRefused(AgentFault):
    """The database cannot be opened safely: SQLite too old, schema too new, or a folder where WAL cannot work."""


class DatabaseCorrupt(AgentFault):
    """SQLite says that the file is damaged or is no database."""


class ConfigBroken(AgentFault):
    """``config.toml`` cannot be read; the last good copy is in use where there is one."""


class BreakerOpen(SapwoodError):
    """A circuit breaker refuses work for now (transient; raised by nobody yet)."""
