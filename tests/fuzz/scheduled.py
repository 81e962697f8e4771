"""One random program under one random schedule, held against everything that a schedule promises."""

from __future__ import annotations

import random
from ast import literal_eval
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import tilewright as tw
from tilewright.compiler.ir.interpret import OutsideError, interpret
from tilewright.compiler.ir.quasiaffine import holds
from tilewright.compiler.ir.tree import loops
from tilewright.compiler.step import Step, apply
from tilewright.passes.refusal import Rule

from .cases import Case, element
from .chains import Drawn, draw_program
from .steps import drawn_step, take
from .symbols import ORDERS, SPREAD, Symbols, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.compiler.ir.program import Program
    from tilewright.compiler.schedule import Schedule
    from tilewright.passes.refusal import Refusal
    from tilewright.passes.state import State

Array = np.ndarray[Any, Any]
STEPS = 12
# So many seeds share a program: its analysis is kept.
SHARING = 5
# Tiles are of 1 to 4: two of them and one more, and what is less than one.
LARGE = (5, 7, 9, 3)
SMALL = (0, 1, 2, 3, 4, 5)
LARGER = (4, 6, 7, 9, 12)
CHOICES = 4


@dataclass
class Tally:
    """What became of the steps of many schedules. *hunting*: leads are looked for."""

    hunting: bool = False
    taken: Counter[str] = field(default_factory=Counter)  # pyright: ignore
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # pyright: ignore
    # Refused, though at all sizes tried the tree computes the same: (step, rule, the text of the case).
    leads: list[tuple[str, str, str]] = field(default_factory=list)  # pyright: ignore
    witnesses: int = 0
    enumerated: int = 0
    compared: int = 0
    # Accepted step by step; the final check ran out of its budget.
    undecided: int = 0
    schedules: int = 0


class Trial:
    """A kernel and its schedule, and the sizes at which it is enumerated."""

    def __init__(self, drawn: Drawn, rng: random.Random, tally: Tally) -> None:
        (self.kernel,) = tw.parse(drawn.text).values()
        self.drawn, self.rng, self.tally = drawn, rng, tally
        self.program: Program = self.kernel.program
        self.schedule: Schedule = tw.Schedule(self.kernel)
        self.symbols = [Symbols(self.program, sizes) for sizes in self.small_sizes()]

    def told(self, what: str) -> str:
        steps = "\n".join(f"    {step}" for step in self.schedule.trace)
        return f"{what}\n{self.drawn.text}\n{steps}"

    def small_sizes(self) -> list[dict[str, int]]:
        """Some choices of small sizes that keep the promises, two of them with something to reorder."""
        every = product(SMALL, repeat=len(self.program.sizes))
        fitting = [s for s in (self.named(t) for t in every) if holds(self.program.context, s)]
        self.rng.shuffle(fitting)
        telling = [s for s in fitting if min(s.values(), default=0) >= 2]
        return [*telling[:2], *[s for s in fitting if s not in telling[:2]][: CHOICES - 2]]

    @cached_property
    def larger(self) -> list[Symbols]:
        """Sizes that hold two tiles and more."""
        chosen = [self.named((n,) * len(self.program.sizes)) for n in LARGER]
        return [Symbols(self.program, sizes) for sizes in chosen if holds(self.program.context, sizes)]

    def named(self, sizes: tuple[int, ...]) -> dict[str, int]:
        return dict(zip(self.program.sizes, sizes, strict=True))

    # ---- one step

    def step(self) -> None:
        """Take one random step, or have it refused properly."""
        step = drawn_step(self.rng, self.schedule)
        before, trace = self.schedule.state, self.schedule.trace
        try:
            take(self.schedule, step)
        except tw.IllegalTransformError as error:
            assert self.schedule.state is before, self.told(f"{step} is refused, and changed the schedule")
            assert self.schedule.trace == trace, self.told(f"{step} is refused, and left a trace")
            self.refused(step, error.refusal)
        else:
            self.tally.taken[step.name] += 1
            *before_it, last = self.schedule.trace
            kept = tuple(before_it) == trace and last.name == step.name
            assert kept, self.told(f"{step} is not what the trace says")

    def refused(self, step: Step, refusal: Refusal) -> None:
        """Hold a refusal against enumeration."""
        assert refusal.rule in get_args(Rule), refusal
        self.tally.refused[step.name, refusal.rule] += 1
        if refusal.rule == "shape":
            assert refusal.message, self.told(f"{step} is refused without a reason")
            return
        candidate, _ = apply(self.schedule.state, step)
        if self.tally.hunting and refusal.rule != "unknown" and self.alike(candidate):
            self.tally.leads.append((step.name, refusal.rule, self.told(f"{refusal}")))
        if refusal.witness is not None:
            self.tally.witnesses += check_witness(self, step, refusal)

    def alike(self, state: State) -> bool:
        """Whether a refused tree is right at all sizes tried, those with two tiles and more too, every sum in order."""
        return all(self.same(state, some, strict=True) is not False for some in (self.symbols, self.larger))

    def same(self, state: State, symbols: list[Symbols], strict: bool = False) -> bool | None:
        """Whether a tree computes what the definition does, at every size tried; None where all are too large.

        *strict*: every sum in its own order, even where another is granted.
        """
        done = False
        several = any(loop.kind in SPREAD or loop.stages > 1 for loop in loops(state.tree))
        orders = ORDERS if several else ORDERS[:1]
        for at in symbols:
            if state.program is not self.program:  # a step may write a sum in blocks
                at = Symbols(state.program, at.sizes)
            try:
                want = at.defined(strict)
                if any(at.run(state.tree, order, strict) != want for order in orders):
                    return False
            except TooLargeError:
                continue
            done = True
        return True if done else None

    # ---- the schedule as it stands

    def finish(self) -> None:
        """Hold the accepted schedule against the definition, in symbols and in bits."""
        self.tally.schedules += 1
        same = self.same(self.schedule.state, self.symbols)
        assert same is not False, self.told("accepted, and computes something else")
        self.tally.enumerated += same is True
        text = str(self.schedule)
        again = tw.Schedule.replay(self.kernel, self.schedule.to_json())
        assert str(again) == text, self.told(f"a replay gives another schedule\n{text}\n{again}")
        compiled = [made for target in ("numpy", "llvm") if (made := self.compiled(target)) is not None]
        for sizes in self.sizes() if compiled else ():
            with np.errstate(over="ignore"):  # some of the data are infinite in a narrow type
                case = self.case(sizes)
            self.compare(compiled, case)

    def compiled(self, target: str) -> Any:
        """The schedule compiled; None where the final check runs out of its budget."""
        try:
            return tw.compile(self.kernel, self.schedule, target)
        except tw.IllegalTransformError as error:
            if error.refusal.rule != "unknown":
                raise AssertionError(self.told(f"accepted step by step, but not whole: {error}")) from None
            self.tally.undecided += 1
            return None

    def sizes(self) -> Iterator[dict[str, int]]:
        """Two tiles and one more; then 0 and 1."""
        for choices in (LARGE, (0, 1)):
            for _ in range(40):
                sizes = {n: self.rng.choice(choices) for n in self.program.sizes}
                if holds(self.program.context, sizes):
                    yield sizes
                    break

    def case(self, sizes: dict[str, int]) -> Case:
        """Random data; where sums may be reordered, whole numbers so small that every order is exact."""
        rng, program = self.rng, self.program
        inputs: dict[str, Array] = {}
        for name in program.parameters:
            if name not in program.tensors:
                continue
            tensor = program.tensors[name]
            shape = [x.interval(sizes)[1] for x in tensor.extents]
            count = int(np.prod(shape, dtype=int))
            whole = self.drawn.exact or tensor.dtype.is_int
            flat = [rng.randrange(0, 3) if whole else element(rng, tensor.dtype) for _ in range(count)]
            values = np.array(flat, np.float64 if tensor.dtype.is_float else None).astype(tensor.dtype.numpy)
            inputs[name] = values.reshape(shape)
        exact = self.drawn.exact
        scalars = {n: d.numpy.type(2).item() if exact else element(rng, d) for n, d in program.scalars.items()}
        return Case(sizes, scalars, inputs)

    def compare(self, compiled: list[Any], case: Case) -> None:
        """Kernel, schedule as loops of NumPy and as machine code, and interpreted schedule on one case."""
        arguments = case.arguments(self.program)
        shown = self.told(f"at {case.sizes} with {arguments}")
        try:
            want = self.kernel(**arguments)
        except tw.ArgumentError:
            for made in compiled:
                outside_is_said(made, arguments)
            return
        found = [each(made(**arguments)) for made in compiled]
        state = self.schedule.state
        placed = interpret(state.program, case.inputs, case.sizes, case.scalars, state.tree)
        for name, w, *got in zip(self.program.outputs, each(want), *found, strict=True):
            for made, g in zip(compiled, got, strict=True):
                assert equal(w, g), f"{made.target}: {name} = {g.tolist()}, not {w.tolist()}\n{shown}"
            assert equal(w, placed[name]), f"interpreted: {name} = {placed[name].tolist()}, not {w.tolist()}\n{shown}"
        self.tally.compared += 1


def outside_is_said(compiled: Any, arguments: dict[str, Any]) -> None:
    """A gather that reads outside may be left out where nothing needs it; else it is an ArgumentError."""
    try:
        compiled(**arguments)
    except tw.ArgumentError:
        return


def each(result: Any) -> tuple[Array, ...]:
    """The outputs of a call."""
    return result if isinstance(result, tuple) else (result,)


def equal(a: Array, b: Array) -> bool:
    """The same type, shape and bits; any NaN equals any other."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    signs = np.signbit(wide_a) == np.signbit(wide_b)
    return bool(np.all((np.isnan(wide_a) & np.isnan(wide_b)) | ((wide_a == wide_b) & signs)))


def check_witness(trial: Trial, step: Step, refusal: Refusal) -> bool:
    """Run the two trees of a refusal on the inputs that it prints; False where an input is not printed in full."""
    witness, case = refusal.witness, refusal.case or ""
    assert witness is not None
    assert witness.defined != witness.asked, trial.told(str(refusal))
    program, printed = trial.program, dict(witness.inputs)
    if any(text.startswith("an array") for text in (*printed.values(), witness.defined, witness.asked)):
        return False
    values, _, tiles = case.partition("tiles of at most ")
    # A sum may need more terms than the smallest case has.
    sizes = {n: int(v) for n, v in (part.split("=") for part in (witness.sizes or values.rstrip(", ")).split())}
    asked = trial.schedule._smaller(step, int(tiles)) if tiles else None  # pyright: ignore[reportPrivateUsage]
    asked = asked or apply(trial.schedule.state, step)[0]
    arrays = {n: read_array(program, n, text, sizes) for n, text in printed.items() if n in program.tensors}
    scalars = {n: literal_eval(printed[n]) for n in program.scalars}
    defined = interpret(program, arrays, sizes, scalars)
    try:
        got = interpret(asked.program, arrays, sizes, scalars, asked.tree)
    except OutsideError:
        assert witness.asked.startswith("nothing"), trial.told(str(refusal))
        return True
    differ = [n for n in program.outputs if not equal(defined[n], got[n])]
    assert differ, trial.told(f"the witness of a refusal shows nothing\n{refusal}")
    return True


def read_array(program: Program, name: str, text: str, sizes: dict[str, int]) -> Array:
    """An array from the text of a refusal."""
    names = {"__builtins__": {}, "nan": float("nan"), "inf": float("inf"), "True": True, "False": False}
    tensor = program.tensors[name]
    shape = [x.interval(sizes)[1] for x in tensor.extents]
    wide = np.float64 if tensor.dtype.is_float else None
    return np.array(eval(text, names), wide).astype(tensor.dtype.numpy).reshape(shape)


def run_seed(seed: int, tally: Tally) -> None:
    """The program and the schedule of one seed.

    Raises:
        AssertionError: a promise is broken; the text names the program and the steps.
    """
    drawn = draw_program(random.Random(seed // SHARING))
    rng = random.Random(f"schedule {seed}")
    try:
        trial = Trial(drawn, rng, tally)
    except tw.SourceError:
        assert drawn.form == "random", drawn.text
        return
    for _ in range(rng.randrange(1, STEPS + 1)):
        trial.step()
    trial.finish()
