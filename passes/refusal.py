"""Refusals: a request that was not carried out, as data that prints as text and serialises to JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..compiler.ir.errors import TilewrightError

if TYPE_CHECKING:
    from ..compiler.ir.span import Span

Rule = Literal["dependence", "rounding", "race", "bounds", "coverage", "capacity", "target", "shape", "unknown"]


@dataclass(frozen=True)
class Place:
    """A line of the source, what of it matters, and why."""

    span: Span
    line: str
    note: str


@dataclass(frozen=True)
class Witness:
    """Inputs on which the asked-for program gives another answer.

    *inputs*: name -> text of its value; *element*: where the answers differ; both answers as text. *sizes*: where they
    are not those of the smallest case.
    """

    inputs: tuple[tuple[str, str], ...]
    element: str
    defined: str
    asked: str
    sizes: str = ""


@dataclass(frozen=True)
class Refusal:
    """What was refused (*step*), by which rule, why, where, the smallest case, and what would make it possible.

    *case*: the sizes, and how tiles were shrunk to reach them; *instances*: the two that clash there.
    """

    rule: Rule
    step: str
    message: str
    span: Span | None = None
    remedy: str | None = None
    places: tuple[Place, ...] = ()
    case: str | None = None
    instances: str | None = None
    witness: Witness | None = None
    # Whether a witness was looked for; a race has none, for its runs may or may not differ.
    searched: bool = False
    kernel: str = ""

    def __str__(self) -> str:
        lines = [f"refused [{self.rule}]: {self.step}", f"  {self.message}"]
        if self.places:
            lines += ["", *_excerpt(self.places), ""]
        elif self.span:
            lines.append(f"  at {self.span}")
        if self.case:
            lines.append(f"  smallest case  {self.case}")
        if self.instances:
            lines.append(f"    {self.instances}")
        if self.witness:
            given = "  ".join(f"{name} = {value}" for name, value in self.witness.inputs)
            at = f", at {self.witness.sizes}" if self.witness.sizes else ""
            lines += [f"  an input that shows it{at}", f"    {given}"] if given else [f"  the answers differ{at}"]
            lines.append(f"    as defined  {self.witness.element} = {self.witness.defined}")
            lines.append(f"    as asked    {self.witness.element} = {self.witness.asked}")
        elif self.searched:
            lines.append("  no input was found, at this size, on which the answers differ")
        if self.remedy:
            # An ill-formed request has no legal form of its own: what helps is a hint.
            lines.append(f"  {'hint' if self.rule == 'shape' else 'legal instead'}: {self.remedy}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The refusal as plain data."""
        return asdict(self)


def _excerpt(places: tuple[Place, ...]) -> list[str]:
    width = max(len(str(p.span.line)) for p in places)
    lines = [f"   {places[0].span.path}:{places[0].span.line}"]
    shown = ""
    for place in sorted(places, key=lambda p: (p.span.line, p.span.column)):
        if place.line != shown:
            lines.append(f"   {place.span.line:>{width}} | {place.line}")
            shown = place.line
        mark = " " * (place.span.column - 1) + "-" * place.span.width
        lines.append(f"   {'':>{width}} | {mark} {place.note}")
    return lines


# Where a list stands here, the refusals that users meet are noted in it: the pytest plugin closes a run with them.
noted: list[Refusal] | None = None


def note(refusal: Refusal) -> Refusal:
    """Note a refusal that leaves the public interface."""
    if noted is not None:
        noted.append(refusal)
    return refusal


class IllegalTransformError(TilewrightError):
    """A refusal as an exception; `refusal` is the data."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return str(self.refusal)
