"""The gate that every step passes: the candidate is legal, or a refusal with its evidence is raised."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, least_point
from ..compiler.ir.show import element_text
from ..compiler.ir.span import Source
from ..compiler.ir.tree import Loop, loops
from .evidence import instance_text, message, places, smallest, with_evidence
from .legality import Report, Violation, alike, examine, folded, relaxable
from .mark import STEPS
from .refusal import IllegalTransformError, Place, Refusal, Rule
from .rfactor import reordered
from .roles import clash
from .structure import require_structure
from .witness import sizes_text, witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compiler.ir.program import Program, Statement
    from .state import State

SPREAD = ("parallel", "vector", "bind", "block")


def require_legal(
    step: str, state: State, known: Report | None, candidate: State, smaller: Callable[[int], State | None]
) -> Report:
    """Check a candidate state; what each loop carries is returned.

    *state*: what the step started from; it may have changed the order of a reduction. *known*: what was found of that.
    *smaller(limit)*: the candidate with every tile size cut to the limit, for the smallest case (0: whether there are
    tiles at all).

    Raises:
        IllegalTransformError: a dependence would run backwards (dependence), a sum in another order (rounding), a
            reader would not find its element (coverage), iterations that run at once would meet (race), or isl did
            not decide (unknown).
    """
    require_structure(step, candidate)
    before = state.program
    for update in reordered(before, candidate.program):
        if not before.free_order(update):
            raise IllegalTransformError(_order_refusal(step, before, update, smaller))
    if candidate.needs:
        raise IllegalTransformError(_need_refusal(step, before, candidate, smaller))
    same = candidate.program is before and alike(state.tree, candidate.tree)
    try:
        report = known if known is not None and same else examine(candidate)
    except UndecidedError:
        text = "isl did not decide within its budget whether this keeps every dependence"
        raise IllegalTransformError(
            Refusal("unknown", step, text, remedy="smaller steps, or simpler subscripts")
        ) from None
    if report.violations:
        violation = min(report.violations, key=_severity)
        if {violation.dependence.source, violation.dependence.target} & set(report.repeated):
            _require_once(step, candidate, report)
        raise IllegalTransformError(_refusal(step, candidate, violation, smaller))
    _require_once(step, candidate, report)
    for loop in loops(candidate.tree):
        if loop.kind in SPREAD:
            _require_independent(step, candidate, loop, report, smaller)
    found = clash(candidate)
    if found is not None:
        text, violation = found
        refusal = Refusal("race", step, text, kernel=candidate.program.name)
        raise IllegalTransformError(_with(refusal, candidate, violation, smaller))
    return report


def legal(before: Program, candidate: State) -> bool:
    """Whether a candidate would pass, without the evidence if not.

    Raises:
        UndecidedError: isl gave up.
    """
    try:
        require_structure("", candidate)
    except IllegalTransformError:
        return False
    if candidate.needs or not all(before.free_order(update) for update in reordered(before, candidate.program)):
        return False
    report = examine(candidate)
    spread = [loop for loop in loops(candidate.tree) if loop.kind in SPREAD]
    whole = not (report.violations or report.unwritten or report.repeated)
    return whole and all(report.loop_class(loop.index) == "par" for loop in spread) and clash(candidate) is None


def _require_once(step: str, candidate: State, report: Report) -> None:
    """What is shared is computed whole, and each element once."""
    program = candidate.program
    for names, what in (
        (tuple(report.unwritten), "would not be computed everywhere"),
        (report.repeated, "would be computed again"),
    ):
        if not names:
            continue
        statement = program.statement(names[0])
        text = f"{element_text(statement.tensor, statement.position)} {what}, and it is not private to the loop."
        remedy = f"compute_root({statement.stage})"
        refusal = Refusal("coverage", step, text, statement.span, remedy=remedy, kernel=program.name)
        if statement.span is not None:
            line = Source("", program.source).line(statement.span.line)
            refusal = replace(refusal, places=(Place(statement.span, line, "written here"),))
        missing = report.unwritten.get(statement.name)
        if missing is not None:
            refusal = _with_missing(refusal, program, statement, missing)
        raise IllegalTransformError(refusal)


def _with_missing(refusal: Refusal, program: Program, statement: Statement, missing: isl.Set) -> Refusal:
    """The refusal with the first element that is left out, at the smallest sizes."""
    for position, name in enumerate(statement.iterators):
        missing = missing.set_dim_name(isl.dim_type.set, position, name)
    point = least_point(missing)
    if point is None:
        return refusal
    sizes = {n: point.get(n, 1) for n in program.sizes}
    where = [str(a.evaluate({**sizes, **point})) for a in statement.position]
    element = f"{statement.tensor}[{', '.join(where)}]" if where else statement.tensor
    return replace(refusal, case=sizes_text(sizes) or None, instances=f"{element} is computed nowhere")


def _severity(violation: Violation) -> tuple[int, int]:
    """Which of several violations to show: real ones before orders of a sum; reads before overwriting."""
    kinds = {"flow": 0, "anti": 1, "output": 2}
    return int(violation.dependence.reduction), kinds[violation.dependence.kind]


def _rule(violation: Violation) -> Rule:
    if violation.dependence.reduction:
        return "rounding"
    return "coverage" if violation.why == "missing" else "dependence"


def _refusal(step: str, candidate: State, violation: Violation, smaller: Callable[[int], State | None]) -> Refusal:
    program = candidate.program
    remedy = _order_remedy(candidate, violation) if violation.dependence.reduction else None
    base = Refusal(_rule(violation), step, message(program, violation), remedy=remedy, kernel=program.name)
    return with_evidence(base, candidate, violation, smaller)


def _order_refusal(step: str, before: Program, update: Statement, smaller: Callable[[int], State | None]) -> Refusal:
    """A reduction was rewritten into another order without permission: two blocks of two show it."""
    element = element_text(update.tensor, update.position)
    text = f"the terms of {element} would be added in another order, which rounds differently."
    remedy = "allow reassociate, in the kernel or in this sum; or write blocks= into the sum"
    base = Refusal("rounding", step, text, update.span, remedy=remedy, searched=True, kernel=before.name)
    if update.span is not None:
        line = Source("", before.source).line(update.span.line)
        base = replace(base, places=(Place(update.span, line, "summed here"),))
    state = smaller(2)
    if state is None:
        return base
    own = {n for r in update.ranges[len(before.stage(update.stage).ranges) :] for n in r.names()} & set(before.sizes)
    sizes = {n: 4 if n in own else 1 for n in before.sizes}
    parts = [sizes_text(sizes)] if sizes else []
    return replace(base, witness=witness(state, sizes, before), case=", ".join([*parts, "tiles of at most 2"]))


def _need_refusal(step: str, before: Program, candidate: State, smaller: Callable[[int], State | None]) -> Refusal:
    """A rounding would be dropped without permission; small sizes and crafted inputs show it."""
    need = candidate.needs[0]
    remedy = f"allow {need.permission}, in the kernel or round this expression"
    base = Refusal("rounding", step, f"{need.text}.", need.span, remedy=remedy, searched=True, kernel=before.name)
    if need.span is not None:
        line = Source("", before.source).line(need.span.line)
        base = replace(base, places=(Place(need.span, line, "rounded here"),))
    state = smaller(2) or candidate
    for sizes in _small_sizes(before):
        found = witness(state, sizes, before)
        if found is not None:
            parts = [sizes_text(sizes)] if sizes else []
            parts += ["tiles of at most 2"] if smaller(0) is not None else []
            return replace(base, witness=found, case=", ".join(parts) or None)
    return base


def _small_sizes(program: Program) -> list[dict[str, int]]:
    """Sizes to look for a rounding at: all 1, one of them 2, all 2."""
    ones = dict.fromkeys(program.sizes, 1)
    twos = [{**ones, name: 2} for name in program.sizes]
    found = [ones, *twos, dict.fromkeys(program.sizes, 2), dict.fromkeys(program.sizes, 4)]
    return [dict(t) for t in dict.fromkeys(tuple(sizes.items()) for sizes in found)]


def _order_remedy(candidate: State, violation: Violation) -> str:
    """What frees the order of a reduction."""
    statement = candidate.program.statement(violation.dependence.source)
    kind = statement.reduction.order.kind if statement.reduction else "ascending"
    if kind == "mma":
        return "the order of an mma= sum is the hardware's: keep it"
    return "allow reassociate, in the kernel or in this sum" + ("; or a sum with lanes=" if kind == "ascending" else "")


def _require_independent(
    step: str, candidate: State, loop: Loop, report: Report, smaller: Callable[[int], State | None]
) -> None:
    kind = report.loop_class(loop.index)
    if kind == "par":
        return
    program = candidate.program
    carried = report.carried[loop.index]
    worst = min(carried, key=_severity)
    if loop.kind == "block" and all(folded(program, c.dependence) for c in carried):
        return  # carried out by a matrix unit, in the order of the lanes
    if kind == "red" and relaxable(program, worst.dependence):
        if loop.kind in ("vector", "block"):
            return  # carried out by a reduce
        text = f"iterations of {loop.index} update one element of {worst.dependence.tensor} at once."
        remedy = "rfactor first: each iteration then has a partial result of its own"
        raise IllegalTransformError(
            _with(Refusal("race", step, text, remedy=remedy, kernel=program.name), candidate, worst, smaller)
        )
    rule: Rule = "rounding" if kind == "red" else "race"
    if kind == "red":
        text = f"{loop.index} adds up {worst.dependence.tensor}: at once, its terms would be added in no fixed order."
        remedy = "allow reassociate and rfactor, or a sum with lanes="
    else:
        text = f"iterations of {loop.index} depend on one another: {message(program, worst, smallest(program, worst))}"
        free = [name for name in nest_of(candidate, loop.index) if report.loop_class(name) == "par"]
        remedy = _instead(loop, free)
    raise IllegalTransformError(
        _with(Refusal(rule, step, text, remedy=remedy, kernel=program.name), candidate, worst, smaller)
    )


def _instead(loop: Loop, free: list[str]) -> str | None:
    """The same mark on a loop that may bear it."""
    step = STEPS.get(loop.kind, loop.kind)
    if len(free) != 1:
        return f"{step} one of {', '.join(free)}" if free else None
    return f"{step}({free[0]}{f', {loop.target}' if loop.target else ''})"


def nest_of(state: State, name: str) -> list[str]:
    """The loops of the nest that a loop is of, by name."""
    (nest,) = [nest for nest in state.tree if any(loop.index == name for loop in loops((nest,)))]
    return [loop.index for loop in loops((nest,))]


def _with(refusal: Refusal, candidate: State, violation: Violation, smaller: Callable[[int], State | None]) -> Refusal:
    """A race has two points and no second answer: two runs may differ, or may not."""
    program = candidate.program
    clash = smallest(program, violation)
    if clash is None:
        return refusal
    first = instance_text(program, violation.source, clash.first, clash.sizes)
    second = instance_text(program, violation.target, clash.second, clash.sizes)
    case = sizes_text(clash.sizes) or None
    text = f"{first}  and  {second}  run at once"
    return replace(refusal, places=places(program, violation, clash), case=case, instances=text)
