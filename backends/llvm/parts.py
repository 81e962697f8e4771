"""Loops that threads share: their bodies as functions of their own, which get what they use in a frame."""

from __future__ import annotations

import re

from .builder import Builder, Value, number

# The parameter that holds the address of what shares out iterations, or null.
RUNNER = "share out"
# So many elements are worth waking other threads for.
WORTH = 32768
NAME = re.compile(r'%(?:"[^"]*"|[\w.]+)')
MADE = re.compile(r'^ *(%(?:"[^"]*"|[\w.]+)) = |^([\w.]+):$')


class Part:
    """A function of a frame and a range of iterations, written into a builder of its own."""

    def __init__(self, outer: Builder, name: str, flag: str) -> None:
        self.outer, self.name, self.flag = outer, name, flag
        self.b = Builder(
            declared=outer.declared,
            tables=outer.tables,
            functions=outer.functions,
            types=outer.types,
            halves=outer.halves,
            gives_up=(f"store atomic i64 2, ptr {flag} monotonic, align 8", "ret void"),
            count=outer.count,
        )
        outer.functions[name] = ""
        self.low, self.high = Value(self.b.fresh("low"), "i64"), Value(self.b.fresh("high"), "i64")
        self.frame = self.b.fresh("frame")

    def end(self, failed: str) -> None:
        """The last block: a failure is set where the caller sees it."""
        b = self.b
        bad = b.made(f"load i1, ptr {failed}", "i1")
        tell, done = b.label("tell"), b.label("done")
        b.branch(bad, tell, done)
        b.start(tell)
        b.line(f"store atomic i64 1, ptr {self.flag} monotonic, align 8")
        b.jump(done)
        b.start(done)
        b.line("ret void")
        self.outer.count = b.count

    def call(self, low: Value, high: Value, work: Value, runner: Value) -> None:
        """Run the function: by threads where there is work enough, else here."""
        used = self._outside()
        outer = self.outer
        frame = outer.slot(f"[{max(len(used), 1)} x i64]", "frame")
        head = [f"define internal void {self.name}(ptr {self.frame}, {self.low}, {self.high}) #0 {{", "entry:"]
        for place, name in enumerate(used):
            cell = outer.made(f"getelementptr inbounds i64, ptr {frame}, i64 {place}", "ptr")
            outer.line(f"store {outer.types[name]} {name}, ptr {cell.text}, align 8")
            head.append(f"  {self.frame}.{place} = getelementptr inbounds i64, ptr {self.frame}, i64 {place}")
            head.append(f"  {name} = load {outer.types[name]}, ptr {self.frame}.{place}, align 8")
        _, *body = self.b.text()
        outer.functions[self.name] = "\n".join([*head, *body, "}", ""])
        share, here, after = (outer.label(word) for word in ("share", "here", "after"))
        some = outer.compared("icmp sge", work, number(WORTH, "i64"))
        there = outer.made(f"icmp ne ptr {runner.text}, null", "i1")
        outer.branch(outer.binary("and", some, there), share, here)
        outer.start(share)
        outer.line(f"call void {runner.text}(ptr {self.name}, ptr {frame}, {low}, {high})")
        outer.jump(after)
        outer.start(here)
        outer.line(f"call void {self.name}(ptr {frame}, {low}, {high})")
        outer.jump(after)
        outer.start(after)
        found = outer.made(f"load i64, ptr {self.flag}", "i64")
        none, there = outer.label("none"), outer.label("there")
        outer.branch(outer.compared("icmp eq", found, number(2, "i64")), none, there)
        outer.start(none)
        for line in outer.gives_up:
            outer.line(line)
        outer.start(there)

    def _outside(self) -> list[str]:
        """The names that the body uses and does not make."""
        made = {self.low.text, self.high.text, self.frame}
        used: dict[str, None] = {}
        for line in self.b.text():
            if line.lstrip().startswith(";"):
                continue
            found = MADE.match(line)
            if found:
                made.add(found[1] or f"%{found[2]}")
            used |= dict.fromkeys(NAME.findall(line))
        return [n for n in used if n not in made]
