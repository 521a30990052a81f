"""The built-in models say the same in every process: Python orders its sets anew in each of them."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import REPOSITORY

SAY = """
import hashlib, itertools
from agent.models.builtin.entities import BuiltinExtractor
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryInput, SummaryRequest, budget_tokens
from tests.models.planted import corpus
from tests.models.test_planted_facts import SEEDS

said = []
for seed in SEEDS:
    groups = [list(group) for group in corpus(seed, 64, facts_per_leaf=1.5).groups]
    said += [repr(BuiltinExtractor().extract(leaf.text, title=leaf.title)) for group in groups for leaf in group]
    for level in (1, 2, 3, 4):
        above = []
        for group in groups:
            budget = budget_tokens(sum(each.tokens for each in group))
            made = BuiltinSummariser().summarise(SummaryRequest(tuple(group), level, "source", budget))
            said.append(f"{made.title}|{made.text}")
            above.append(SummaryInput("s", made.text, made.tokens, made.title))
        groups = [above[start : start + 4] for start in range(0, len(above), 4)]
print(len(said), hashlib.sha256("\\0".join(said).encode()).hexdigest())
"""


def test_summaries_and_entities_do_not_depend_on_the_order_of_sets() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SAY],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(said) == 1, said
