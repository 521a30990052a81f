"""``python -m tests.scripted``: the server until its standard input ends. Prints one line of JSON with its port."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from pathlib import Path

from tests.scripted.behaviour import BEHAVIOURS
from tests.scripted.protocols import ServedModel
from tests.scripted.server import Server
from tests.scripted.thread import MODELS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.scripted", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="write each call as lines of JSON")
    parser.add_argument("--behaviour", choices=sorted(BEHAVIOURS), default="ok")
    parser.add_argument("--model", action="append", help="a model that it has (several times: several)")
    parser.add_argument("--context", type=int, default=8_192, help="tokens that those models take")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(args: argparse.Namespace) -> None:
    models = [ServedModel(name, args.context) for name in args.model] if args.model else MODELS
    server = Server(models, args.log)
    server.script.use(BEHAVIOURS[args.behaviour])
    port = await server.listen(args.host, args.port)
    print(json.dumps({"host": args.host, "port": port}), flush=True)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def watch() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=watch, daemon=True).start()
    await over.wait()
    await server.shut()
    server.record.close()


if __name__ == "__main__":
    main()
