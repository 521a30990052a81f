"""The models: which profiles there are and where they are, using, testing, adding one, agreeing to one, what was used.

Keys are never typed here: a page is read by extensions and kept by password stores. It names the command that asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.errors import SapwoodError, UsageFault
from agent.gateway.errors import status_of
from agent.gateway.pages.forms import Fields, form_of, query_of
from agent.gateway.pages.rendering import count_words, done, on_place, segment, show_page
from agent.gateway.serving import context_of, in_thread, with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home
    from agent.actions.models import ProfileRow, Used

PLACE = "/models"
PROVIDERS = (
    ("ollama", "Ollama"),
    ("openai", "OpenAI, or any server that speaks like it (LM Studio, llama-server, vLLM, OpenRouter)"),
    ("anthropic", "Anthropic"),
)
WORDS = ("name", "provider", "chat_model", "base_url", "embedding_model", "key")
SERVED_SHOWN = 20


@on_place(PLACE)
async def show_models(request: Request) -> Response:
    """Show the profiles with the state of their keys, and what was used."""

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.models import profiles
        from agent.actions.usage import usage

        return {
            "listed": profiles(home),
            "used": usage(clock=home.clock, paths=home.paths),
        }

    # The keyring may take seconds to answer, so it is asked only where a profile wants a key.
    keys = await in_thread(request, lambda: _keys(request), waits=True)
    return await show_page(request, "models.html", lambda home: {**load(home), "keys": keys}, place=PLACE)


def _keys(request: Request) -> dict[str, str]:
    from agent.actions.keys import key_status, wanted_by
    from agent.config import load_intent

    paths = context_of(request).paths
    if not wanted_by(load_intent(paths).intent):
        return {}
    return {key.name: key.state for key in key_status(paths).keys}


@on_place(PLACE)
async def show_consent(request: Request) -> Response:
    """Show what a profile would be sent, about how much, and ask whether its owner agrees."""
    name = request.path_params["name"]

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.models import plan_use

        return {"plan": plan_use(home, name), "is_active": home.intent.models.active == name}

    return await show_page(request, "consent.html", load, place=PLACE)


@on_place(PLACE)
async def answer_consent(request: Request) -> Response:
    """Keep the owner's consent, use the profile if they said so too, or take the consent back."""
    name, said = request.path_params["name"], (await form_of(request)).text("answer")
    return await done(request, PLACE, await with_home(request, lambda home: _consent(home, name, said)))


def _consent(home: Home, name: str, said: str) -> str:
    from agent.actions.models import give_consent, plan_use, use_model, withdraw_consent

    if said == "use":
        use_model(home, name, consent=True)
        return f"you agree, and {name} is used from the next job on"
    if said == "agree":
        if plan_use(home, name).needs_consent:
            give_consent(home, name)
        return f"you agree to that for {name}"
    if said == "withdraw":
        had = withdraw_consent(home, name)
        return f"nothing more is sent for {name}" if had else f"there was no consent for {name}"
    raise UsageFault("this is no answer", said, "choose one of the buttons")


@on_place(PLACE)
async def use_profile(request: Request) -> Response:
    """Make a profile the active one; a cloud without consent leads to the page that asks for it."""
    name = request.path_params["name"]
    found = await with_home(request, lambda home: _use(home, name))
    if found is None:
        return await done(
            request, f"/models/{segment(name)}/consent", f"the profile {name} is a cloud's: read this first"
        )
    used, again = found
    hints = [f"{count_words(again, 'passage or summary', 'passages and summaries')} get new vectors."] if again else []
    if used.requeued:
        hints.append(f"{count_words(used.requeued, 'job')} that had waited for a model: tried again.")
    hints += [each for each in (used.problem, used.notice or "") if each]
    return await done(request, PLACE, f"the profile {name} is used from the next job on", hint=" ".join(hints))


def _use(home: Home, name: str) -> tuple[Used, int] | None:
    from agent.actions.models import plan_use, use_model

    plan = plan_use(home, name)
    return None if plan.needs_consent else (use_model(home, name), plan.embeds_again)


@on_place(PLACE)
async def test_profile(request: Request) -> Response:
    """Ask a profile's models one made-up question, and show how that went."""
    from agent.actions.trying import try_profile

    name = request.path_params["name"]
    tested = await with_home(request, lambda home: try_profile(home, name), waits=True)
    return await show_page(request, "model_tested.html", place=PLACE, tested=tested)


@on_place(PLACE)
async def show_adding(request: Request) -> Response:
    """Show the form that adds a profile."""
    return await _adding(request, query_of(request))


async def _adding(request: Request, typed: Fields, error: SapwoodError | None = None) -> Response:
    words = {name: typed.text(name) for name in (*WORDS, "daily_tokens", "then")}
    status = 200 if error is None else status_of(error)
    return await show_page(
        request, "model_add.html", place=PLACE, status=status, typed=words, providers=PROVIDERS, fault=error
    )


async def add_model(request: Request) -> Response:
    """Add a profile. What was typed stays in the form where it cannot be one."""
    typed = await form_of(request)
    try:
        row, hint = await with_home(request, lambda home: _add(home, typed), waits=True)
    except SapwoodError as error:
        return await _adding(request, typed, error)
    return await done(request, typed.then(PLACE), f"the profile {row.name} is added", hint=hint)


def _add(home: Home, typed: Fields) -> tuple[ProfileRow, str]:
    from agent.actions.models import add_profile, profile_of, served_models

    limit = typed.given("daily_tokens")
    if limit is not None and not (limit.isascii() and limit.isdigit()):
        raise UsageFault("tokens a day are a whole number", limit, "leave it empty for no limit")
    profile = profile_of(
        {**{name: typed.given(name) for name in WORDS}, "daily_tokens": None if limit is None else int(limit)}
    )
    row = add_profile(home, profile)
    hints = []
    try:
        served = served_models(home, profile)
        if served and profile.chat_model not in served and f"{profile.chat_model}:latest" not in served:
            hints.append(f"Its server has no {profile.chat_model}; it has: {', '.join(served[:SERVED_SHOWN])}.")
    except SapwoodError as error:
        hints.append(f"Its server was looked for: {error.title}. {error.hint}")
    if profile.embedding_model:
        hints.append("Test it: that finds the size of its vectors, which it needs.")
    if row.where == "cloud" and row.key:
        hints.append(f"It needs a key, which is not typed into a page: `sapwood key set {row.key}`.")
    return row, " ".join(hints)


@on_place(PLACE)
async def show_removing(request: Request) -> Response:
    """Ask before a profile is removed."""
    name = request.path_params["name"]

    def load(home: Home) -> Mapping[str, Any]:
        return {"name": name, "is_active": home.intent.models.active == name}

    return await show_page(request, "model_remove.html", load, place=PLACE)


@on_place(PLACE)
async def remove_model(request: Request) -> Response:
    """Remove a profile."""
    from agent.actions.models import remove_profile

    name = request.path_params["name"]
    active = await with_home(request, lambda home: remove_profile(home, name))
    return await done(request, PLACE, f"the profile {name} is removed; {active} is used")


ROUTES = [
    Route("/models", show_models, methods=["GET"]),
    Route("/models/add", show_adding, methods=["GET"]),
    Route("/models/add", add_model, methods=["POST"]),
    Route("/models/{name}/consent", show_consent, methods=["GET"]),
    Route("/models/{name}/consent", answer_consent, methods=["POST"]),
    Route("/models/{name}/use", use_profile, methods=["POST"]),
    Route("/models/{name}/test", test_profile, methods=["POST"]),
    Route("/models/{name}/remove", show_removing, methods=["GET"]),
    Route("/models/{name}/remove", remove_model, methods=["POST"]),
]
