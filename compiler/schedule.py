"""Schedules: in which order, and with which private storage, a kernel's equations are computed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..passes import compute_at as placement
from ..passes.dependence import OPERATIONS
from ..passes.gate import legal, require_legal
from ..passes.legality import Report, examine
from ..passes.refusal import IllegalTransformError, Refusal, Rule, note
from ..passes.show import coloured, schedule_text
from ..passes.state import State, initial, shape
from .ir.affine import UndecidedError, budget
from .ir.tree import leaves, loops
from .step import Argument, Step, alternatives, apply, limited, steps_of, trace_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .kernel import Kernel


T = TypeVar("T")


@dataclass(frozen=True)
class StageHandle:
    """A stage of a schedule; its loops by name."""

    name: str
    loops: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def __getitem__(self, loop: str) -> str:
        """The full name of a loop of this stage: handle["k"] is "C.k"."""
        full = loop if "." in loop else f"{self.name}.{loop}"
        if full not in self.loops:
            raise shape(f"{self.name}[{loop}]", f"{self.name} has no loop {loop}", f"it has {', '.join(self.loops)}")
        return full


class Schedule:
    """A schedule of a kernel, built step by step. Each step is checked; a refused one changes nothing.

    Loops are named by their stage and index, `C.k`; steps return the names of the loops they make.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._states: list[State] = [initial(kernel.program)]
        # What the gate found of each state.
        self._reports: list[Report | None] = [None]
        self._trace: list[Step] = []

    # ---- looking

    @property
    def state(self) -> State:
        """The program and the tree as they are now."""
        return self._states[-1]

    @property
    def trace(self) -> tuple[Step, ...]:
        """The steps taken."""
        return tuple(self._trace)

    def __getitem__(self, stage: str) -> StageHandle:
        """A stage by name.

        Raises:
            IllegalTransformError: there is none (rule shape).
        """
        program = self.state.program
        placement.find_stage(program, stage, f"schedule[{stage!r}]")
        statements = {s.name for s in program.statements_of(stage)}
        around = dict.fromkeys(
            n for leaf in leaves(self.state.tree) if leaf.statement in statements for n in leaf.indices
        )
        return StageHandle(stage, tuple(around))

    @property
    def loops(self) -> tuple[str, ...]:
        """Every loop by name, outer ones first."""
        return tuple(loop.index for loop in loops(self.state.tree))

    def classes(self) -> Report:
        """What each loop carries: `classes().loop_class("C.k")` is "par", "red" or "seq"."""
        known = self._reports[-1]
        return examine(self.state) if known is None else known

    def __str__(self) -> str:
        """The loop nest, its buffers and what each loop carries; in colour on a terminal."""
        try:
            text = schedule_text(self.state)
            return coloured(text) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text
        except UndecidedError:
            return "isl did not work out the bounds of this schedule's loops within its budget"

    def _plain(self) -> str:
        """The loop nest without colours, wherever it goes."""
        return schedule_text(self.state)

    def diff(self, other: Schedule) -> str:
        """The lines in which two schedules' loops differ, as a unified diff."""
        from difflib import unified_diff

        return "\n".join(
            unified_diff(self._plain().splitlines(), other._plain().splitlines(), "this", "other", lineterm="", n=2)
        )

    # ---- the record

    def to_json(self) -> str:
        """The trace as JSON; `Schedule.replay` takes it."""
        return trace_json(self._trace)

    @classmethod
    def replay(cls, kernel: Kernel, trace: str | Sequence[Step]) -> Schedule:
        """The schedule that a trace (or its JSON) builds, every step checked again.

        Raises:
            IllegalTransformError: a step is illegal for this kernel.
            ValueError: the text is no trace.
        """
        steps = steps_of(trace) if isinstance(trace, str) else trace
        schedule = cls(kernel)
        for step in steps:
            schedule._take(step)
        return schedule

    def undo(self) -> None:
        """Take the last step back."""
        if self._trace:
            self._states.pop()
            self._reports.pop()
            self._trace.pop()

    def _take(self, step: Step) -> Any:
        try:
            with budget(OPERATIONS):
                candidate, result = apply(self.state, step)
            known, smaller = self._reports[-1], partial(self._smaller, step)
            report = require_legal(str(step), self.state, known, candidate, smaller)
        except IllegalTransformError as error:
            remedy = error.refusal.remedy or self._alternative(step, error.refusal.rule)
            raise IllegalTransformError(note(replace(error.refusal, remedy=remedy, kernel=self.kernel.name))) from None
        except UndecidedError:
            text = "isl did not work out within its budget what this step has to compute"
            refusal = Refusal("unknown", str(step), text, kernel=self.kernel.name)
            raise IllegalTransformError(note(refusal)) from None
        self._states.append(candidate)
        self._reports.append(report)
        self._trace.append(step)
        return result

    def _alternative(self, step: Step, rule: Rule) -> str | None:
        """A step that is legal where this one is not, found by trying the near ones."""
        if rule in ("shape", "unknown"):
            return None
        for steps in alternatives(self.state, step):
            state = self.state
            try:
                for attempt in steps:
                    state, _ = apply(state, attempt)
                if not legal(self.state.program, state):
                    continue
            except (IllegalTransformError, UndecidedError):
                continue
            else:
                return ", then ".join(map(str, steps))
        return None

    def _smaller(self, last: Step, limit: int) -> State | None:
        """The asked-for state with every tile size cut to the limit, unchecked; None where that cannot be built."""
        steps = [*self._trace, last]
        if limit == 0:
            return self.state if any(s.name == "split" for s in steps) else None
        state = initial(self.kernel.program)
        try:
            for step in steps:
                state, _ = apply(state, limited(step, limit))
        except IllegalTransformError:
            return None
        return state

    # ---- steps

    def split(
        self, loop: str, factor: int, names: Sequence[str] | None = None, separate: bool = False
    ) -> tuple[str, str]:
        """Split a loop into blocks of *factor*; returns (outer, inner), the loop's name with o and i, or *names*.

        *separate*: full blocks and the others run in loops of their own, as `peel` makes them.
        """
        given = (
            None if names is None else tuple(str(n) for n in names) if isinstance(names, (tuple, list)) else str(names)
        )
        more = (given, True) if separate else () if given is None else (given,)
        return self._take(Step("split", (str(loop), factor, *more)))

    def tile(
        self, a: str, b: str, factor_a: int, factor_b: int, names: Sequence[str] | None = None
    ) -> tuple[str, str, str, str]:
        """Split two loops of one nest and bring them into the order (a outer, b outer, a inner, b inner)."""
        step = f"tile({a}, {b}, {factor_a}, {factor_b})"
        if names is not None and (isinstance(names, str) or len(names) != 4):
            raise shape(step, "names= takes four names")
        if str(a) == str(b):
            raise shape(step, "tile takes two different loops")

        first = None if names is None else (names[0], names[2])
        second = None if names is None else (names[1], names[3])

        def take() -> tuple[str, str, str, str]:
            ao, ai = self.split(a, factor_a, first)
            bo, bi = self.split(b, factor_b, second)
            self.reorder(ao, bo, ai, bi)
            return ao, bo, ai, bi

        return self._together(step, take)

    def reorder(self, *names: str) -> None:
        """Bring loops of one nest into this order; loops between them keep their places."""
        self._take(Step("reorder", tuple(str(n) for n in names)))

    def fuse(self, outer: str, inner: str) -> str:
        """Run two nested loops as one; returns the outer loop's name."""
        self._take(Step("fuse", (str(outer), str(inner))))
        return str(outer)

    def compute_at(self, stage: str | StageHandle, loop: str) -> None:
        """Compute a stage inside a loop of its reader."""
        self._take(Step("compute_at", (str(stage), str(loop))))

    def compute_root(self, stage: str | StageHandle) -> None:
        """Compute a stage whole, before its first reader."""
        self._take(Step("compute_root", (str(stage),)))

    def merge(self, first: str, second: str, shift: int = 0) -> str:
        """Run two neighbouring loops as one (loop fusion), the second's iteration i at i + shift."""
        self._take(Step("merge", (str(first), str(second), shift) if shift else (str(first), str(second))))
        return str(first)

    def distribute(self, loop: str) -> tuple[str, ...]:
        """Give every member of a loop's body a loop of its own (loop fission)."""
        return self._take(Step("distribute", (str(loop),)))

    def skew(self, loop: str, by: str, factor: int = 1) -> None:
        """Number a loop's iterations by index + factor * the index of a loop around it."""
        self._take(Step("skew", (str(loop), str(by), factor)))

    def shift(self, loop: str, offset: int) -> None:
        """Add a number to a loop's index."""
        self._take(Step("shift", (str(loop), offset)))

    def reverse(self, loop: str) -> None:
        """Run a loop downwards."""
        self._take(Step("reverse", (str(loop),)))

    def rfactor(self, loop: str) -> None:
        """Give each iteration of a loop over blocks of a reduced index a partial result of its own."""
        self._take(Step("rfactor", (str(loop),)))

    def parallel(self, loop: str) -> None:
        """Run the iterations of a loop at once."""
        self._take(Step("parallel", (str(loop),)))

    def vectorize(self, loop: str) -> None:
        """Run the iterations of an innermost loop in vector lanes."""
        self._take(Step("vectorize", (str(loop),)))

    def unroll(self, loop: str) -> None:
        """Write a loop's iterations out."""
        self._take(Step("unroll", (str(loop),)))

    def bind(self, loop: str, target: str) -> None:
        """Bind a loop to an axis of the launch grid: grid.x, grid.y, grid.z; or to the device's processors: it and the
        loops of the grid inside it are shared out among as many programs as there are processors."""
        self._take(Step("bind", (str(loop), target)))

    def block(self, *names: str) -> None:
        """Make loops the axes of tiles: each leaf inside runs for all of their iterations before the next one does."""
        self._take(Step("block", tuple(str(n) for n in names)))

    def flatten(self, *names: str) -> str:
        """Make the axes of block loops one axis; returns the outermost loop's name."""
        self._take(Step("flatten", tuple(str(n) for n in names)))
        return str(names[0])

    def pipeline(self, loop: str, stages: int) -> None:
        """Fill the private buffers of a loop's iterations *stages* - 1 iterations ahead."""
        self._take(Step("pipeline", (str(loop), stages)))

    def roles(self, loop: str, consumers: int, *epilogue: str | StageHandle) -> None:
        """Run what a pipelined loop loads, what it computes and the *epilogue* of its tile at once, in warps of their
        own; *consumers* share what is computed."""
        self._take(Step("roles", (str(loop), consumers, *(str(stage) for stage in epilogue))))

    def group(self, outer: str, inner: str, size: int) -> tuple[str, str, str]:
        """Visit two nested loops in groups of *size* outer iterations, for each inner one; (groups, inner, within)."""
        step = f"group({outer}, {inner}, {size})"
        return self._together(step, lambda: self._grouped(str(outer), str(inner), size))

    def _grouped(self, outer: str, inner: str, size: int) -> tuple[str, str, str]:
        groups, within = self.split(outer, size)
        self.reorder(groups, inner, within)
        return groups, inner, within

    # ---- copies and storage

    def inline(self, stage: str | StageHandle) -> None:
        """Write an equation into its readers, and compute its tensor nowhere."""
        self._take(Step("inline", (str(stage),)))

    def reverse_compute_at(self, stage: str | StageHandle, loop: str) -> None:
        """Compute a stage inside a loop of what it reads."""
        self._take(Step("reverse_compute_at", (str(stage), str(loop))))

    def cache_read(self, tensor: str, loop: str, layout: str | None = None, space: str = "", pad: bool = False) -> str:
        """Copy what an iteration of a loop reads of a tensor into a buffer; returns the name of the copy.

        *layout*: where elements lie in it, as `(k, n) -> (n // 8, k, n % 8)`; *space*: a memory, for targets that
        have several; *pad*: the copy holds what padded reads find beyond the edges, so that they need no test.
        """
        return self._take(Step("cache_read", _trimmed(str(tensor), str(loop), layout, space, bool(pad))))

    def cache_write(self, stage: str | StageHandle, loop: str, layout: str | None = None, space: str = "") -> str:
        """Compute an equation into a buffer private to a loop's iteration; returns the equation that copies it out."""
        return self._take(Step("cache_write", _trimmed(str(stage), str(loop), layout, space)))

    def store(
        self,
        tensor: str,
        at: str | None = None,
        space: str = "",
        layout: str | None = None,
        pad: int = 0,
        swizzle: int = 0,
        fold: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    ) -> None:
        """Say how the buffer of an intermediate is laid out, and in which loop it lies ("root": outside every loop).

        *pad*: elements left free after each row. *swizzle*: a power of two; places in a row are XORed with the row's
        number modulo that. *fold*: {dimension: n}, positions that differ by n share a place.
        """
        pairs: Any = fold.items() if isinstance(fold, dict) else fold if isinstance(fold, (tuple, list)) else (fold,)
        folds: Any = tuple(tuple(p) if isinstance(p, (tuple, list)) else p for p in pairs)
        self._take(
            Step("store", _trimmed(str(tensor), "root" if at == "" else at, space, layout or None, pad, swizzle, folds))
        )

    # ---- parts

    def peel(self, loop: str) -> tuple[str, str]:
        """Run the full iterations of a loop over tiles in one loop and the others after it; returns both names."""
        return self._take(Step("peel", (str(loop),)))

    def specialise(self, condition: str) -> tuple[str, ...]:
        """Two copies of everything, one for sizes that meet a condition; returns the loops of the general one."""
        return self._take(Step("specialise", (condition,)))

    # ---- roundings

    def contract(self, stage: str | StageHandle) -> None:
        """Compute `a * b + c` with one rounding throughout an equation, where `contract` is granted."""
        self._take(Step("contract", (str(stage),)))

    def widen(self, stage: str | StageHandle, type: str) -> None:
        """Keep a tensor in a wider type, without the rounding to its own, where `elide` is granted."""
        self._take(Step("widen", (str(stage), type)))

    def _together(self, step: str, take: Callable[[], T]) -> T:
        """Several steps as one: all of them or none."""
        taken = len(self._trace)
        try:
            return take()
        except IllegalTransformError as error:
            while len(self._trace) > taken:
                self.undo()
            raise IllegalTransformError(replace(error.refusal, step=step)) from None


def _trimmed(*arguments: Argument) -> tuple[Argument, ...]:
    """Arguments without those at the end that say nothing."""
    kept = list(arguments)
    while kept and kept[-1] in (None, "", 0, ()):
        kept.pop()
    return tuple(kept)
