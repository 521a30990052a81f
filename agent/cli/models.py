"""Commands about model profiles: model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.consent import Backlog, Sending
    from agent.actions.home import Home
    from agent.actions.models import Plan, Profiles
    from agent.actions.trying import Tested
    from agent.cli.output import Output

ACTIONS = ("use", "add", "remove", "test", "consent")
PROVIDERS = ("ollama", "openai", "anthropic")
SHOWN_MODELS = 20
ADD_ONLY = (
    *("provider", "model", "url", "embedding_model", "key_name", "price_in", "price_out"),
    *("daily_tokens", "context", "max_concurrent"),
)


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from agent.cli.completion import intent_here

    return [
        name for name in ("builtin", *(each.name for each in intent_here().profiles)) if name.startswith(incomplete)
    ]


@click.command(
    cls=SapwoodCommand,
    short_help="Which models make summaries: look, switch, try.",
    examples="""
    sapwood model
    sapwood model add box --provider ollama --model llama3.2:3b
    sapwood model add far --provider openai --model gpt-4o-mini
    sapwood model test box
    sapwood model use box
    sapwood model use builtin
    sapwood model consent far --withdraw
    """,
)
@click.argument("action", metavar="[use|add|remove|test|consent]", type=click.Choice(ACTIONS), required=False)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_names)
@click.option("--yes", is_flag=True, help="With `use` and `consent`: agree that text is sent to a cloud's host.")
@click.option("--withdraw", is_flag=True, help="With `consent`: take it back; calls end within a second.")
@click.option("--provider", type=click.Choice(PROVIDERS), help="With `add`: the protocol that is spoken.")
@click.option("--model", "model", metavar="MODEL", help="With `add`: the chat model.")
@click.option("--url", metavar="URL", help="With `add`: the server's address; the provider's own by default.")
@click.option("--embedding-model", metavar="MODEL", help="With `add`: another model for vectors than the built-in.")
@click.option("--key-name", metavar="NAME", help="With `add`: the name of its key, if it is not the usual one.")
@click.option("--price-in", type=float, metavar="USD", help="With `add`: US$ for a million tokens that are sent.")
@click.option("--price-out", type=float, metavar="USD", help="With `add`: US$ for a million tokens that are answered.")
@click.option("--daily-tokens", type=click.IntRange(1), metavar="N", help="With `add`: the most in a day.")
@click.option("--context", "context_tokens", type=click.IntRange(512), metavar="N", help="With `add`: its context.")
@click.option("--max-concurrent", type=click.IntRange(1, 64), metavar="N", help="With `add`: calls at once to a cloud.")
@click.pass_context
def model(
    context: click.Context, /, action: str | None, name: str | None, yes: bool, withdraw: bool, **said: Any
) -> None:
    """Say which model profiles there are, switch between them, add, try and remove them. The running agent obeys at
    once: a switch holds from the next job on, and a call under way ends within a second.

    The built-in profile is part of Sapwood and sends nothing. A server on this machine, or on a host that you name in
    models.local_hosts, is local. All else is a cloud: before the first use you are told what is sent and asked for
    your consent, and sources added with --private never go there.
    """
    from agent.actions.home import open_home

    output = output_of(context)
    _refuse_odd(action, name, yes, withdraw, {key: value for key, value in said.items() if value is not None})
    with open_home() as home:
        if action is None:
            _list(output, home)
        elif action == "use":
            use_profile(output, home, name or "", yes=yes)
        elif action == "add":
            _add(output, home, name or "", said)
        elif action == "remove":
            _remove(output, home, name or "")
        elif action == "consent":
            _consent(output, home, name or "", yes, withdraw)
        else:
            context.exit(_test(output, home, name))


def _refuse_odd(action: str | None, name: str | None, yes: bool, withdraw: bool, said: dict[str, Any]) -> None:
    if action not in (None, "test") and name is None:
        raise click.UsageError(f"say which profile: {action} NAME")
    if yes and action not in ("use", "consent"):
        raise click.UsageError("--yes goes with `use` and `consent`")
    if withdraw and (action != "consent" or yes):
        raise click.UsageError("--withdraw goes with `consent`, alone")
    if said and action != "add":
        option = "--" + next(iter(said)).replace("context_tokens", "context").replace("_", "-")
        raise click.UsageError(f"{option} goes with `add`; `sapwood config set profiles.NAME.KEY` changes a profile")
    if action == "add":
        for option in ("provider", "model"):
            if option not in said:
                raise click.UsageError(f"say the {option}: add NAME --provider ollama --model llama3.2:3b")


def _list(output: Output, home: Home) -> None:
    from agent.actions.models import profiles

    found = profiles(home)
    if output.as_json:
        output.document(found)
        return
    output.table(
        ("", "name", "model", "where", "notes"),
        [
            ("*" if each.active else "", each.name, each.model or "built in", _where(each), _notes(each))
            for each in found.profiles
        ],
    )
    _tell_holds(output, found)
    if len(found.profiles) == 1:
        output.line("`sapwood model add` names a model server or a cloud account.", "dim")


def _tell_holds(output: Output, found: Profiles) -> None:
    if found.problem:
        output.note(found.problem, "bold red")
    for wrong in found.wrong:
        output.note(f"{wrong.name} cannot be used: {wrong.problem}; {wrong.hint}", "")
    for each in found.profiles:
        if each.hold:
            output.note(f"{each.name}: {each.hold}", "")


def _where(row: Any) -> str:
    if row.where == "here":
        return "here"
    host = row.address.partition("://")[2].partition("/")[0]
    return f"{row.where}, {host}"


def _notes(row: Any) -> str:
    parts = []
    if row.where == "cloud" and not row.consent:
        parts.append("no consent yet")
    if row.embedding:
        parts.append(f"vectors by {row.embedding}")
    if row.daily_tokens:
        parts.append(f"{row.daily_tokens:,} tokens a day")
    return ", ".join(parts)


def use_profile(output: Output, home: Home, name: str, *, yes: bool = False) -> None:
    """Switch to a profile; the first use of a cloud asks for consent where somebody can answer."""
    from agent.actions.models import plan_use, use_model

    plan = plan_use(home, name)
    agreed = False
    if plan.needs_consent:
        if yes:
            _tell_sending(output, plan.sending, plan.backlog)
        agreed = yes or _agrees(output, plan)
        if not agreed and sys.stdin.isatty() and not output.as_json:
            output.line("nothing was changed")
            return
    found = use_model(home, name, consent=agreed)
    if output.as_json:
        output.document(found)
        return
    output.line(f"{name} is used from the next job on")
    if plan.embeds_again:
        output.line(
            f"{plan.embeds_again:,} passages and summaries get new vectors; the old ones serve until all are there"
        )
    if found.requeued:
        output.line(
            f"{_jobs(found.requeued)} that had waited or failed for want of a model {_is(found.requeued)} tried again"
        )
    if found.problem:
        output.note(found.problem, "bold red")
    if plan.key and plan.is_cloud:
        output.note(f"its key: `sapwood key status {plan.key}`, `sapwood key set {plan.key}`", "")
    if found.notice:
        output.note(found.notice, "")


def _agrees(output: Output, plan: Plan) -> bool:
    if output.as_json or not sys.stdin.isatty():
        return False
    _tell_sending(output, plan.sending, plan.backlog)
    host = plan.sending.host if plan.sending is not None else plan.name
    return click.confirm(f"Send this to {host}?", default=False, err=True)


def _tell_sending(output: Output, sending: Sending | None, backlog: Backlog | None) -> None:
    if sending is None or backlog is None:
        return  # of a local profile there is nothing to tell
    output.note(f"{sending.host} is sent:", "bold")
    for kind in sending.kinds:
        output.note(f"  - {kind}", "")
    output.note(f"from: {', '.join(sending.sources) or 'no source yet'}", "")
    output.note(f"never from: {', '.join(sending.private)}" if sending.private else "no source is private", "")
    output.note("Keys, tokens, passwords and card numbers are masked before that.", "")
    tokens = f"{backlog.tokens_in_low:,} to {backlog.tokens_in_high:,} tokens"
    out = f"{backlog.tokens_out_low:,} to {backlog.tokens_out_high:,} answered"
    if not backlog.is_known:
        output.note("How much that is cannot be said before `sapwood run` has read your sources.", "")
    elif not backlog.tokens_in_high:
        output.note("Nothing waits to be sent now; new text is sent as it comes.", "")
    elif backlog.cost_low is None:
        output.note(f"What waits now is about {tokens}, {out}; its price is not known (--price-in, --price-out).", "")
    else:
        output.note(f"What waits now is about {tokens}, {out}: {_money(backlog)}.", "")
    output.note("`sapwood usage` says what was sent; `sapwood config set profiles.NAME.daily_tokens N` limits it.", "")


def _money(backlog: Backlog) -> str:
    low, high = backlog.cost_low or 0.0, backlog.cost_high or 0.0
    return "less than US$ 0.01" if high < 0.01 else f"US$ {low:.2f} to {high:.2f}"


def _add(output: Output, home: Home, name: str, said: dict[str, Any]) -> None:
    from agent.actions.models import add_profile, profile_of, served_models
    from agent.errors import SapwoodError

    words = {
        "name": name,
        "provider": said["provider"],
        "chat_model": said["model"],
        "base_url": said["url"],
        "key": said["key_name"],
        **{key: said[key] for key in ("embedding_model", "price_in", "price_out", "daily_tokens", "context_tokens")},
        "max_concurrent": said["max_concurrent"],
    }
    profile = profile_of(words)
    found = add_profile(home, profile)
    problem = ""
    models: tuple[str, ...] = ()
    try:
        models = served_models(home, profile)
    except SapwoodError as error:
        problem = f"{error.title}; {error.hint}" if error.hint else error.title
    if output.as_json:
        output.document({"profile": found, "served": list(models), "problem": problem})
        return
    output.line(f"the profile {name} is added; `sapwood model use {name}` makes it the active one")
    if problem:
        output.note(f"its server was looked for: {problem}", "")
    elif models and profile.chat_model not in models and f"{profile.chat_model}:latest" not in models:
        output.note(f"its server has no {profile.chat_model}; it has: {', '.join(models[:SHOWN_MODELS])}", "")
    if profile.embedding_model:
        output.note(f"`sapwood model test {name}` finds the size of its vectors, which it needs", "")
    if found.where == "cloud" and found.key:
        output.note(f"it needs a key: `sapwood key set {found.key}`", "")


def _remove(output: Output, home: Home, name: str) -> None:
    from agent.actions.models import remove_profile

    active = remove_profile(home, name)
    if output.as_json:
        output.document({"removed": name, "active": active})
    else:
        output.line(f"the profile {name} is removed; {active} is used")


def _consent(output: Output, home: Home, name: str, yes: bool, withdraw: bool) -> None:
    from agent.actions.models import give_consent, plan_use, withdraw_consent

    if withdraw:
        had = withdraw_consent(home, name)
        if output.as_json:
            output.document({"profile": name, "consent": False, "changed": had})
        else:
            output.line(f"nothing more is sent for {name}" if had else f"there was no consent for {name}")
        return
    plan = plan_use(home, name)
    given = not plan.needs_consent
    if plan.needs_consent and (yes or _agrees(output, plan)):
        give_consent(home, name)
        given = True
    if output.as_json:
        output.document({"profile": name, "consent": given, "sending": plan.sending, "backlog": plan.backlog})
    elif not plan.is_cloud:
        output.line(f"{name} is local: nothing leaves what you named as yours, and no consent is needed")
    else:
        if plan.sending is not None and plan.backlog is not None and (given or not sys.stdin.isatty()):
            _tell_sending(output, plan.sending, plan.backlog)
        output.line(f"you agree to that for {name}" if given else f"nothing is sent for {name}: you have not agreed")


def _test(output: Output, home: Home, name: str | None) -> int:
    from agent.actions.trying import try_profile
    from agent.cli.waiting import WaitingLine

    with WaitingLine() as line:
        line.say("asking the model")
        found = try_profile(home, name)
    if output.as_json:
        output.document(found)
    elif found.ok:
        output.line(f"{found.profile} works", "bold")
        output.facts(_facts(found))
        if found.requeued:
            output.line(f"{_jobs(found.requeued)} that had waited for it {_is(found.requeued)} tried again")
    else:
        output.note(f"error: {found.error}", "bold red")
        for words in (found.detail, found.hint):
            if words:
                output.note(words, "")
    return 0 if found.ok else 1


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _facts(found: Tested) -> list[tuple[str, object]]:
    from agent.actions.checks.result import size_words

    facts: list[tuple[str, object]] = [("model", found.model)]
    if found.latency_ms is not None:
        facts.append(("answered in", f"{found.latency_ms:,} ms"))
    if found.context_tokens is not None:
        facts.append(("context", f"{found.context_tokens:,} tokens"))
    if found.size_bytes is not None:
        facts.append(("size", size_words(found.size_bytes)))
    if found.structured is not None:
        facts.append(("structured answers", "yes" if found.structured else "no: its answers will be asked for again"))
    if found.tokens_in:
        facts.append(("tokens", f"{found.tokens_in:,} in, {found.tokens_out:,} out"))
    if found.embedding_dimensions:
        facts.append(("vectors", f"{found.embedding_dimensions} numbers"))
    return facts
