"""Run one benchmark and print one JSON object, or a table for people. Exit 0 whether or not a bar holds."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from tests.bench.harness import Result, Setting, machine

NAMES = ("queue", "claim", "wake", "idle", "tree", "vault", "models", "switch", "push")


def main() -> int:
    """Return the exit code: 0 measured, 1 a broken measurement."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="repeat less; never smaller")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAPWOOD_TEST_DATA", "../shared/data")))
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else there")
    options = parser.parse_args()
    bench = importlib.import_module(f"tests.bench.bench_{options.name}")
    result: Result = bench.run(Setting(options.quick, options.data))
    if options.json:
        document = {
            "bench": options.name,
            "machine": machine(),
            "figures": result.figures,
            "bars": result.bars,
            "notes": result.notes,
        }
        print(json.dumps(document, indent=2))
        return 0
    for name, value in result.figures.items():
        print(f"{name:40} {value}")
    for bar in result.bars:
        print(f"{'ok  ' if bar['ok'] else 'MISS'} {bar['name']:35} {bar['value']:<12g} {bar['bar']}")
    for note in result.notes:
        print(note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
