"""Machine code as it runs: widths of registers, threads, forks, edges of memory, and the cache of objects."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.llvm import cache, pool
from tilewright.backends.llvm.emit import emit_llvm
from tilewright.backends.llvm.target import Processor, host
from tilewright.compiler.arguments import bind
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.affine import UndecidedError
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.tree import loops
from tilewright.passes.cpu_products import CpuSizes, sizes_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MATMUL = """kernel matmul(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
    C[i, j] = bf16(sum(k) f32(A[i, k]) * f32(W[k, j]))
    Y[i, j] = bf16(silu(f32(C[i, j])))
}"""
NORM = """kernel norm(X: f16[M, D], w: f32[D]) -> (Y: f16[M, D]) where D >= 1 {
    ss[i] = sum(d, lanes=16) f32(X[i, d]) * f32(X[i, d])
    m[i] = max(d) f32(X[i, d])
    Y[i, d] = f16((f32(X[i, d]) - m[i]) * rsqrt(ss[i]) * w[d])
}"""
TURNED = "kernel turned(X: i16[M, N]) -> (Y: i16[N, M]) { Y[j, i] = X[i, j] + 1 }"
PADDED = "kernel padded(X: f64[M, N]) -> (Y: f64[M, N]) { Y[i, j] = (X[i - 1, j + 2] else 0) * X[i, j] }"
EDGED = """kernel edged(X: f32[H, C], F: f32[3, C, O], Z: f32[M]) -> (Y: f32[M, O]) {
    S[i in 0..M, o] = sum(r in 0..3, c) (X[i + r - 1, c] else 0.5) * F[r, c, o]
    Y[i, o] = S[i, o] + Z[i]
}"""
SUMMED = "kernel summed(X: f32[M, N]) -> (Y: f32[M]) { Y[i] = sum(j, lanes=8) X[i, j] }"
MEAN = """kernel mean(X: f32[N], Z: f32[N]) -> (Y: f32) where N >= 1 {
    s = sum(j, lanes=16) X[j] * Z[j]
    Y = s / f32(N)
}"""
KERNELS = {
    "matmul": MATMUL, "norm": NORM, "turned": TURNED, "padded": PADDED, "edged": EDGED, "summed": SUMMED, "mean": MEAN,
}  # fmt: skip
SMALL = CpuSizes(rows=3, columns=16, panel=6, width=32, chunk=16, side=8)
CPUS = {"128 bits": "x86-64", "AVX2": "haswell"}


def kernel(text: str) -> tw.Kernel:
    return next(iter(tw.parse(text).values()))


def each(result: Any) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(map(np.asarray, result if isinstance(result, tuple) else (result,)))


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pool, "_wanted", [2])
    monkeypatch.setattr("tilewright.backends.llvm.parts.WORTH", 0)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")  # what is kept was made with the other number
    pool.cell[0] = -1
    yield
    pool.cell[0] = -1


@pytest.mark.parametrize("text", [SUMMED, MEAN, "kernel f(X: i32[N]) -> (Y: i32) { Y = sum(j) X[j] }"])
def test_a_sum_is_made_of_vectors_where_its_order_allows_it(text: str) -> None:
    assert any("vectorize" in str(step) for step in tw.cpu_schedule(kernel(text)).trace)
    ordered = kernel(re.sub(r", lanes=\d+", "", text.replace("i32", "f32")))
    assert not any("vectorize" in str(step) for step in tw.cpu_schedule(ordered).trace)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_any_width_of_registers_gives_the_same_bits(name: str, cpu: str) -> None:
    if not host().triple.startswith("x86_64"):
        pytest.skip("code for x86-64 runs on nothing else")
    given = kernel(KERNELS[name])
    bits = 128 if cpu == "128 bits" else 256
    if host().bits < bits:
        pytest.skip("this processor has no registers of 256 bits")
    processor = Processor(CPUS[cpu], "", host().triple, bits)
    schedule = tw.cpu_schedule(given, SMALL)
    code = emit_llvm(schedule.state.program, schedule.state.tree, "", processor)
    assert "zmm" not in code.assembly
    assert cpu == "AVX2" or "ymm" not in code.assembly
    for n in (1, 7, 33, 70):
        arguments = random_inputs(given.program, dict.fromkeys(given.program.sizes, n), n)
        bound = bind(given.program, (), arguments)
        found = code.run(bound.arrays, bound.sizes, bound.scalars)
        assert found is not None
        for want, got in zip(each(given(**arguments)), found.values(), strict=True):
            assert same_bits(want, got)


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_few_rows_read_the_other_factor_in_place(rows: int) -> None:
    given = kernel(MATMUL)
    at = {"M": rows, "K": 40, "N": 70}
    schedule = tw.cpu_schedule(given, at=at)
    assert "cache_read" not in str(schedule.trace)
    assert "cache_read" in str(tw.cpu_schedule(given, at={**at, "M": 9}).trace)
    again = tw.Schedule.replay(given, schedule.to_json())
    assert str(again) == str(schedule)
    made = tw.compile(given, again)
    for m in (rows, 1, 21):
        arguments = random_inputs(given.program, {**at, "M": m}, m)
        assert same_bits(np.asarray(given(**arguments)), np.asarray(made(**arguments)))


def test_panels_are_short_where_the_other_factor_is_small() -> None:
    """Known sizes of a small factor make panels of four tiles; sizes that are given are not changed."""
    given = kernel(MATMUL)
    plain = sizes_for(host().lanes)

    def panel(at: dict[str, int] | None, sizes: CpuSizes | None = None) -> int:
        steps = tw.cpu_schedule(given, sizes, at=at).trace
        return next(int(str(s.arguments[1])) for s in steps if s.name == "split" and s.arguments[0] == "Y.i")

    small, large = ({"M": 1000, "K": n, "N": n} for n in (1024, 4096))
    assert panel(small) == 4 * plain.rows
    assert panel(large) == panel(None) > 4 * plain.rows
    assert panel(small, plain) == plain.panel


def test_what_is_too_much_in_tiles_runs_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given = kernel(MATMUL)
    whole = emit_llvm

    def gives_up(program: Any, tree: Any, *more: Any) -> Any:
        if any(loop.kind == "vector" for loop in loops(tree)):
            raise UndecidedError
        return whole(program, tree, *more)

    monkeypatch.setattr("tilewright.compiler.compile.emit_llvm", gives_up)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    made = tw.compile(given)
    assert made.trace == ()
    arguments = random_inputs(given.program, {"M": 3, "K": 4, "N": 5}, 1)
    assert same_bits(np.asarray(given(**arguments)), np.asarray(made(**arguments)))


def test_code_for_other_processors_is_made() -> None:
    given = kernel(MATMUL.replace("silu(f32(C[i, j]))", "f32(C[i, j])"))
    schedule = tw.cpu_schedule(given, SMALL)
    for processor, words in (
        (Processor("sapphirerapids", "", "x86_64-unknown-linux-gnu", 512), ("zmm",)),
        (Processor("neoverse-n1", "", "aarch64-unknown-linux-gnu", 128), ("fmul\tv", ".4s")),
    ):
        code = emit_llvm(schedule.state.program, schedule.state.tree, "", processor).assembly
        assert all(word in code for word in words)
        assert "fmla" not in code  # nothing is fused that the kernel rounds


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "mean"])  # one number has nothing to share
def test_threads_change_no_bit(name: str, two_threads: None) -> None:
    given = kernel(KERNELS[name])
    made = tw.compile(given, tw.cpu_schedule(given, SMALL))
    assert 'call void %"share out"' in made.source
    for n in (1, 40, 65):
        arguments = random_inputs(given.program, dict.fromkeys(given.program.sizes, n), n)
        for _ in range(3):
            for want, got in zip(each(given(**arguments)), each(made(**arguments)), strict=True):
                assert same_bits(want, got)


def _child(connection: Any, text: str) -> None:
    given = kernel(text)
    made = tw.compile(given, tw.cpu_schedule(given, SMALL))
    arguments = random_inputs(given.program, dict.fromkeys(given.program.sizes, 40), 1)
    connection.send(same_bits(np.asarray(given(**arguments)), np.asarray(made(**arguments))))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_threads_of_its_own(two_threads: None) -> None:
    given = kernel(NORM)
    made = tw.compile(given, tw.cpu_schedule(given, SMALL))
    made(**random_inputs(given.program, {"M": 40, "D": 40}, 1))  # the pool runs
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(there, NORM))
    child.start()
    assert here.poll(60), "the child hangs"
    assert here.recv()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("count", [0, 1025, True])
def test_a_number_of_threads_is_one(count: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1024"):
        tw.set_threads(count)


def _at_the_edge(array: np.ndarray[Any, Any], kept: list[Any]) -> np.ndarray[Any, Any]:
    """A copy whose last byte is followed by memory that nobody may touch."""
    page = mmap.PAGESIZE
    room = -(-max(array.nbytes, 1) // page) * page
    block = mmap.mmap(-1, room + page)
    kept.append(block)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(start + room), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(block, np.uint8, array.nbytes, room - array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


GUARDED = """
import sys
sys.path.insert(0, {folder!r})
import test_llvm_run as t
t.run_at_the_edge({name!r})
print("done")
"""


def run_at_the_edge(name: str) -> None:
    given = kernel(KERNELS[name])
    made = tw.compile(given, tw.cpu_schedule(given, SMALL))
    kept: list[Any] = []
    sizes = [dict.fromkeys(given.program.sizes, n) for n in (1, 5, 16, 37)]
    # An input that is empty beside others that are not: nothing of it may be read.
    sizes += [{**one, "H": 0} for one in sizes if "H" in one]
    for one in sizes:
        arguments = random_inputs(given.program, one, 1)
        want = each(given(**arguments))
        held = {k: _at_the_edge(v, kept) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        out = tuple(_at_the_edge(np.zeros_like(w), kept) for w in want)
        made(**held, out=out)
        assert all(same_bits(w, o) for w, o in zip(want, out, strict=True))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect of Linux")
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_beyond_an_array_is_touched(name: str) -> None:
    text = GUARDED.format(folder=str(Path(__file__).parent), name=name)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize("dtype", ["f32", "f64", "i16"])
def test_registers_that_go_past_the_caches_begin_lines_wherever_a_row_does(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.backends.llvm.vectors.STREAMED", 0)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    given = kernel(f"kernel f(X: {dtype}[M, N]) -> (Y: {dtype}[M, N]) {{ Y[i, j] = X[i, j] * 3 + 1 }}")
    schedule = tw.Schedule(given)
    schedule.vectorize("Y.j")
    made = tw.compile(given, schedule)
    assert "!nontemporal" in made.source
    for columns in (511, 512, 513, 1040, 1055):
        arguments = random_inputs(given.program, {"M": 3, "N": columns}, 1)
        want = np.asarray(given(**arguments))
        for offset in range(20):
            room = np.full(3 * columns + 40, 7, want.dtype)
            out = room[offset : offset + 3 * columns].reshape(3, columns)
            made(**arguments, out=out)
            assert same_bits(want, out)
            assert (room[:offset] == 7).all()
            assert (room[offset + 3 * columns :] == 7).all()


# ---- the cache


def test_objects_are_kept_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    assert cache.kept("a", lambda: b"code") == b"code"
    assert cache.kept("a", lambda: b"other") == b"code"
    assert [path.name for path, _ in cache.objects()] == ["a.o"]
    path = tmp_path / "a.o"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.kept("a", lambda: b"again") == b"again"
    assert cache.kept("a", lambda: b"") == b"again"
    path.write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.kept("a", lambda: b"new") == b"new"
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    assert cache.kept("a", lambda: b"fresh") == b"fresh"


def test_the_oldest_objects_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    for number in range(5):
        cache.kept(f"n{number}", lambda: bytes(1000))
        os.utime(tmp_path / f"n{number}.o", (number, number))
    cache.kept("n0", lambda: b"")  # used again
    assert cache.shrink(3500) == 2
    assert sorted(path.stem for path, _ in cache.objects()) == ["n0", "n3", "n4"]


def test_what_cannot_be_kept_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "file" / "folder"))
    assert cache.kept("a", lambda: b"code") == b"code"


HAMMER = """
import sys, time
from tilewright.backends.llvm import cache
end, count = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    name = f"n{count % 7}"
    wanted = name.encode() * 5000
    assert cache.kept(name, lambda: wanted) == wanted
    if count % 5 == 0:
        cache.shrink(60000)
    count += 1
print(count)
"""


def test_processes_share_a_cache(tmp_path: Path) -> None:
    surroundings = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path), "PYTHONWARNINGS": "error"}
    seconds = os.environ.get("TILEWRIGHT_HAMMER", "2")
    command = [sys.executable, "-c", HAMMER, seconds]
    running = [subprocess.Popen(command, env=surroundings, stdout=-1, stderr=-1, text=True) for _ in range(8)]
    killed = subprocess.Popen(command, env=surroundings, stdout=-1, stderr=-1)
    time.sleep(1.2)
    killed.kill()
    killed.communicate()
    for process in running:
        out, error = process.communicate(timeout=60 + float(seconds))
        assert process.returncode == 0, error
        assert int(out) > 10


TRIANGLE = """kernel triangle(P: f32[T, T], Q: f32[T, D], V: f32[T, D]) -> (O: f32[T, D], L: f32[T]) {
    S[t, s in 0..t + 1] = sum(d) Q[t, d] * V[s, d]
    L[t] = sum(s in 0..t + 1) S[t, s]
    O[t, d] = sum(s in 0..t + 1) P[t, s] * V[s, d]
}"""


def test_tiles_across_an_edge_are_registers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a tile that end at different terms, and tiles half beyond a diagonal: the sums are kept in registers, and
    each row is tested; the bits are those of the definition at every size."""
    from tilewright.backends.llvm.scopes import Scopes

    held: list[str] = []
    kept = Scopes._held

    def watched(self: Scopes, alloc: Any, *more: Any) -> None:
        kept(self, alloc, *more)
        held.append(alloc.tensor)

    monkeypatch.setattr(Scopes, "_held", watched)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    given = kernel(TRIANGLE)
    lanes = host().lanes
    made = tw.compile(given, tw.cpu_schedule(given, tw.CpuSizes(rows=5, columns=2 * lanes, panel=10, depth=4)))
    assert {"S.acc", "O.acc"} <= set(held)
    assert held.count("S.acc") >= 2, "full tiles, and those with lanes left out"
    for t in (0, 1, 4, 5, 6, 11, 2 * lanes, 2 * lanes + 1, 4 * lanes + 7):
        for d in (1, lanes, 2 * lanes, 4 * lanes + 3):
            arguments = random_inputs(given.program, {"T": t, "D": d}, t)
            wanted, found = each(given(**arguments)), each(made(**arguments))
            assert all(same_bits(w, f) for w, f in zip(wanted, found, strict=True)), (t, d)


def test_lanes_of_a_sum_are_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the length of a row is: what is beyond its end takes no part. A loop of one iteration is none."""
    from tilewright.backends.llvm.scopes import Scopes

    memory: list[str] = []
    monkeypatch.setattr(Scopes, "_in_memory", _noted(Scopes._in_memory, memory))
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    for kind, lanes in (("f32", 32), ("f64", 16), ("f32", 4), ("f32", 256)):
        text = f"kernel f(X: {kind}[M, D]) -> (Y: {kind}[M]) {{ Y[i] = sum(d, lanes={lanes}) X[i, d] }}"
        given = kernel(text)
        made = tw.compile(given)
        assert memory == []
        for columns in (0, 1, lanes - 1, lanes, lanes + 1, 2 * lanes, 5 * lanes + 3):
            arguments = random_inputs(given.program, {"M": 3, "D": columns}, columns)
            assert same_bits(np.asarray(given(**arguments)), np.asarray(made(**arguments))), (kind, lanes, columns)


def test_a_buffer_outside_every_loop_is_as_large_as_its_layout_says() -> None:
    """Three rows that go round, and rows with room behind them; what a loop does not decide is tested before it."""
    text = """kernel rows(X: f32[H, W]) -> (Y: f32[H, W]) {
        B[y, x] = X[y, x] * 2
        Y[y, x] = B[y, x] + (B[y - 1, x] else 0) + (B[y - 2, x] else 0)
    }"""
    given = kernel(text)
    whole, round_, roomy = (tw.Schedule(given) for _ in range(3))
    round_.merge("B.y", "Y.y", 1)
    round_.store("B", fold={0: 4})
    round_.vectorize("Y.x")
    roomy.store("B", pad=5)
    made = [tw.compile(given, s) for s in (whole, round_, roomy)]
    parameters = [m.source.split("@.body(")[1].split(")")[0] for m in made]
    assert ['%"B"' in names for names in parameters] == [True, False, False]
    for h, w in ((0, 3), (1, 1), (2, 5), (9, 40)):
        arguments = random_inputs(given.program, {"H": h, "W": w}, h)
        wanted = np.asarray(given(**arguments))
        assert all(same_bits(wanted, np.asarray(m(**arguments))) for m in made), (h, w)


def test_what_is_beyond_the_last_row_of_a_tile_is_that_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that are not full at an edge are registers as well, all rows of them, without a test in the sum; a sum over
    an unrolled loop adds each term once."""
    from tilewright.backends.llvm.scopes import Scopes

    text = """kernel product(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
        C[i, j] = sum(k) A[i, k] * B[k, j]
    }"""
    given = kernel(text)
    lanes = host().lanes
    memory: list[str] = []
    monkeypatch.setattr(Scopes, "_in_memory", _noted(Scopes._in_memory, memory))
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    s = tw.cpu_schedule(given, tw.CpuSizes(rows=5, columns=lanes, panel=10, depth=4))
    made = tw.compile(given, s)
    assert "C.acc" not in memory
    assert "smin.i64(i64 4" in made.source
    s.split("C.ki", 3)
    s.unroll("C.kii")
    terms = tw.compile(given, s)
    for m in range(1, 12):
        for n, k in ((1, 1), (lanes, 3), (lanes + 1, 7), (2 * lanes + 3, 8)):
            arguments = random_inputs(given.program, {"M": m, "N": n, "K": k}, m)
            wanted = np.asarray(given(**arguments))
            assert same_bits(wanted, np.asarray(made(**arguments))), (m, n, k)
            assert same_bits(wanted, np.asarray(terms(**arguments))), (m, n, k)


def _noted(kept: Callable[..., None], tensors: list[str]) -> Callable[..., None]:
    def watched(self: Any, alloc: Any, *more: Any) -> None:
        tensors.append(alloc.tensor)
        kept(self, alloc, *more)

    return watched


def test_quotients_of_a_row_are_rounded_once() -> None:
    """Numbers up to 1 by one number of the row, whatever that is: by its reciprocal, with the bits of a division."""
    text = """kernel f(X: f32[M, D], S: f32[M]) -> (Y: f32[M, D]) where D >= 1 {
        m[i] = max(d) X[i, d]
        e[i, d] = exp(X[i, d] - m[i])
        Y[i, d] = e[i, d] / S[i]
    }"""
    given, rng = kernel(text), np.random.default_rng(1)
    made = tw.compile(given)
    assert ("@llvm.floor.f32" in made.source) == (host().lanes > 4)
    rows, columns = 1000, 131
    x = (rng.standard_normal((rows, columns)) * rng.choice([0.1, 1, 5, 30], (rows, 1))).astype(np.float32)
    x[:, :40] -= rng.integers(60, 104, (rows, 40)).astype(np.float32)  # quotients that are subnormal
    s = np.exp2(rng.uniform(-30, 30, rows)).astype(np.float32)
    s[:200] = rng.integers(1, 1 << 24, 200)
    s[200:300] = 2 * rng.integers(1, 3000, 100)  # of which some are ties
    s[300:309] = 0, -0.0, np.inf, -np.inf, np.nan, -3, 2**-24, 2**24, 2**24 - 1
    assert same_bits(np.asarray(given(x, s)), np.asarray(made(x, s)))


def test_what_follows_a_row_that_is_read_again_is_fetched() -> None:
    """A second pass over a row asks for the next row; what is read once, or is no input, asks for nothing."""
    text = """kernel f(X: f32[M, D]) -> (Y: f32[M, D]) where D >= 1 {
        s[i] = sum(d, lanes=32) X[i, d] * X[i, d]
        Y[i, d] = X[i, d] * s[i]
    }"""
    twice = kernel(text)
    made = tw.compile(twice)
    # In each copy of the scope, but for what is left of the row.
    copies = made.source.count("; s.acc[i] = merge")
    assert made.source.count("call void @llvm.prefetch") == made.source.count("; Y[i, d] = X[i, d] * s[i]") - copies
    once = kernel("kernel g(X: f32[M, D]) -> (Y: f32[M, D]) { Y[i, d] = X[i, d] * 2 + X[i, d] }")
    assert "prefetch" not in tw.compile(once).source
    for rows, columns in ((1, 1), (3, 16), (5, 70)):
        arguments = random_inputs(twice.program, {"M": rows, "D": columns}, 1)
        assert same_bits(np.asarray(twice(**arguments)), np.asarray(made(**arguments)))
