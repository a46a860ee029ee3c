"""The names of values in the part of a program that shows a row to the runs of one store."""

from __future__ import annotations

from spillway.core.cep.codegen.program_text import Text
from spillway.core.cep.plan.plan import Index, Step
from spillway.core.cep.plan.terms import Ref


class Naming:
    """One step over the runs of a store: it knows where each value is found."""

    def __init__(self, program: Text, store: int, index: Index | None, steps: list[Step]) -> None:
        self.program, self.store, self.index, self.steps = program, store, index, steps
        self.plan, self.layout = program.plan, program.layout
        self.line, self.block = program.line, program.block
        self.step = steps[0] if steps else Step(None, self.plan.last)
        self._locals: dict[Ref, str] = {}
        self._ban: int | None = None
        self._released = False

    def old(self, leaf: Ref) -> str:
        """Return the text for a leaf of the run before it takes the row."""
        array, column = self.layout.column(self.store, leaf)
        return f"{array}{self.store}[{column}, p]"

    def name(self, ref: Ref) -> str:
        """Return the text for a name in this step."""
        if ref.source == "event":
            return self.program.event(ref)
        if ref.source == "old":
            return self.old(Ref("leaf", ref.variable, ref.which, ref.name, ref.kind))
        if ref.source == "node":
            return self.layout.node_column(ref) + "q]"
        if ref.source == "after":
            return self.layout.node_column(ref) + "q1]"
        if ref.source == "negated":
            assert self._ban is not None
            array, column = self.layout.column(self._ban, ref)
            return f"{array}{self._ban}[{column}, r]"
        return self.new(ref)

    def new(self, leaf: Ref) -> str:
        """Return the text for a leaf of the run that is being made."""
        if self._released or self.plan.placing.at(leaf) < self.step.target:
            return self.old(leaf)
        if leaf in self._locals:
            return self._locals[leaf]
        if leaf.which in ("first", "first_row") and self.step.loop:
            return self.old(leaf)
        if leaf.which in ("only", "last", "first"):
            return self.program.event(leaf)
        names = {"row": "seq", "first_row": "seq", "node": "node", "count": "count", "open": "ends"}
        return names[leaf.which]
