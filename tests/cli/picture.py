"""Put a real run of the demo into the README: ``python -m tests.cli.picture``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- demo: begin -->\n", "<!-- demo: end -->\n"


def picture_in(readme: str) -> str:
    """Return the terminal's text that the README shows."""
    return readme.partition(BEGIN)[2].partition(END)[0].removeprefix("```text\n").removesuffix("```\n")


def headings(picture: str) -> list[str]:
    """Return the lines that begin a part: those between two blank ones."""
    return re.findall(r"(?<=\n\n)(.+)\n(?=\n)", picture)


def main() -> int:
    """Capture, replace, and say what happened."""
    ran = subprocess.run(
        [sys.executable, "-m", "agent.cli.main", "demo"],
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # The throw-away folder has another name each time.
    captured = re.sub(r"sapwood-demo-\w+", "sapwood-demo", ran.stdout)
    readme = README.read_text("utf-8")
    before, _, rest = readme.partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}```text\n{captured}```\n{END}{after}", "utf-8")
    print(f"{len(captured.splitlines())} lines are in the README now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
