"""Commands about the agent itself: run, stop, status, doctor, open, demo."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from agent.cli.command import SapwoodCommand, output_of

if TYPE_CHECKING:
    from agent.actions.status import Status


def _use_home(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Take over the home that a login entry carries: what starts programs at login has no environment of ours."""
    import os

    if value:
        os.environ["SAPWOOD_HOME"] = value


@click.command(
    cls=SapwoodCommand,
    short_help="Run the agent in the foreground.",
    examples="""
    sapwood run                 grow, and go on watching for new work
    sapwood run --once          grow everything that is there, then end
    sapwood run --workers 2     with two worker processes at most
    """,
)
@click.option("--headless", is_flag=True, help="Without a tray, whatever the settings say.")
@click.option("--once", is_flag=True, help="End when nothing is left to do and every tree is finished.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="At most so many worker processes.")
@click.option("--at-login", is_flag=True, hidden=True, help="Said by what starts it at the login.")
@click.option("--home", hidden=True, expose_value=False, callback=_use_home, help="SAPWOOD_HOME, said by the same.")
@click.pass_context
def run(context: click.Context, headless: bool, once: bool, workers: int | None, at_login: bool) -> int:
    """Run the agent in the foreground: read the sources, grow the tree.

    Ctrl-C stops it within four seconds; whatever was in the middle of being done is done again at the next start.
    With --once it exits 1 where work is left that is not due for more than ten minutes, and says so.
    """
    from agent.actions.running import held_otherwise, is_running, run_agent
    from agent.cli.progress import Progress
    from agent.paths import find_paths

    output = output_of(context)
    paths = find_paths().make()
    quiet = once or is_running(paths)  # then it will say that it runs already
    if once and (held := held_otherwise(paths)):
        output.note(f"{held}: it works all the same, because you ask for it now", "")
    if at_login and not is_running(paths):
        from agent.actions.keys import started_at_login

        started_at_login(paths)
    greeting = "" if quiet else "the agent runs; `sapwood open` shows its page, Ctrl-C or `sapwood stop` ends it"
    # Nobody looks at a login: what it says ends in the session's journal, where nobody wants a line every few seconds.
    with nullcontext() if at_login else Progress(paths, greeting=greeting):
        result = run_agent(
            paths, once=once, workers=workers, debug=output.debug, headless=headless, by_person=not at_login
        )
    if result.notice:
        output.note(result.notice, "")
    if output.as_json:
        output.document(result)
    elif result.words:
        output.line(result.words)
    return result.exit_code


@click.command(
    cls=SapwoodCommand,
    short_help="End the running agent.",
    examples="""
    sapwood stop
    sapwood stop --wait
    """,
)
@click.option("--wait", is_flag=True, help="Return when it has ended.")
@click.pass_context
def stop(context: click.Context, wait: bool) -> None:
    """End the running agent. It takes less than four seconds and loses no work."""
    from agent.actions.running import stop_agent

    output = output_of(context)
    stopped = stop_agent(wait=wait)
    if output.as_json:
        output.document(stopped)
    else:
        output.line("the agent has ended" if stopped.ended else "the agent is ending")


@click.command(
    cls=SapwoodCommand,
    short_help="What it is doing, how far it is, why it waits.",
    examples="""
    sapwood status
    sapwood status --json
    """,
)
@click.pass_context
def status(context: click.Context) -> None:
    """Say what the agent is doing, how far it is, and why it waits. Works whether or not it runs."""
    from agent.actions.asking import asked_words
    from agent.actions.doctor import size_words
    from agent.actions.home import open_home
    from agent.actions.status import status as look
    from agent.actions.times import FOREVER_MS, span_words
    from agent.clock import iso

    output = output_of(context)
    with open_home() as home:
        found = look(home)
    if output.as_json:
        output.document(found)
        return
    output.heading(f"{found.state}: {found.reason}")
    queue = found.queue
    chunks = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in found.chunks.items() if count)
    facts: list[tuple[str, object]] = [
        ("profile", found.profile if found.place == "here" else f"{found.profile} ({found.place})"),
        ("sources", found.sources),
        ("items", ", ".join(f"{count} {state}" for state, count in found.items.items()) or 0),
        ("chunks", f"{found.total_chunks} ({chunks})" if chunks else 0),
        ("summaries", found.summaries),
        ("embedded", _embedded_words(found)),
        ("jobs", f"{queue.ready} ready, {queue.deferred} deferred, {queue.running} running, {queue.done} done"),
        ("", f"{queue.failed} failed ({queue.unrecoverable} beyond retrying), {queue.cancelled} cancelled"),
    ]
    # While it runs the state says the next two.
    if found.paused_until_ms is not None and not found.running:
        until = "`sapwood resume`" if found.paused_until_ms >= FOREVER_MS else iso(found.paused_until_ms)
        facts.append(("paused", f"until {until}"))
    if found.models and found.models not in found.reason:
        facts.append(("models", found.models))
    if found.power is not None and found.power.words and not found.reason.startswith(found.power.reason or " "):
        facts.append(("power", found.power.words))
    if found.config_problem is not None and not found.running:
        facts.append(("settings", f"cannot be read, the last good copy is in use: {found.config_problem}"))
    if found.tray is not None and not found.tray.is_up:
        facts.append(("tray", found.tray.words))
    if found.notice is not None and found.notice != found.reason:
        facts.append(("notice", found.notice))
    if found.crashed:
        facts.append(("crashed", found.crashed))
    if found.questions and asked_words(found.questions) != found.reason:
        facts.append(("asked", asked_words(found.questions)))
    if found.eta_seconds:
        facts.append(("left", f"about {span_words(found.eta_seconds)}"))
    output.facts(facts)
    if found.workers:
        output.line()
        output.table(
            ("worker", "pid", "job", "memory", "doing"),
            [
                (
                    worker.id[:8],
                    worker.pid,
                    worker.job,
                    size_words(worker.rss_bytes) if worker.rss_bytes is not None else "unknown",
                    worker.kind or "waiting",
                )
                for worker in found.workers
            ],
            numbers=("pid", "job", "memory"),
        )


def _embedded_words(found: Status) -> str:
    more = found.embedding.words if found.embedding is not None else None
    return f"{found.embedded} ({more})" if more else str(found.embedded)


@click.command(
    cls=SapwoodCommand,
    short_help="Check everything and say how to mend it.",
    examples="""
    sapwood doctor              quick: environment, settings, file, queue
    sapwood doctor --deep       every invariant of the memory as well
    sapwood doctor --deep --json
    """,
)
@click.option("--deep", is_flag=True, help="Verify every invariant of the memory too: some seconds per 10,000 chunks.")
@click.pass_context
def doctor(context: click.Context, deep: bool) -> int:
    """Check environment, settings, memory and queue, and say how to mend what is not well. Exits 1 where something is
    not. Works with a damaged memory and with broken settings, and while the agent runs; changes nothing.
    """
    from agent.actions.doctor import doctor as look
    from agent.cli.steps import Steps

    output = output_of(context)
    with Steps() as steps:
        found = look(deep=deep, say=steps.say)
    if output.as_json:
        output.document(found)
    else:
        output.table(
            ("", "check", "found"),
            [("ok" if check.ok else "!!", check.name, check.detail) for check in found.checks],
        )
        remedies: dict[str, list[str]] = {}
        for check in found.checks:
            if not check.ok:
                remedies.setdefault(check.remedy, []).append(check.name)
        for remedy, names in remedies.items():
            output.line()
            output.line(f"{', '.join(names)}: {remedy}", "bold")
        output.line()
        bad = sum(not check.ok for check in found.checks)
        output.line("all is well" if found.ok else f"{bad} of {len(found.checks)} checks found something to mend")
    return 0 if found.ok else 1


@click.command(
    name="open",
    cls=SapwoodCommand,
    short_help="Open the page in the browser.",
    examples="""
    sapwood open
    sapwood open --print        a link to open yourself
    """,
)
@click.option("--print", "prints", is_flag=True, help="Print the link instead of opening it.")
@click.pass_context
def open_page(context: click.Context, prints: bool) -> None:
    """Open the agent's page in the browser: search, the tree, the sources, the work, the models, the settings.

    The page is served on this machine alone, to whoever comes through the link that this makes. It needs the running
    agent. Where nothing here can open a browser the link is printed; it works once, within a minute.
    """
    from agent.actions.opening import open_page as show
    from agent.actions.opening import page_link
    from agent.paths import find_paths

    output = output_of(context)
    url = page_link(find_paths()) if prints else show(find_paths())
    if output.as_json:
        output.document({"url": url})
    elif prints:
        output.line(url)
    else:
        output.line("the page is opened in your browser")
        output.note("no page there? `sapwood open --print` prints a link to it")


@click.command(
    cls=SapwoodCommand,
    short_help="See the whole thing on shipped sample data.",
    examples="""
    sapwood demo
    """,
)
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="At most so many worker processes.")
@click.pass_context
def demo(context: click.Context, workers: int | None) -> None:
    """Grow a tree from shipped sample data in a throw-away home and look at it.

    A folder of notes, a mailbox and a chat of an invented garden club are added, grown with the same processes as
    `sapwood run`, shown and searched. It takes well under a minute and leaves nothing behind.
    """
    from agent.actions.demo import grown_home, look_around
    from agent.cli.demo import print_demo, print_farewell
    from agent.cli.progress import Progress

    output = output_of(context)
    say = output.note if output.as_json else output.line
    say("A throw-away home with the notes, mails and chat of an invented garden club:")
    with grown_home(say, workers=workers, follow=Progress, debug=output.debug) as grown:
        result = look_around(grown)
        if not output.as_json:
            print_demo(output, grown, result)
    if output.as_json:
        output.document(result)
    else:
        print_farewell(output)
