"""One model profile of the intent: who answers, where, under which limits, and what may be sent there.

A profile is local where its address is this machine's own, or a host that the owner named in ``models.local_hosts``; it
is a cloud profile otherwise. Nothing is looked up for that: the words of ``config.toml`` decide (design, "Models").
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from agent.states import JobKind

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]
ProfileName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]

BUILTIN = "builtin"
LOCAL_RESOURCE = "local"
DEFAULT_URLS = {
    "ollama": "http://127.0.0.1:11434",
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,99}")


@dataclass(frozen=True)
class ProfileIntent:
    """A set of models that the owner may switch to, by its name.

    ``provider`` is the protocol that is spoken: any address that is compatible with OpenAI is ``openai``. Without an
    ``embedding_model`` the built-in table embeds, so that switching the chat model re-embeds nothing;
    ``embedding_dimensions`` is found and written by ``sapwood model test``. ``consent`` is the host that the owner
    agreed to send text to: another address needs another consent. Prices are US dollars per million tokens; tokens a
    day count both ways. ``allow_http``: text may go unencrypted to a host that is not local, because a tunnel of the
    owner's own encrypts it. ``model_bytes`` is what a local model takes of the memory where its server does not say.
    """

    name: ProfileName
    provider: Literal["ollama", "openai", "anthropic"]
    chat_model: str
    embedding_model: str = ""
    embedding_dimensions: Count | None = None
    base_url: str = ""
    key: str = ""
    consent: str = ""
    max_concurrent: Count = 4
    context_tokens: Count | None = None
    max_output_tokens: Count = 1_024
    price_in: Price | None = None
    price_out: Price | None = None
    daily_tokens: Count | None = None
    json_schema: bool = True
    allow_http: bool = False
    keep_alive: str = "5m"
    model_bytes: Count | None = None
    connect_seconds: Seconds = 10.0
    read_seconds: Seconds = 120.0
    total_seconds: Seconds = 270.0

    @property
    def address(self) -> str:
        """The base address in force."""
        return self.base_url or DEFAULT_URLS[self.provider]

    @property
    def host(self) -> str:
        """The host of the address, lower case, without a port; empty where the address has none."""
        try:
            return (urlsplit(self.address).hostname or "").lower()
        except ValueError:
            return ""

    @property
    def key_name(self) -> str:
        """Under which name its key is kept; empty: it needs none (a local server)."""
        if self.key:
            return self.key
        if self.address == DEFAULT_URLS[self.provider] or self.provider == "anthropic":
            return "" if self.provider == "ollama" else self.provider
        return "" if is_loopback(self.host) else self.host

    def is_local(self, local_hosts: Iterable[str]) -> bool:
        """Return whether what is sent there stays on this machine or on one that the owner named as local."""
        host = self.host
        return is_loopback(host) or host in {each.lower() for each in local_hosts}

    def calls_model_for(self, kind: str) -> bool:
        """Return whether jobs of an LLM-bound kind call a model of this profile: the built-in table needs none."""
        return kind != JobKind.REEMBED_BACKFILL or bool(self.embedding_model)

    def has_consent(self) -> bool:
        """Return whether the owner agreed to send text to this very host."""
        return bool(self.host) and self.consent.lower() == self.host

    def resource(self, local_hosts: Iterable[str]) -> str:
        """Return what its permits are taken on: all local profiles share one, each cloud account has its own."""
        if self.is_local(local_hosts):
            return LOCAL_RESOURCE
        return f"cloud-{self.host}-{self.key_name}" if self.key_name else f"cloud-{self.host}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its name or address alone; nothing is looked up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def profile_problem(profile: ProfileIntent, local_hosts: Iterable[str]) -> tuple[str, str] | None:
    """Return why a profile cannot be used and what helps, ``None`` for one that can. Pure; asks nobody.

    Never repeats what stands as its ``key``: that may be a key itself.
    """
    set_it = f"sapwood config set profiles.{profile.name}"
    if profile.name == BUILTIN:
        return "builtin is the name of the profile that is part of Sapwood", "give it another name"
    if not profile.chat_model.strip():
        return "chat_model is empty", f"say which model: `{set_it}.chat_model MODEL`"
    if profile.embedding_model and profile.provider == "anthropic":
        return "Anthropic has no embedding models", f"`{set_it}.embedding_model --default`: the built-in table embeds"
    if profile.key and not _KEY_NAME.fullmatch(profile.key):
        return "key is no name of a key", f"name it as `sapwood key set` does: `{set_it}.key NAME`"
    return _address_problem(profile, local_hosts, f"`{set_it}.base_url URL`")


def _address_problem(profile: ProfileIntent, local_hosts: Iterable[str], set_it: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(profile.address)
        port = parts.port
    except ValueError:
        return "base_url is no address", f"write it as http://127.0.0.1:8080/v1: {set_it}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "base_url is no address of a server", f"write it as http://127.0.0.1:8080/v1: {set_it}"
    if parts.username is not None or parts.password is not None:
        return "base_url has a user or a password in it", f"keys go into the keyring: `sapwood key set`; {set_it}"
    if parts.query or parts.fragment:
        return "base_url has something behind its path", f"leave out what begins with ? or #: {set_it}"
    if parts.scheme == "http" and not (profile.allow_http or profile.is_local(local_hosts)):
        return (
            f"{profile.host} would be sent your text unencrypted (http)",
            f"write https, or, if that machine is yours: `sapwood config set models.local_hosts {profile.host}`",
        )
    return None
