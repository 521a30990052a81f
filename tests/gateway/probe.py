"""Handlers of the tests: what page and RPC look like to the gateway, without what they show."""

from __future__ import annotations

import asyncio
import time
from multiprocessing.connection import Connection

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from agent.gateway import app, process
from agent.gateway.process import gateway_main
from agent.gateway.serving import csrf, in_thread, with_home
from agent.system.companion import CompanionArgs


async def _home(request: Request) -> Response:
    return JSONResponse({"csrf": csrf(request)})


async def _sources(request: Request) -> Response:
    return JSONResponse({"sources": await with_home(request, lambda home: len(home.intent.sources))})


async def _changed(request: Request) -> Response:
    return JSONResponse(dict(await request.form()))


async def _refused(request: Request) -> Response:
    await with_home(request, lambda home: home.source("nowhere"))
    return Response()


async def _broken(request: Request) -> Response:
    raise RuntimeError("planted words that no page and no log may show")


async def _form(request: Request) -> Response:
    return HTMLResponse(
        "<!doctype html><html lang=en><title>form</title><script src='/static/page.js' defer></script>"
        "<form method=post action='/sources/add'>"
        f"<input type=hidden name=csrf value='{csrf(request)}'>"
        "<input name=path value='notes'><button>Add</button></form>"
        "<p id=live></p><script>document.title = 'inline'</script></html>"
    )


async def _script(request: Request) -> Response:
    return Response(
        """
        new EventSource("/events").addEventListener("glance", (event) => {
          document.getElementById("live").textContent = JSON.parse(event.data).state;
        });
        """,
        media_type="text/javascript",
    )


async def _slow(request: Request) -> Response:
    await in_thread(request, lambda: time.sleep(0.5), waits=True)
    return JSONResponse({})


async def _endless(request: Request) -> Response:
    await asyncio.sleep(3600)
    return Response()


async def _rpc(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def _style(request: Request) -> Response:
    return Response("main {}", media_type="text/css", headers={"cache-control": "no-cache"})


ROUTES = [
    Route("/", _home),
    Route("/tree", _sources),
    Route("/sources/add", _changed, methods=["POST"]),
    Route("/refused", _refused),
    Route("/broken", _broken),
    Route("/slow", _slow),
    Route("/endless", _endless),
    Route("/rpc", _rpc, methods=["GET", "POST"]),
    Route("/mcp", _rpc, methods=["POST"]),
    Route("/static/page.css", _style),
    Route("/static/page.js", _script),
    Route("/form", _form),
]


def probe_main(args: CompanionArgs, connection: Connection) -> int:
    """The gateway's own main, with the handlers above instead of the page's."""
    app.ROOMS = ("tests.gateway.probe",)
    return gateway_main(args, connection)


def portless_main(args: CompanionArgs, connection: Connection) -> int:
    """The same, on a machine without a port to spare."""

    def listen(port: int) -> object:
        raise OSError(98, "Address already in use")

    process.listen = listen  # type: ignore[assignment]
    return gateway_main(args, connection)
