"""The form of the sequences, what is refused, and the page that states their errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tilewright.compiler.ir.dtype import BF16, DTYPES, F32, F64, DType
from tilewright.compiler.ir.elementary import FUNCTIONS, sequence
from tilewright.compiler.ir.elementary.sequence import Builder, Op, Sequence

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_operation_is_idle_or_repeated(name: str, dtype: DType) -> None:
    ops = sequence(name, dtype).ops
    used = {argument for op in ops for argument in op.args} | {sequence(name, dtype).result}
    assert used == set(range(len(ops)))
    texts = [(op.kind, op.args, repr(op.value)) for op in ops]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_literals_and_tables_fit_the_type(name: str, dtype: DType) -> None:
    for op in sequence(name, dtype).ops:
        words = op.value if isinstance(op.value, tuple) else (op.value,) if isinstance(op.value, int) else ()
        assert all(0 <= word < 1 << dtype.bits for word in words)
        if isinstance(op.value, float) and op.value == op.value:
            assert float(dtype.numpy.type(op.value)) == op.value


def test_equal_operations_are_shared_but_not_the_zeros() -> None:
    b = Builder(F32)
    assert b.op("add", b.x, 1.0) == b.op("add", b.x, 1.0)
    assert b.const(0.0) != b.const(-0.0)
    assert b.iconst(-1) == b.iconst(0xFFFFFFFF)


def test_a_sequence_of_the_wrong_sort_is_refused() -> None:
    b = Builder(F32)
    with pytest.raises(ValueError, match="result is not a float"):
        b.finish("f", b.op("bits", b.x))
    with pytest.raises(ValueError, match=r"operation 1 \(float\) takes 'i', not 'f'"):
        Sequence("f", F32, (Op("x"), Op("float", (0,))), 1)
    with pytest.raises(ValueError, match=r"operation 1 \(neg\) is out of place"):
        Sequence("f", F32, (Op("x"), Op("neg", (1,))), 1)
    with pytest.raises(TypeError, match="stands where a word is wanted"):
        b.op("shl", b.op("bits", b.x), 1.0)


def test_other_functions_and_types_are_refused() -> None:
    with pytest.raises(ValueError, match="no elementary function 'sinh'; there are exp, exp2"):
        sequence("sinh", F32)
    for dtype in set(DTYPES.values()) - {F32, F64}:
        with pytest.raises(ValueError, match=f"defined on f32 and f64, not on {dtype}"):
            sequence("exp", dtype)
    assert sequence("exp", BF16.wide) is sequence("exp", F32)


def test_the_page_states_the_measured_errors() -> None:
    measured = json.loads((ROOT / "benchmarks/results/elementary.json").read_text())["functions"]
    lines = (ROOT / "docs/numerics-elementary.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if re.match(r"\| \w+ \| f(32|64) \|", line)]
    assert [f"{row[0]}_{row[1]}" for row in rows] == [f"{n}_{t}" for t in ("f32", "f64") for n in FUNCTIONS]
    for name, dtype, operations, worst, at, mean, right, _ in rows:
        result = measured[f"{name}_{dtype}"]
        assert int(operations) == result["operations"] == sequence(name, DTYPES[dtype]).cost
        assert worst == f"{result['max_ulp']:.4f}"
        assert float.fromhex(at.strip("`")) == float.fromhex(result["max_at"])
        assert mean == f"{result['mean_ulp']:.3f}"
        assert right == f"{100 * (1 - result['wrong'] / result['ordinary']):.2f}"
