"""Energy: worked examples by their names."""

from __future__ import annotations

import pytest
from tilewright.cost.energy import clock_share, dynamic_power, energy, left_for_operations, table
from tilewright.cost.machine import MachineError, machine
from tilewright.cost.roofline import above, reading

us, ms = 1e-6, 1e-3
WEIGHTS, KV, FLOP = 15136811008, 1207959552, 19968032768


def test_a_step_of_decoding() -> None:
    # table-4.1.3-energy, exp-4-8
    step = energy({"memory": WEIGHTS + KV}, FLOP)
    assert step.total == pytest.approx(0.5340859376)
    weights, kv = (energy({"memory": n}).total for n in (WEIGHTS, KV))
    assert (weights, kv, step.parts["operations"]) == pytest.approx((0.4807451176, 0.0383647954, 0.0149760246))
    assert 100 * weights / step.total == pytest.approx(90.01268968)
    seconds = reading(machine("h100-sxm"), WEIGHTS + KV)
    assert (seconds / ms, step.power(seconds)) == pytest.approx((4.87903599, 109.46546384))
    elsewhere = [energy({place: WEIGHTS + KV}).total for place in ("sram_kb", "sram_mb", "link", "memory", "lpddr")]
    assert elsewhere == pytest.approx([0.0204309632, 0.204309632, 0.1699856138, 0.5191099130, 2.6151632896])
    compute = step.parts["operations"]
    assert above(weights / compute) == 33
    assert [weights / batch + kv + compute for batch in (8, 32, 128)] == pytest.approx(
        [0.1134339596, 0.0683641049, 0.0570966412]
    )
    assert above(weights / (4 * kv)) == 4
    batch = reading(machine("h100-sxm"), WEIGHTS + 32 * KV)
    assert batch / ms == pytest.approx(16.05716916)
    assert 32 * (weights / 32 + kv + compute) / batch == pytest.approx(136.24140935)


def test_figures_a_byte_and_an_operation() -> None:
    # inline-4.1.3-energy-per-byte, inline-4.1.3-instruction-overhead
    values = [table().figure(name).value / 1e-12 for name in ("sram_kb", "sram_mb", "lpddr", "link", "memory")]
    assert values == pytest.approx([5 / 4, 50 / 4, 640 / 4, 1.3 * 8, 3.97 * 8])
    fetched, matrix = (table().figure(n).value for n in ("instruction", "matrix_instruction"))
    assert fetched / (2 * table().figure("operation").value) == pytest.approx(20)
    assert (100 * fetched / matrix, 100 * fetched / (fetched + matrix)) == pytest.approx((27.272727, 21.428571))


def test_a_power_cap() -> None:
    # inline-4.1.3-power-cap
    card = machine("h100-sxm")
    left = left_for_operations(700, card.figure("memory_bandwidth").value, table().figure("memory").value)
    assert (700 - left, left) == pytest.approx((106.396, 593.604))
    each = left / card.rate("bf16", "f32").value
    assert each / 1e-12 == pytest.approx(0.5999636143)
    assert clock_share(1.5 * each, each) == pytest.approx(2 / 3)
    assert clock_share(1.5 * each, each, voltage=True) == pytest.approx(0.8735804647)
    assert clock_share(0.5 * each, each) == 1


def test_voltage_and_clock() -> None:
    # inline-4.1.3-dynamic-power
    found = dynamic_power(0.55 / 0.85, 0.37)
    assert (dynamic_power(0.55 / 0.85, 1), found) == pytest.approx((0.4186851211, 0.1549134948))
    assert dynamic_power(0.55 / 0.85, 0.37, 0.34 / found) == pytest.approx(0.34)


def test_energy_of_a_call() -> None:
    # inline-4.8.4-energy-cost
    assert [600 * t * us * 1e3 for t in (42.9, 32.6)] == pytest.approx([25.74, 19.56])
    joules = [450 * reading(machine("rtx-4090"), WEIGHTS + KV), 575 * reading(machine("rtx-5090"), WEIGHTS + KV)]
    assert joules == pytest.approx([7.2967725714, 5.2445552857])
    assert 100 * (1 - joules[1] / joules[0]) == pytest.approx(28.125)


def test_a_place_of_which_nothing_is_known() -> None:
    with pytest.raises(MachineError, match="tape of Energies"):
        energy({"tape": 1})
