"""Load a kernel, run it on real data, look at its loops, check its bits, and run it as machine code.

python examples/demo.py
"""

import time
from pathlib import Path

import ml_dtypes
import numpy as np
import tilewright as tw
from tilewright.compiler.ir.bits import digest, same_bits

HERE = Path(__file__).parent


def tokens_and_weights(m, k, n):
    """Character statistics of this file as activations, and the weights of a cosine transform."""
    text = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.float32)
    rows = np.resize((text - text.mean()) / text.std(), (m, k))
    weights = np.cos(np.pi / k * np.outer(np.arange(k) + 0.5, np.arange(n))) * np.sqrt(2 / k)
    return rows.astype(ml_dtypes.bfloat16), weights.astype(np.float32).astype(ml_dtypes.bfloat16)


def main():
    kernel = tw.load(HERE / "matmul_silu.tx")["matmul_silu"]
    A, W = tokens_and_weights(256, 512, 384)
    Y = kernel(A, W)

    print(f"kernel {kernel.signature}\n")
    print("its loops, as the definition runs them (par: independent; red: they add up; seq: in order):")
    print("\n".join(f"    {line}" for line in str(tw.Schedule(kernel)).splitlines()))
    print(f"\nY = matmul_silu(A, W) on {A.shape[0]} x {A.shape[1]} x {W.shape[1]}:")
    print("\n".join(f"    {line}" for line in str(Y[:4, :6].astype(np.float32)).splitlines()))

    print("\nhow the bits were checked:")
    # The same sums in plain NumPy: ascending k, one rounding for each product and each sum.
    total = np.zeros(Y.shape, np.float32)
    for k in range(A.shape[1]):
        total += A[:, k, None].astype(np.float32) * W[k].astype(np.float32)
    C = total.astype(ml_dtypes.bfloat16)
    exact = C.astype(np.float64)
    silu = (exact / (1 + np.exp(-exact))).astype(np.float32).astype(ml_dtypes.bfloat16)
    rows = [0, 100, 255]
    alone = same(kernel.interpreted(A[rows][:, :48], W[:48, :16])["Y"], kernel(A[rows][:, :48], W[:48, :16]))
    print(f"    every scalar operation done alone, exactly, then rounded (3 x 48 x 16): {alone}")
    print(
        f"    against silu in double precision, rounded to bf16: {int((silu != Y).sum())} of {Y.size} elements differ"
    )
    print(f"    the same rows in a batch of 3: {same(kernel(A[rows], W), Y[rows])}")
    print(f"    digest of Y: {digest(Y)}")

    made = tw.compile(kernel)
    fast = made(A, W)
    off = np.abs(fast.astype(np.float64) - Y.astype(np.float64))
    print("\nas machine code for this processor, with what the kernel permits:")
    print("\n".join(f"    {line}" for line in made.numerics))
    print(f"    {int((fast != Y).sum())} of {Y.size} elements differ, none by more than the bound:", end=" ")
    print(bool((off <= made.error_bound(A, W)).all()))
    definition, code = seconds(lambda: kernel(A, W)), seconds(lambda: made(A, W, out=fast))
    print(f"    {code * 1e3:.2f} ms, where the definition takes {definition * 1e3:.0f} ms in NumPy")


def seconds(function):
    """The median of a few calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return sorted(times)[2]


def same(a, b):
    return "the same bits" if same_bits(a, b) else "DIFFERENT BITS"


if __name__ == "__main__":
    main()
