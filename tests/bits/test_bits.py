"""The bits of the examples: as recorded, and as the scalar interpreter computes them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tilewright.compiler.ir.bits import same_bits

_spec = importlib.util.spec_from_file_location("bits_catalogue", Path(__file__).with_name("catalogue.py"))
assert _spec is not None
assert _spec.loader is not None
catalogue = importlib.util.module_from_spec(_spec)
sys.modules["bits_catalogue"] = catalogue
_spec.loader.exec_module(catalogue)

RUNS = list(catalogue.catalogue())
RECORDED = json.loads(catalogue.FILE.read_text())["bits"]


def test_the_record_holds_exactly_these_runs():
    assert list(RECORDED) == [run.key for run in RUNS]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.key)
def test_the_reference_gives_the_recorded_bits(run):
    assert run.digests() == RECORDED[run.key]


@pytest.mark.parametrize("run", [run for run in RUNS if run.small], ids=lambda run: run.key)
def test_the_interpreter_gives_the_same_bits(run):
    wanted = run.kernel.interpreted(**run.arguments())
    for name, array in run.outputs().items():
        assert same_bits(array, wanted[name]), name
