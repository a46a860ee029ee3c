"""Finds the attributes by which a stream may be partitioned so that no match spans two partitions.

Conditions ``x = y`` between attributes say that values are equal, and equality is transitive: union-find over the
attributes of all elements gives classes, and a class that has an attribute of every element is a key. All rows of a
match are then in one partition, together with all rows that could forbid it: each partition can be matched alone.

- Conditions on a negated variable only say which rows forbid a match. They do not make two rows of a match equal. But
  a row that forbids satisfies all of them: its attribute has to be equal to the key by its own conditions.
- Of a repeated variable all rows have to be in the class: through ``b[i]``, or through ``b[first]`` or ``b[last]``
  together with ``b[i+1].id = b[i].id`` (or ``b[i].id = b[first].id``), which makes all rows of ``b`` equal.
- A row is sent to one partition before it is known which element it fits: elements that share a type must have
  the same attribute in the class.
- Under the policy ``next`` a run must take the next row that fits. So a row of another partition must not fit, and
  an element has to be tied to the elements before it by conditions that are tested when its rows are taken.
- Rows without a value of the key are equal to no row, and are in no match of two elements or more. If only one
  element is not negated, they may be matches by themselves (``alone``) and form a partition of their own.
- Under the policy ``strict`` rows of other partitions interrupt a match, so there is no key.

>>> from spillway.core.cep.language.parser import parse
>>> key = correlation(parse("PATTERN SEQ(A a, B+ b[], C c) WHERE a.id = b[i].id AND a.id = c.user WITHIN 8 ms"))
>>> key.by
{'A': ('id',), 'B': ('id',), 'C': ('user',)}
>>> correlation(parse("PATTERN SEQ(A a, B b) WHERE a.id < b.id WITHIN 8 ms")) is None
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from spillway.core.cep.language.syntax import Aggregate, Attribute, Element, Expression, Operation, Query
from spillway.core.cep.language.tree_builder import walk
from spillway.core.cep.language.value_types import kinds

_Node = tuple[str, str, str]  # variable, which of its rows, attribute
_EVERY = "every"


@dataclass(frozen=True, slots=True)
class Correlation:
    """For each type of the pattern the attributes that make up the key, in the same order for all types.

    ``alone`` says whether a row that lacks a value of the key may be in a match.
    """

    by: Mapping[str, tuple[str, ...]]
    alone: bool = False

    @property
    def attributes(self) -> tuple[str, ...] | None:
        """The attributes if they have the same names in all types, else None."""
        names = set(self.by.values())
        return names.pop() if len(names) == 1 else None


def correlation(query: Query, schema: Mapping[str, str] | pa.Schema | None = None) -> Correlation | None:
    """Return the key of a query, or None if it has none.

    With a schema, only attributes of one kind form a key: 1 and 1.0 are equal, but not in every partitioning.
    """
    if query.policy == "strict":
        return None
    known = kinds(schema) if isinstance(schema, pa.Schema) else schema
    equal = _in_matches(query)
    keys = []
    for root in dict.fromkeys(map(equal.root, list(equal.parent))):
        key = _key(query, equal, root)
        if key is None or (known is not None and len({known[name] for name in key.values()}) > 1):
            continue
        if query.policy == "any" or _tied(query, key):
            keys.append(key)
    types = dict.fromkeys(name for element in query.elements for name in element.types)
    alone = sum(not element.negated for element in query.elements) == 1
    return Correlation({name: tuple(key[name] for key in keys) for name in types}, alone) if keys else None


class _Equal:
    """Sets of nodes that are known to be equal (union-find)."""

    def __init__(self) -> None:
        self.parent: dict[_Node, _Node] = {}

    def root(self, node: _Node) -> _Node:
        """Return the node that represents the set of a node."""
        parent = self.parent.setdefault(node, node)
        if parent != node:
            parent = self.parent[node] = self.root(parent)
        return parent

    def unite(self, nodes: Iterable[_Node]) -> None:
        """Merge the sets of the given nodes."""
        first, *others = map(self.root, nodes)
        for other in others:
            self.parent[self.root(other)] = self.root(first)

    def names(self, root: _Node, element: Element) -> list[str]:
        """Return the attributes that all rows of an element have in a set, in the order in which they were added."""
        which = _EVERY if element.repeated else "only"
        return [
            n
            for v, w, n in list(self.parent)
            if (v, w) == (element.variable, which) and self.root((v, w, n)) == root
        ]


def _in_matches(query: Query) -> _Equal:
    """Return what is equal in all matches: each attribute of a single row to itself, and what conditions say."""
    equal = _classes(_without(query, {e.variable for e in query.elements if e.negated}))
    single = {e.variable for e in query.elements if not (e.negated or e.repeated)}
    for part in (part for condition in query.conditions for part in walk(condition)):
        if isinstance(part, Attribute) and part.variable in single:
            equal.root((part.variable, "only", part.name))
    return equal


def _without(query: Query, variables: set[str]) -> list[Expression]:
    """Return the conditions that name none of some variables."""
    return [c for c in query.conditions if not _named(c) & variables]


def _named(condition: Expression) -> set[str]:
    return {part.variable for part in walk(condition) if isinstance(part, Attribute | Aggregate)}


def _classes(conditions: Iterable[Expression]) -> _Equal:
    equal = _Equal()
    for condition in conditions:
        match condition:
            case Operation(operator="=", operands=(Attribute() as x, Attribute() as y)):
                _equate(equal, x, y)
    return equal


def _equate(equal: _Equal, x: Attribute, y: Attribute) -> None:
    """Merge the sets that one equation makes equal."""
    v = x.variable
    if v == y.variable and x.which != y.which and x.name == y.name and {x.which, y.which} & {"i", "i+1"}:
        equal.unite(
            [(v, which, x.name) for which in (_EVERY, "first", "last")]
        )  # adjacent, or as the first or last
    elif {x.which, y.which} == {"i"} and v == y.variable:
        return  # two attributes of the same row: equal in each row, not among rows
    elif "i+1" not in {x.which, y.which}:
        for side in (x, y):
            if side.which == "i":
                equal.unite([(side.variable, which, side.name) for which in (_EVERY, "first", "last")])
        equal.unite(
            [(side.variable, _EVERY if side.which == "i" else side.which, side.name) for side in (x, y)]
        )


def _key(query: Query, equal: _Equal, root: _Node) -> dict[str, str] | None:
    """Return the attribute of each type in a class, or None if a type has none."""
    shared: dict[str, list[str]] = {}
    negated = {element.variable for element in query.elements if element.negated}
    for element in query.elements:
        here = _classes(_without(query, negated - {element.variable})) if element.negated else equal
        names = here.names(here.root(root), element)
        for name in element.types:
            shared[name] = [n for n in shared.get(name, names) if n in names]
    if not all(shared.values()):
        return None
    common = [n for n in next(iter(shared.values())) if all(n in names for names in shared.values())]
    return {name: common[0] if common else names[0] for name, names in shared.items()}


def _tied(query: Query, key: Mapping[str, str]) -> bool:
    """Whether conditions that are tested as its rows are taken tie each element to those before it."""
    nodes: list[_Node] = []
    ended: set[str] = set()
    for element in query.elements:
        if element.negated:
            continue
        which = _EVERY if element.repeated else "only"
        nodes += [(element.variable, which, key[name]) for name in element.types]
        equal = _classes(c for c in query.conditions if _tested(c, ended, element))
        alone = (
            nodes[0] not in equal.parent and element.repeated
        )  # the rows of the first element among each other
        if alone or len(set(map(equal.root, nodes))) > 1:
            return False
        ended.add(element.variable)
    return True


def _tested(condition: Expression, ended: set[str], element: Element) -> bool:
    """Whether a condition is tested, or has been, when an element takes a row."""
    last = {part.variable for part in walk(condition) if isinstance(part, Attribute) and part.which == "last"}
    return _named(condition) <= {*ended, element.variable} and last <= ended
