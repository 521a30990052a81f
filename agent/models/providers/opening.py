"""From an endpoint to the provider that speaks its protocol. Nothing heavy is loaded before the first call."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agent.errors import JobFailure

if TYPE_CHECKING:
    from agent.models.providers.protocol import Endpoint, Provider


def load_sdk(provider: str) -> None:
    """Import what a provider speaks with, where it is not loaded yet. Blocks for up to 3 s the first time.

    Done by itself before a call begins: nothing is watched while an import runs, and who left the model meanwhile must
    find that nothing was sent.
    """
    if provider == "ollama":
        from agent.models.providers.ollama import load

        load()
    elif provider in ("openai", "anthropic"):
        import_module(provider)


def open_provider(endpoint: Endpoint) -> Provider:
    """Return the provider of an endpoint. Connects to nothing and imports no SDK: the first call does both."""
    if endpoint.provider == "ollama":
        from agent.models.providers.ollama import OllamaProvider

        return OllamaProvider(endpoint)
    if endpoint.provider == "openai":
        from agent.models.providers.openai import OpenAIProvider

        return OpenAIProvider(endpoint)
    if endpoint.provider == "anthropic":
        from agent.models.providers.anthropic import AnthropicProvider

        return AnthropicProvider(endpoint)
    raise JobFailure.unrecoverable(
        "model_missing",
        "no such provider",
        f"{endpoint.provider} is none of ollama, openai and anthropic",
        "name one of them as the `provider` of the profile",
    )
