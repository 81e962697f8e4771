"""Rooflines of worked examples by their names: from machines' figures, and what programs ask for."""

from __future__ import annotations

import pytest
import sympy
import tilewright as tw
from tilewright.cost.capacity import fits
from tilewright.cost.count import symbol
from tilewright.cost.economics import transfer
from tilewright.cost.machine import MachineError, machine
from tilewright.cost.roofline import above, reading, roofline, stages, turning
from tilewright.cost.traffic import moved
from tilewright.cost.work import work

us, ms, GB, KiB, MiB, GiB = 1e-6, 1e-3, 1e9, 2**10, 2**20, 2**30
PROJECTION = """kernel projection(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
    Y[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
}"""
STEP, PREFILL = (
    16.34477056 * GB,
    61.849981681664e12,
)  # of a model of 8 G parameters: bytes of a step, operations of a prompt


def asked(**sizes: int) -> tuple[float, float]:
    """The operations of a projection, and its bytes, each once."""
    (kernel,) = tw.parse(PROJECTION).values()
    state = tw.Schedule(kernel).state
    flops = sum(w.flops * w.times.at(sizes) for w in work(state.program, state.tree))
    return flops, sum(m.there.at(sizes) for m in moved(state.program, state.tree) if m.tensor in "XWY")


def test_operands_of_a_projection() -> None:
    # table-5.0, table-4.1.1
    flops, whole = asked(M=1024, K=4096, N=12288)
    assert (flops, whole) == (103079215104, 128 * MiB)
    (one, few), (many, more) = asked(M=1, K=4096, N=4096), asked(M=256, K=4096, N=4096)
    assert (one, many) == (33554432, 8589934592)
    assert (few / MiB, more / MiB) == (32.015625, 36)
    assert (one / few, many / more) == (pytest.approx(0.99951196), pytest.approx(227.5555556))
    assert 100 * (more / few - 1) == pytest.approx(12.445095)


def test_where_a_projection_turns() -> None:
    # table-4.8.1, exp-4-5
    card = machine("rtx-4090")
    one, many = (roofline(card, *asked(M=m, K=4096, N=4096)) for m in (1, 256))
    assert (one.computing / us, one.moving / us, one.binds) == (
        pytest.approx(0.203114),
        pytest.approx(33.304381),
        "bytes",
    )
    assert (many.computing / us, many.moving / us, many.binds) == (
        pytest.approx(51.997183),
        pytest.approx(37.449143),
        "operations",
    )
    assert many.balance == pytest.approx(163.888889)
    fast = roofline(card, *asked(M=256, K=4096, N=4096), ("f16", "f16", "matrix"))
    assert fast.computing / us == pytest.approx(26.0301, rel=2e-3)
    rows, d = symbol("M"), 4096
    intensity = rows * d * d / (d * d + 2 * rows * d)
    found = [turning(intensity, sympy.Float(many.balance * factor), rows) for factor in (1, 2, 0.5)]
    assert found == pytest.approx([178.144719, 390.233820, 85.359858])
    assert above(found[0]) == 179
    assert turning(intensity, sympy.Float(2 * d), rows) == float("inf")


def test_a_share_of_a_card() -> None:
    # inline-5.1.5-sm-share
    card = machine("h100-sxm")
    found = roofline(card, 132 * 2 * 128 * 128 * 64, 132 * 2 * (128 * 64 + 64 * 128))
    assert (found.moving / us, found.computing / us) == (pytest.approx(1.29115701), pytest.approx(0.27978983))
    assert (found.intensity, found.balance) == (64, pytest.approx(295.343284))
    assert found.moving / found.computing == pytest.approx(4.61473881)
    assert card.figure("memory_bandwidth").value / 132 / GB == pytest.approx(25.3787879)


def test_reading_a_step_and_computing_a_prompt() -> None:
    # inline-4.8.2-devices, inline-4.6.3-apple-read-time
    cards = ("rtx-3090", "rtx-4090", "rtx-5090", "rtx-pro-6000", "a100-80gb-sxm", "h100-sxm", "h200-sxm")
    read = [reading(machine(c), STEP) / ms for c in cards]
    assert read == pytest.approx([17.462362, 16.215050, 9.120966, 9.120966, 8.016072, 4.879036, 3.405161])
    computed = [roofline(machine(c), PREFILL, 0).computing / ms for c in cards]
    wanted = [871.126503, 374.394562, 295.226643, 122.766935, 198.237121, 62.512615, 62.506298]
    assert computed == pytest.approx(wanted, rel=2e-4)
    assert [1000 / t for t in (read[1], read[2])] == pytest.approx([61.671101, 109.637513])
    apple = [reading(machine(c), STEP) / ms for c in ("m1-ultra", "m3-ultra", "m4-max")]
    assert apple == pytest.approx([20.4309632, 19.9569848, 29.9354772])
    weights = [reading(machine(c), 32 * MiB) / us for c in ("m4", "m5")]
    assert weights == pytest.approx([279.620267, 219.310013])


def test_two_generations() -> None:
    # inline-4.6.1-v100, table-4.6.1-hardware, inline-4.6.1-mx
    old = machine("v100-sxm2")
    large, small = asked(M=4096, K=4096, N=4096), asked(M=1, K=4096, N=4096)
    assert large[0] == 137438953472
    assert large[1] == 96 * MiB
    vector, matrix = (roofline(old, *large, kind) for kind in (("f32", "f32", "vector"), ("f16", "f32", "matrix")))
    assert (vector.computing / ms, matrix.computing / ms, matrix.moving / ms) == pytest.approx(
        (8.754074, 1.099512, 0.111848), rel=1e-5
    )
    assert vector.computing / matrix.computing == pytest.approx(7.961783)
    assert roofline(old, *small, ("f16", "f32", "matrix")).moving / us == pytest.approx(37.3009, rel=1e-3)
    rate = {c: machine(c).rate("bf16", "f32").value for c in ("rtx-3090", "rtx-4090", "a100-80gb-sxm", "h100-sxm")}
    assert rate["rtx-4090"] / rate["rtx-3090"] == pytest.approx(2.326761, rel=1e-3)
    assert rate["h100-sxm"] / rate["a100-80gb-sxm"] == pytest.approx(3.171154)
    assert [transfer(64 * MiB, bandwidth) / us for bandwidth in (300e9, 450e9)] == pytest.approx(
        [223.696213, 149.130809]
    )
    wide, narrow = 2 * 4096**2, 4096**2 / 2 + 4096**2 / 32
    times = [
        reading(machine(c), size) / us for c, size in (("rtx-4090", wide), ("rtx-5090", wide), ("rtx-5090", narrow))
    ]
    assert times == pytest.approx([33.288127, 18.724571, 4.973714])
    assert times[0] / times[2] == pytest.approx(6.69281046)


def test_measured_times_beside_the_floor() -> None:
    # inline-4.8.3-measured-decode, table-4.8.3
    card = machine("rtx-pro-6000")
    floor = reading(card, STEP) / ms
    assert (floor, 100 * floor / 25.83, 25.83 - floor) == (
        pytest.approx(9.120966),
        pytest.approx(35.3115204),
        pytest.approx(16.709034),
    )
    assert reading(card, (8192 - 2048) * 147456) / ms == pytest.approx(0.505563)
    batch = reading(card, 15136811008 + 64 * 2048 * 147456) / ms
    assert (batch, 100 * batch / 29.63) == (pytest.approx(19.232234), pytest.approx(64.907979))
    one, many = (roofline(card, *asked(M=m, K=4096, N=4096)) for m in (1, 256))
    assert [r.seconds / us for r in (one, many)] == pytest.approx([18.7337143, 21.0651429])
    assert many.computing / us == pytest.approx(17.050287)
    assert pytest.approx(20.979021) == 100 * (51.9 / 42.9 - 1)


def test_totals_hide_what_stages_wait_for() -> None:
    # inline-4.8.1-resource-time
    assert stages((10, 1), (1, 10)) == 20
    assert stages((10 + 1, 1 + 10)) == 11


def test_weights_on_two_dies_and_over_links() -> None:
    # inline-4.5.1-two-die, inline-4.5.2-host-upload
    half = 32 * GiB
    local, cross = transfer(half, 1.6e12), transfer(half, min(1.6e12, 270e9))
    assert (local / ms, cross / ms) == pytest.approx((21.474836, 127.258290))
    assert stages((local, cross)) == cross
    assert transfer(half, 4e12) / ms == pytest.approx(8.589935)
    assert transfer(64 * MiB, 270e9) / ms == pytest.approx(0.24855135)
    card = machine("rtx-4090")
    up, read = transfer(64 * MiB, 32e9), reading(card, 64 * MiB)
    assert (up / ms, read / us, up / read) == pytest.approx((2.097152, 66.576254, 31.5))
    assert -(-up // read) == 32


def test_a_tile_of_weights_and_more_rows() -> None:
    # inline-4.7.1-tpu, inline-4.2.1-mma16
    one, _ = asked(M=1, K=256, N=256)
    many, _ = asked(M=256, K=256, N=256)
    assert (one / 256**2, many / 256**2) == (2, 512)
    assert asked(M=16, K=16, N=16)[0] == 8192


def test_how_many_requests_fit() -> None:
    # inline-4.3.1-kv-capacity, think-4.3.1, exp-4-3, inline-4.7.2-groq
    token = 36 * 2 * 8 * 128 * 2
    assert token == 147456
    fixed = 16381470720 + 2 * GiB
    assert [fits(24 * GB, context * token, fixed) for context in (8192, 16384)] == [4, 2]
    assert fits(24 * GB, 0.9 * 8192 * token, fixed) == 5
    assert [fits(room * GB, 8192 * token, fixed) for room in (24, 32, 96)] == [4, 11, 64]
    assert fits(10 * GB, token, fixed) == 0
    read = [reading(machine(c), 15136811008 + 8192 * token) / ms for c in ("rtx-4090", "rtx-5090")]
    assert read == pytest.approx([16.215050, 9.120966])
    chips = [-(-need // (220 * MiB)) for need in (16381470720, 1152 * MiB, 8 * 1152 * MiB, 32 * 1152 * MiB)]
    assert chips == [72, 6, 42, 168]


def test_a_larger_model_on_other_memories() -> None:
    # inline-4.3.3-235b-residency, inline-4.6.3-moe-local
    kv = 8 * 8192 * 94 * 2 * 4 * 128 * 2
    total = 123.142 * GB + kv + 2 * GiB
    assert (kv / GB, total / GB) == pytest.approx((12.616466, 137.905950))
    assert (fits(80 * GB, total), fits(141 * GB, total)) == (0, 1)
    spread, tight = 75.967 * GB, 24.737 * GB
    times = [reading(machine(c), size) / ms for c in ("h200-sxm", "b200-hgx") for size in (spread, tight)]
    assert times == pytest.approx([15.826458, 5.153542, 9.495875, 3.092125])
    local = machine("m3-ultra")
    assert [reading(local, size * GB) / ms for size in (13.697, 123.142, 24.737, 75.967)] == pytest.approx(
        [16.724054, 150.356532, 30.203907, 92.755800]
    )
    assert 8 / reading(local, tight) == pytest.approx(264.866394)


def test_what_a_machine_does_not_say() -> None:
    with pytest.raises(MachineError, match="is not known"):
        roofline(machine("groq-tsp"), 1, 1, ("f64", "f64", "vector"))
