"""Machine code: the bits of every operation, alone and in lanes, and of every example."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.ir.bits import digest, same_bits

from .operations import bodies, differing, numbers, operation

_spec = importlib.util.spec_from_file_location("bits_catalogue_llvm", Path(__file__).parents[1] / "bits/catalogue.py")
assert _spec is not None
assert _spec.loader is not None
catalogue = importlib.util.module_from_spec(_spec)
sys.modules["bits_catalogue_llvm"] = catalogue
_spec.loader.exec_module(catalogue)
RUNS = [r for r in catalogue.catalogue() if not any(s.folds for s in r.kernel.program.statements)]
RECORDED = json.loads(catalogue.FILE.read_text())["bits"]


def compiled(kernel: tw.Kernel, *vectors: str) -> tw.CompiledKernel:
    schedule = tw.Schedule(kernel)
    for loop in vectors:
        schedule.vectorize(loop)
    return tw.compile(kernel, schedule, target="llvm")


@pytest.mark.parametrize("vectors", [(), ("R.i",)], ids=["scalar", "lanes"])
@pytest.mark.parametrize("name", bodies())
def test_an_operation_has_the_bits_of_the_definition(name: str, vectors: tuple[str, ...]) -> None:
    kernel = operation(name).kernel
    arguments = numbers(name, 500)
    want, got = np.asarray(kernel(**arguments)), compiled(kernel, *vectors)(**arguments)
    wrong = np.flatnonzero(differing(want, np.asarray(got)))
    assert not len(wrong), [*(v[wrong[0]] for v in arguments.values()), want[wrong[0]], got[wrong[0]]]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.key)
def test_the_examples_have_the_recorded_bits(run: Any) -> None:
    schedules = (tw.Schedule(run.kernel), tw.cpu_schedule(run.kernel))
    for made in (tw.compile(run.kernel, s, target="llvm") for s in schedules):
        found = made(**run.arguments())
        values = found if isinstance(found, tuple) else (found,)
        if made.permissions:
            # Sums in an order of their own, and products that are not rounded, where the kernel grants it.
            bounds = made.error_bound(**run.arguments())
            bounds = bounds if isinstance(bounds, tuple) else (bounds,)
            for name, value, bound in zip(run.kernel.program.outputs, values, bounds, strict=True):
                want = run.outputs()[name]
                if same_bits(np.asarray(want), np.asarray(value)):
                    continue
                assert (np.abs(want.astype(float) - value.astype(float)) <= bound).all()
            continue
        digests = {n: digest(v) for n, v in zip(run.kernel.program.outputs, values, strict=True)}
        assert digests == RECORDED[run.key]


def test_a_sum_of_matrix_units_is_refused() -> None:
    (kernel,) = tw.load(Path(__file__).parents[2] / "examples/matmul_sm90.tx").values()
    with pytest.raises(tw.IllegalTransformError, match="matrix unit"):
        tw.compile(kernel, target="llvm")


def test_a_position_that_data_give_is_checked() -> None:
    (kernel,) = tw.parse("kernel g(E: f32[V], ids: i32[N]) -> (Y: f32[N]) { Y[i] = E[ids[i]] }").values()
    for vectors in ((), ("Y.i",)):
        made = compiled(kernel, *vectors)
        ids = np.arange(40, dtype=np.int32) % 7
        table = np.arange(7, dtype=np.float32)
        assert np.array_equal(made(table, ids), table[ids])
        ids[37] = 7
        with pytest.raises(tw.ArgumentError, match=r"= 7 is outside 0\.\.7 of E"):
            made(table, ids)
        with pytest.raises(tw.ArgumentError, match="outside"):
            made(table[:0], ids)


def test_arrays_of_any_strides_are_taken_and_written() -> None:
    (kernel,) = tw.parse("kernel t(X: f32[M, N]) -> (Y: f32[N, M]) { Y[j, i] = X[i, j] }").values()
    made = compiled(kernel)
    whole = np.arange(60, dtype=np.float32).reshape(6, 10)
    want = whole[::2, ::-1].T
    assert np.array_equal(made(whole[::2, ::-1]), want)
    out = np.zeros((20, 3), np.float32)
    assert made(whole[::2, ::-1], out=out[::2]) is not None
    assert np.array_equal(out[::2], want)
    assert not out[1::2].any()


def test_strict_code_fuses_and_reorders_nothing() -> None:
    text = """kernel f(A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]) {
        C[i, j] = sum(k) A[i, k] * B[k, j]
        Y[i, j] = C[i, j] / sqrt(C[i, j] * C[i, j] + 1)
    }"""
    (kernel,) = tw.parse(text).values()
    for vectors in ((), ("Y.j",)):
        code = compiled(kernel, *vectors).assembly
        for word in ("vfm", "vfnm", "rcp", "rsqrt", "haddps"):
            assert word not in code, word
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal(s).astype(np.float32) for s in ((9, 21), (21, 19)))
    assert same_bits(np.asarray(kernel(A, B)), np.asarray(compiled(kernel, "Y.j")(A, B)))
