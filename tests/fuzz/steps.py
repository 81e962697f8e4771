"""Random steps of a schedule, with arguments that mostly make sense."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.compiler.ir.tree import Alloc, Leaf, Loop, leaves, loops
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
        self.stages = [s.name for s in schedule.state.program.stages]
        self.tensors = list(schedule.state.program.tensors)

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

    def inline(self) -> Step:
        return Step("inline", (self.rng.choice(self.stages),))

    def reverse_compute_at(self) -> Step:
        """A stage at a loop that computes what it reads; rarely any."""
        program = self.schedule.state.program
        reads = {s.name: {a.tensor for t in program.statements_of(s.name) for a in t.accesses} for s in program.stages}
        writes = {s.name: (s.stage, s.tensor) for s in program.statements}
        fitting = {
            (stage, index)
            for leaf in leaves(self.tree)
            for stage in self.stages
            if stage != writes[leaf.statement][0] and writes[leaf.statement][1] in reads[stage]
            for index in leaf.indices
        }
        if fitting and self.rng.random() < 0.9:
            return Step("reverse_compute_at", self.rng.choice(sorted(fitting)))
        return Step("reverse_compute_at", (self.rng.choice(self.stages), self.loop()))

    def layout(self, tensor: str) -> str | None:
        """A permutation and tiling of a tensor's dimensions; mostly none."""
        rank = self.schedule.state.program.tensors[tensor].rank if tensor in self.tensors else 0
        if not rank or self.rng.random() < 0.5:
            return None
        names = [f"d{d}" for d in range(rank)]
        places = list(names)
        self.rng.shuffle(places)
        tiled = self.rng.randrange(rank)
        size = self.rng.choice((2, 3, 4))
        name = places[tiled]
        places[tiled] = f"{name} // {size}"
        return f"({', '.join(names)}) -> ({', '.join([*places, f'{name} % {size}'])})"

    def cache_read(self) -> Step:
        """A tensor at a loop with a reader of it inside; rarely any."""
        program = self.schedule.state.program
        reads = {s.name: [a.tensor for a in s.accesses if a.kind == "read"] for s in program.statements}
        fitting = sorted({(t, n) for leaf in leaves(self.tree) for t in reads[leaf.statement] for n in leaf.indices})
        if fitting and self.rng.random() < 0.9:
            tensor, loop = self.rng.choice(fitting)
        else:
            tensor, loop = self.rng.choice(self.tensors), self.loop()
        layout = self.layout(tensor)
        padded = any(a.padded for s in program.statements for a in s.accesses if a.tensor == tensor)
        if padded and self.rng.random() < 0.7:
            return Step("cache_read", (tensor, loop, layout, "", True))
        return Step("cache_read", (tensor, loop, *([layout] if layout else [])))

    def cache_write(self) -> Step:
        statements = {s.name: s.stage for s in self.schedule.state.program.statements}
        fitting = sorted({(statements[leaf.statement], n) for leaf in leaves(self.tree) for n in leaf.indices})
        if fitting and self.rng.random() < 0.9:
            return Step("cache_write", self.rng.choice(fitting))
        return Step("cache_write", (self.rng.choice(self.stages), self.loop()))

    def store(self) -> Step:
        """A buffer somewhere, folded now and then."""
        tensor = self.rng.choice(self.tensors)
        at = self.rng.choice((None, None, "", self.loop()))
        rank = self.schedule.state.program.tensors[tensor].rank
        fold: tuple[tuple[int, int], ...] = ()
        if rank and self.rng.random() < 0.4:
            fold = ((self.rng.randrange(rank), self.rng.choice((1, 2, 3, 4))),)
        layout = self.layout(tensor)
        pad, swizzle = self.rng.choice((0, 0, 1)), self.rng.choice((0, 0, 2)) if rank > 1 else 0
        return Step("store", (tensor, at, "", layout, pad, swizzle, fold))

    def pipeline(self) -> Step:
        """A loop with a buffer in it; rarely any."""
        fitting = [
            n.index
            for body in bodies(self.tree)
            for n in body
            if isinstance(n, Loop) and any(isinstance(m, Alloc) for m in n.body)
        ]
        loop = self.rng.choice(fitting) if fitting and self.rng.random() < 0.9 else self.loop()
        return Step("pipeline", (loop, self.rng.choice((1, 2, 2, 3))))

    def roles(self) -> Step:
        """A pipeline, where there is one, and some of the stages."""
        fitting = [loop.index for loop in loops(self.tree) if loop.stages > 1]
        loop = self.rng.choice(fitting) if fitting else self.loop()
        count = self.rng.choice((0, 1, 1, 1, 2))
        return Step(
            "roles", (loop, self.rng.choice((1, 2, 2)), *self.rng.sample(self.stages, min(count, len(self.stages))))
        )

    def specialise(self) -> Step:
        sizes = self.schedule.state.program.sizes
        name = self.rng.choice(sizes) if sizes else "Q"
        return Step("specialise", (self.rng.choice((f"{name} % 2 == 0", f"{name} <= 3", f"{name} > 0", f"{name} +")),))

    def widen(self) -> Step:
        return Step("widen", (self.rng.choice(self.stages), self.rng.choice(("f64", "f32", "f16", "bf16", "i8"))))

    def block(self) -> Step:
        """One to three of the innermost loops of a nest."""
        nest = self.nest(1)
        return Step("block", nest[-self.rng.randrange(1, 4) :])

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
        "inline": (1, draw.inline),
        "reverse_compute_at": (2, draw.reverse_compute_at),
        "cache_read": (3, draw.cache_read),
        "cache_write": (2, draw.cache_write),
        "store": (3, draw.store),
        "pipeline": (2, draw.pipeline),
        "roles": (1 + 3 * any(loop.stages > 1 for loop in loops(draw.tree)), draw.roles),
        "peel": (2, lambda: Step("peel", (draw.loop(),))),
        "specialise": (1, draw.specialise),
        "contract": (1, lambda: Step("contract", (rng.choice(draw.stages),))),
        "widen": (1, draw.widen),
        "block": (1, draw.block),
    }
    weights = [weight for weight, _ in choices.values()]
    return rng.choices([make for _, make in choices.values()], weights)[0]()


def take(schedule: Schedule, step: Step) -> None:
    """Take a step through the schedule's own methods.

    Raises:
        IllegalTransformError: it is refused.
    """
    if step.name == "store":
        *rest, fold = step.arguments
        schedule.store(*rest, fold=dict(fold))  # type: ignore[arg-type]  # as drawn
    else:
        getattr(schedule, step.name)(*step.arguments)
