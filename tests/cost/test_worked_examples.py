"""Which of the worked examples the cost functions reproduce: `pytest -s` prints the table.

A test that reproduces some names them in a comment of its own, `# 5-3, table-5.2.2`, the first line of its body.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = (HERE / "worked_examples.txt").read_text().split()
# Those that say nothing a compiler could reckon.
BEYOND = {
    "inline-5.3.3-measured": "two measured times, and their ratio",
    "inline-5.H-korch": "measured times, and their sums",
    "inline-5.5.2-plan-reuse": "measured times, and how many layers share a plan",
    "inline-5.2.4-rmsnorm-row-ulps": "errors of a row whose numbers are not given",
    "inline-4.8.3-busy-factor": "two shares, and their product",
    "inline-4.8.4-cost-per-token": "a price for each hour, over tokens",
    "inline-5.4.5-transpose": "two measured times, and their ratio",
    "inline-5.6.2-shared-kv-reads": "given amounts, and their ratio",
    "table-4.1.3-hbm": "stacks and pins of memories, of which no cost hangs",
    "inline-4.2.2-rope": "a sum over the heads of a model, not a kernel's",
    "own-4.3.3-235b-bytes": "a sum over the layers of a model, not a kernel's",
    "inline-4.7.3-rom": "a machine whose weights are no memory's, and how many lanes it would want",
    "inline-4.8.2-workload": "a sum over the layers of a model, not a kernel's",
}
TEST = re.compile(r"^def (test_\w+)\(.*?\) -> None:\n    # (.+)\n", re.MULTILINE)


def covered() -> dict[str, list[str]]:
    """The examples that tests name, each with those tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for name, words in TEST.findall(path.read_text()):
            named = words.split(", ")
            for example in named:
                if example in EXAMPLES:
                    found.setdefault(example, []).append(f"{path.stem}::{name}")
            # A comment that names one names nothing else: a slip of the pen would count for nothing.
            known = [n in EXAMPLES for n in named]
            assert all(known) or not any(known), (path.name, name, words)
    return found


def test_the_table_of_examples() -> None:
    found = covered()
    for example in EXAMPLES:
        print(f"{example:40} {', '.join(found.get(example, [f'not covered: {BEYOND.get(example)}']))}")
    print(f"{len(found)} of {len(EXAMPLES)} examples")
    assert len(EXAMPLES) == len(set(EXAMPLES)) == 124
    assert set(EXAMPLES) - set(found) == set(BEYOND)
