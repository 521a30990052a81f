"""Who does not use a provider does not carry it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("openai", "anthropic", "ollama", "httpx", "httpx2", "httpcore", "httpcore2", "pydantic", "anyio", "asyncio")

_OPEN = """
import sys
from agent.models.providers.opening import open_provider
from agent.models.providers.protocol import Endpoint
loaded = lambda: sorted(name for name in {heavy} if name in sys.modules)
print("import", loaded())
for provider in ("ollama", "openai", "anthropic"):
    open_provider(Endpoint(provider, "http://127.0.0.1:9", "m"))
print("open", [name for name in loaded() if name != "asyncio"])
"""

_CALL = """
import asyncio, sys
from agent.errors import JobFailure
from agent.models.providers.opening import open_provider
from agent.models.providers.protocol import ChatAsk, Endpoint, Message
async def work():
    made = open_provider(Endpoint({provider!r}, "http://127.0.0.1:9", "m"))
    try:
        await made.chat(ChatAsk((Message("user", "x"),), 1, 8))
    except JobFailure as failure:
        print(failure.code)
    await made.close()
asyncio.run(work())
print([name for name in ("openai", "anthropic", "ollama") if name in sys.modules])
"""


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_opening_a_provider_loads_no_sdk() -> None:
    assert _run(_OPEN.format(heavy=HEAVY)).splitlines() == ["import []", "open []"]


def test_a_proxy_that_no_sdk_knows_does_not_keep_a_local_model_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks://127.0.0.1:9/")
    for provider in ("ollama", "openai", "anthropic"):
        code = _CALL.format(provider=provider) + "import os; print(os.environ.get('no_proxy'))"
        assert _run(code).splitlines() == ["unreachable", str([provider]), "None"]


def test_a_call_loads_the_one_sdk_that_it_uses() -> None:
    for provider in ("ollama", "openai", "anthropic"):
        assert _run(_CALL.format(provider=provider)).splitlines() == ["unreachable", str([provider])]
