"""Opening the page: the agent is asked to serve it, the page for a one-time link, the desktop to open that.

The link is made by the page's own process and asked for with the bearer token, which only the owner can read. So the
address that is opened is worth nothing to whoever sees it later, in a process list or a browser's history.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

from agent.actions.gateway_address import GatewayAddress, read_token, running_gateway
from agent.errors import AgentFault, AgentNotRunning
from agent.launch import open_outside
from agent.paths import Paths
from agent.states import CompanionState

PATIENCE_S = 10.0
ASK_PATIENCE_S = 5.0
ASK_AGAIN_S = 1.0
LINK_PATIENCE_S = 3.0
POLL_S = 0.05
ANSWER_BYTES = 10_000
LOGS_HINT = "`sapwood logs` says more; `sapwood status` and `sapwood search` work without the page"


def page_link(paths: Paths, place: str = "") -> str:
    """Return an address that opens the page at a place (``""``, ``tree``, ``sources/add`` …), once, within a minute.

    Blocks until the page serves, ten seconds at most. Raises ``AgentNotRunning``, and ``AgentFault`` where the page
    cannot be had.
    """
    end = time.monotonic() + PATIENCE_S
    ask_at = 0.0
    while True:
        now = time.monotonic()
        if now >= ask_at:
            found, ask_at = _ask_agent(paths), now + ASK_AGAIN_S
        # What the agent says may be some moments old: the page may just end, or serve without having been heard.
        address = running_gateway(paths)
        link = None if address is None else _link_of(address, read_token(paths) or "", place)
        if link is not None:
            return link
        if found["state"] in (CompanionState.FAILED, CompanionState.IMPOSSIBLE, CompanionState.OFF):
            raise AgentFault("the page cannot be shown", str(found.get("reason") or found["state"]), LOGS_HINT)
        if now >= end:
            problem = found.get("reason") or ("it is still starting" if address is None else "it does not answer")
            raise AgentFault("the page cannot be shown", str(problem), f"try again in a moment; {LOGS_HINT}")
        time.sleep(POLL_S)


def open_page(paths: Paths, place: str = "") -> str:
    """Open the page at a place in the owner's browser and return its address, as ``page_link``.

    Raises what that raises, and ``AgentFault`` with the address where nothing on this machine opens it.
    """
    link = page_link(paths, place)
    open_outside(link)
    return link


def _ask_agent(paths: Paths) -> dict[str, Any]:
    from agent.supervisor.control import call, running_agent

    if running_agent(paths) is None:
        raise AgentNotRunning("the page is a part of it")
    answer = call(paths, "open", ASK_PATIENCE_S).get("gateway")
    if not isinstance(answer, dict) or "state" not in answer:
        raise AgentFault(
            "this agent has no page",
            "it was started by an earlier version",
            "start it again: `sapwood stop --wait`, then `sapwood run`",
        )
    return answer


def _link_of(address: GatewayAddress, token: str, place: str) -> str | None:
    """Return a link of the page that serves there, ``None`` where it does not answer, or knows another token.

    Raises ``AgentFault`` for a place that it does not have.
    """
    # No proxy that the environment may name: the token is for this machine alone.
    line = http.client.HTTPConnection("127.0.0.1", address.port, timeout=LINK_PATIENCE_S)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        line.request("POST", "/link", json.dumps({"to": place}), headers)
        answer = line.getresponse()
        said = json.loads(answer.read(ANSWER_BYTES))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        line.close()
    if answer.status == 400:
        raise AgentFault("the page has no such place", place, "open it without one: `sapwood open`")
    path = said.get("path") if isinstance(said, dict) else None
    return f"{address.origin}{path}" if answer.status == 200 and isinstance(path, str) else None
