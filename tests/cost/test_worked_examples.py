"""Which of the worked examples the cost functions reproduce: `pytest -s` prints the table.

A test that reproduces some names them in a comment of its own, `# 5-3, table-5.2.2`, the first line of its body.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = (HERE / "worked_examples.txt").read_text().split()
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
        print(f"{example:40} {', '.join(found.get(example, ['not covered: no function yet']))}")
    print(f"{len(found)} of {len(EXAMPLES)} examples")
    assert len(EXAMPLES) == len(set(EXAMPLES)) == 124
    assert len(found) >= 30
