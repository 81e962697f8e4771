"""Random steps of a schedule, with arguments that mostly make sense."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.compiler.ir.tree import Alloc, Leaf, Loop, leaves
from tilewright.compiler.step import Step

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from tilewright.compiler.ir.tree import Node
    from tilewright.compiler.schedule import Schedule

FACTORS = (1, 2, 2, 2, 3, 3, 4)


def chains(nodes: Sequence[Node], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """For each loop, the loops around it and itself, outermost first."""
    for node in nodes:
        if isinstance(node, Loop):
            yield (*around, node.index)
        if not isinstance(node, Leaf):
            yield from chains(node.body, (*around, node.index) if isinstance(node, Loop) else around)


def bodies(nodes: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """The body of every loop, and the whole tree; the members of a buffer stand among its neighbours."""
    yield tuple(nodes)
    for node in nodes:
        if not isinstance(node, Leaf):
            yield from bodies(node.body)


class Draw:
    """Draws steps for a schedule as it is now."""

    def __init__(self, rng: random.Random, schedule: Schedule) -> None:
        self.rng, self.schedule = rng, schedule
        self.tree = schedule.state.tree
        self.paths = list(chains(self.tree))
        self.stages = [s.name for s in schedule.kernel.program.stages]

    def loop(self) -> str:
        """A loop; rarely a name that is none."""
        if not self.paths or self.rng.random() < 0.02:
            return self.rng.choice(("Q.q", "Y.i", "", *self.stages))
        return self.rng.choice(self.paths)[-1]

    def nest(self, least: int) -> tuple[str, ...]:
        """A chain of at least so many loops, each inside the one before; any loops where there is none."""
        deep = [p for p in self.paths if len(p) >= least]
        return self.rng.choice(deep) if deep else tuple(self.loop() for _ in range(least))

    def offset(self) -> int:
        return self.rng.choice((0, 1, 1, -1, -1, 2, -2, 3))

    def split(self) -> Step:
        factor = self.rng.choice(FACTORS) if self.rng.random() < 0.97 else self.rng.choice((0, -1, 40))
        names = (("p", "q"),) if self.rng.random() < 0.1 else ()
        return Step("split", (self.loop(), factor, *names))

    def reorder(self) -> Step:
        nest = self.nest(2)
        wanted = self.rng.sample(nest, self.rng.randrange(2, len(nest) + 1))
        return Step("reorder", tuple(wanted))

    def fuse(self) -> Step:
        pairs = [
            (node.index, node.body[0].index)
            for body in bodies(self.tree)
            for node in body
            if isinstance(node, Loop) and len(node.body) == 1 and isinstance(node.body[0], Loop)
        ]
        if pairs and self.rng.random() < 0.9:
            return Step("fuse", self.rng.choice(pairs))
        return Step("fuse", (self.loop(), self.loop()))

    def compute_at(self) -> Step:
        """A stage at a loop with a reader of it inside; rarely any."""
        program = self.schedule.state.program
        reads = {s.name: {a.tensor for a in s.accesses if a.kind == "read"} for s in program.statements}
        tensor = {s.name: s.tensor for s in program.stages}
        own = {s.name: s.stage for s in program.statements}
        fitting: set[tuple[str, str]] = set()
        for leaf in leaves(self.tree):
            for stage in self.stages:
                if stage != own[leaf.statement] and tensor[stage] in reads[leaf.statement]:
                    fitting |= {(stage, index) for index in leaf.indices}
        if fitting and self.rng.random() < 0.9:
            return Step("compute_at", self.rng.choice(sorted(fitting)))
        return Step("compute_at", (self.rng.choice(self.stages), self.loop()))

    def compute_root(self) -> Step:
        return Step("compute_root", (self.rng.choice(self.stages),))

    def merge(self) -> Step:
        pairs: list[tuple[str, str]] = []
        for body in bodies(self.tree):
            names = [n.index if isinstance(n, Loop) else None for n in body]
            pairs += [(a, b) for a, b in pairwise(names) if a and b]
        if pairs and self.rng.random() < 0.95:
            return Step("merge", (*self.rng.choice(pairs), *self.rng.choice(((), (), (self.offset() or 4,)))))
        return Step("merge", (self.loop(), self.loop()))

    def distribute(self) -> Step:
        several = [n.index for body in bodies(self.tree) for n in body if isinstance(n, Loop) and len(n.body) > 1]
        return Step("distribute", (self.rng.choice(several or [self.loop()]),))

    def skew(self) -> Step:
        nest = self.nest(2)
        return Step("skew", (nest[-1], self.rng.choice(nest[:-1]), self.rng.choice((1, 1, 1, 2, -1))))

    def shift(self) -> Step:
        return Step("shift", (self.loop(), self.offset()))

    def innermost(self) -> str:
        """A loop that holds no loops."""
        found = [
            n.index
            for body in bodies(self.tree)
            for n in body
            if isinstance(n, Loop) and not any(isinstance(m, (Loop, Alloc)) for m in n.body)
        ]
        return self.rng.choice(found) if found and self.rng.random() < 0.95 else self.loop()

    def rfactor(self) -> Step:
        """A loop of a reduction, mostly one over blocks of it."""
        updates = {s.name for s in self.schedule.state.program.statements if s.kind == "update"}
        inside = [n for leaf in leaves(self.tree) if leaf.statement in updates for n in leaf.indices]
        blocks = [n for n in inside if n.endswith("o")]
        return Step("rfactor", (self.rng.choice(blocks or inside or [self.loop()]),))

    def bind(self) -> Step:
        return Step("bind", (self.loop(), self.rng.choice(("grid.x", "grid.y", "grid.z", "grid.x", "lanes"))))


def drawn_step(rng: random.Random, schedule: Schedule) -> Step:
    """A random step for the schedule."""
    draw = Draw(rng, schedule)
    choices: dict[str, tuple[int, Callable[[], Step]]] = {
        "split": (5, draw.split),
        "reorder": (5, draw.reorder),
        "compute_at": (5, draw.compute_at),
        "merge": (5, draw.merge),
        "distribute": (2, draw.distribute),
        "skew": (2, draw.skew),
        "reverse": (2, lambda: Step("reverse", (draw.loop(),))),
        "parallel": (2, lambda: Step("parallel", (draw.loop(),))),
        "vectorize": (1, lambda: Step("vectorize", (draw.innermost(),))),
        "rfactor": (1, draw.rfactor),
        "compute_root": (1, draw.compute_root),
        "fuse": (1, draw.fuse),
        "shift": (1, draw.shift),
        "unroll": (1, lambda: Step("unroll", (draw.loop(),))),
        "bind": (1, draw.bind),
    }
    weights = [weight for weight, _ in choices.values()]
    return rng.choices([make for _, make in choices.values()], weights)[0]()


def take(schedule: Schedule, step: Step) -> None:
    """Take a step through the schedule's own methods.

    Raises:
        IllegalTransformError: it is refused.
    """
    getattr(schedule, step.name)(*step.arguments)
