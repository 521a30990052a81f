"""The MCP server: the tools that there are, what they take and answer, and how a call is carried out.

Transports hand in how something is run with an open home in a thread; nothing here blocks the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from agent import __version__
from agent.db.faults import is_database_fault
from agent.errors import DatabaseCorrupt, SapwoodError
from agent.gateway.calls import CALLS, Call, plain, read_params, schema_of
from agent.gateway.mcp.guide import DESCRIPTIONS, INSTRUCTIONS
from agent.gateway.mcp.wording import error_in_words, in_words

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from agent.actions.home import Home

    WithHome = Callable[[Callable[[Home], Any], bool], Awaitable[Any]]

_log = logging.getLogger("sapwood.mcp")

DOCTOR = "tell its owner: `sapwood doctor` says what is wrong with the memory, and how to mend it"


def build_server(with_home: WithHome) -> Server[Any]:
    """Return the server. ``with_home(action, waits)`` carries ``action(home)`` out; ``waits``: it may ask a model."""
    tools = [tool_of(call) for call in CALLS]

    async def list_tools(
        _context: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        call = next((each for each in CALLS if each.tool == params.name), None)
        if call is None:
            known = ", ".join(each.tool for each in CALLS)
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]}; there are: {known}")
        return await _carry_out(call, params.arguments, with_home)

    return Server(
        "sapwood",
        version=__version__,
        title="Sapwood, this person's own memory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tool_of(call: Call) -> Tool:
    """Return a call as a tool: described, with the schemas of what it takes and answers."""
    return Tool(
        name=call.tool,
        title=call.title,
        description=DESCRIPTIONS[call.tool],
        input_schema=schema_of(call.params),
        output_schema=schema_of(call.answer),
        annotations=ToolAnnotations(
            title=call.title,
            read_only_hint=not call.writes,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


async def _carry_out(call: Call, arguments: dict[str, Any] | None, with_home: WithHome) -> CallToolResult:
    try:
        params = read_params(call.params, arguments, strict=False)
        answer = await with_home(partial(_run, call, params), call.waits)
    except SapwoodError as error:
        return _failed(_with_doctor(error))
    except Exception as error:
        return _failed(_unforeseen(error))
    return CallToolResult(
        content=[TextContent(text=in_words(answer))],
        structured_content=plain(answer),
    )


def _run(call: Call, params: Any, home: Home) -> Any:
    return call.run(home, params)


def _failed(error: SapwoodError) -> CallToolResult:
    # In the result, not as an error of the protocol: a model reads it there, and can do better.
    return CallToolResult(content=[TextContent(text=error_in_words(error))], is_error=True)


def _with_doctor(error: SapwoodError) -> SapwoodError:
    if isinstance(error, DatabaseCorrupt) and "sapwood doctor" not in error.hint:
        return SapwoodError(error.title, error.detail, f"{error.hint}; {DOCTOR}" if error.hint else DOCTOR)
    return error


def _unforeseen(error: Exception) -> SapwoodError:
    _log.error("a call failed by an error nobody caught", exc_info=error)
    if isinstance(error, OSError):
        return SapwoodError("the disk did not do what was asked", error.strerror or "", "tell its owner")
    if is_database_fault(error):
        return SapwoodError("the memory cannot be used just now", type(error).__name__, f"try again; or {DOCTOR}")
    return SapwoodError("something went wrong in Sapwood", "", "tell its owner: `sapwood bug-report` collects why")
