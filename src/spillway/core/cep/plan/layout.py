"""The memory layout: columns of stores and nodes, and positions in the cursor between two calls of a program."""

from __future__ import annotations

from spillway.core.cep.engine.run_store import Shape
from spillway.core.cep.plan.plan import Key, Plan
from spillway.core.cep.plan.terms import Ref

# Places in the cursor.
ROW, STEP, RUN, UPTO, DONE, FAIL, WRITTEN, SERIAL, HEAD, NEED, RECORDED, BEGAN = range(12)
VALUES = 16  # from here on: how many values each list has written
# Reasons to stop: no room for one of these (smaller numbers are stores), or possibly too many runs.
NODES, OUTPUT, RECORDS = 1000, 1001, 1002
CROWDED = -2
TRACKED = ("serial", "class", "path")
HELD = ("serial", "class", "path", "slice", "event")  # of a held match: what is counted once it is final
OTHER, PAUSE = -1, -2  # types of rows: not named by the query, and the end of a window without a row


class Layout:
    """The column of each value in each store. The stores are the indexes, one per ban, and two for held matches."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.leaves = [index.leaves for index in plan.indexes]
        self.keys = [index.keys for index in plan.indexes]
        self.first_ban = len(self.leaves)
        self.leaves += [ban.leaves for ban in plan.bans]
        self.keys += [ban.keys for ban in plan.bans]
        self.held = len(self.leaves) if plan.held else -1
        if plan.held:
            first = Ref("leaf", "", "first_seq", "", "int")
            self.leaves += [plan.held_leaves(), []]
            self.keys += [[Key(first, first)], []]
        self.head = 1 + (len(TRACKED) if plan.tracked else 0)
        self.attributes = {name: n for n, (name, kind) in enumerate(self._of(False))}
        self.attributes |= {name: n for n, (name, kind) in enumerate(self._of(True))}

    def _of(self, fraction: bool) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in self.plan.attributes if (kind == "float") == fraction]

    def before(self, store: int) -> int:
        """Return the first column for leaves; before it are the first time and tracked values, or a row."""
        if store < self.first_ban:
            return self.head
        if store == self.held:
            return 1 + (len(HELD) if self.plan.tracked else 0)
        return 2

    def column(self, store: int, leaf: Ref) -> tuple[str, int]:
        """Return whether a leaf of a store is stored as a whole number or a fraction, and its column."""
        fraction = leaf.kind == "float"
        same = [other for other in self.leaves[store] if (other.kind == "float") == fraction]
        return ("f", same.index(leaf)) if fraction else ("i", self.before(store) + same.index(leaf))

    def shape(self, store: int) -> Shape:
        """Return the shape of a store."""
        floats = sum(leaf.kind == "float" for leaf in self.leaves[store])
        return Shape(self.before(store) + len(self.leaves[store]) - floats, floats, len(self.keys[store]))

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of all stores."""
        return [self.shape(store) for store in range(len(self.leaves))]

    def node_columns(self) -> tuple[list[Ref], list[Ref]]:
        """Return the values in the nodes of chains: whole numbers, then fractions."""
        found = [ref for refs_ in self.plan.placing.chained.values() for ref in refs_]
        return [r for r in found if r.kind != "float"], [r for r in found if r.kind == "float"]

    def node_column(self, ref: Ref) -> str:
        """Return the array and column of a value in a node."""
        whole, fractions = self.node_columns()
        plain = Ref("node", ref.variable, "", ref.name, ref.kind)
        if ref.kind == "float":
            return f"nf[{fractions.index(plain)}, "
        return f"ni[{whole.index(plain)}, "

    @property
    def lists(self) -> list[int]:
        """The elements whose rows are output as lists."""
        return [k for k, element in enumerate(self.plan.elements) if element.repeated]
