"""The input filter: discards events that would only make runs or matches that are not worth keeping (Equation 9).

An event can be taken by each element of the pattern that has its type. As element k it makes runs of state k, and

- as the first element it makes one run, whose class is known: it is discarded if that class is unwanted in slice 0;
- as a later element its own attributes are known, but those of the runs that it would extend are not: it is
  discarded if all classes that are still possible are unwanted, whatever their slice (see ``possible_classes``);
- as the last element it completes matches, and has a class of its own (see ``event_model``).

An event is discarded only if all of its elements agree. Where shares are less than 1 the smallest one counts. A hash
of its number decides whether an event belongs to a share, and the share ``spare`` of all events is always kept.
Events of types that the query does not name take no work and are never discarded. Events of types that a negated
element names may forbid a match, and are not discarded either, except by strategies that shed by type.

If a share of the keys is left out, all of their events are discarded, except those that may forbid a match. The keys
are chosen by a hash of the key; a small part of the draw is a hash of the event, so that with few keys other shares
than all and none are possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.language.partition_key import Correlation
from spillway.core.cep.plan.plan import Plan
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.draws import draws
from spillway.core.cep.shedding.orders import Orders, Room
from spillway.core.cep.shedding.possible_classes import Possible

_SPARED = 0x5350415245
_ODD = 0x5851F42D4C957F2D
_BLUR = 0.05  # the part of the draw for a key that depends on the event


class InputFilter:
    """Decides about events before they are processed. ``trees`` are those of the states, ``last`` that of events."""

    def __init__(
        self, plan: Plan, trees: Sequence[Tree], last: Tree, salt: int = 0, key: Correlation | None = None
    ) -> None:
        self.plan, self.trees, self.last, self.salt, self.key = plan, trees, last, salt, key
        self._names = [self._own_features(k) for k in range(len(plan.elements))]
        self._possible = [
            Possible(tree, [name is not None for name in names])
            for tree, names in zip(trees, self._names, strict=True)
        ]
        kinds = {name: n for n, name in enumerate(plan.types)}
        self._takes = np.zeros((len(plan.elements), len(plan.types) + 1), np.bool_)
        for k, element in enumerate(plan.elements):
            self._takes[k, [kinds[name] for name in element.types]] = True
        self._forbids = np.zeros(len(plan.types) + 1, np.bool_)
        for ban in plan.bans:
            self._forbids[[kinds[name] for name in ban.element.types]] = True

    def _own_features(self, state: int) -> list[str | None]:
        """Return for each feature of a state the attribute of the event that it is, or None."""
        variable = self.plan.elements[state].variable
        named = {name for name, _ in self.plan.attributes}
        return [
            ref.name
            if ref.variable == variable and ref.which in ("only", "last") and ref.name in named
            else None
            for ref in self.plan.features(state)
        ]

    @property
    def completing(self) -> list[str]:
        """The attributes that decide the class of events of the last element."""
        return list(dict.fromkeys(name for name in self._names[-1] if name is not None))

    def over_features(self) -> Tree:
        """Return the tree of events over the features of the last state, among which are ``completing``."""
        at = np.array([self._names[-1].index(name) for name in self.completing], np.int64)
        inner = ~self.last.leaves
        feature = self.last.feature.copy()
        feature[inner] = at[feature[inner]]
        return Tree(feature, self.last.threshold, self.last.left, self.last.right)

    def classes(self, kinds: Ints, attributes: Mapping[str, Floats]) -> Ints:
        """Return the classes of events that can complete a match, -1 for others; ``kinds`` are numbers of types."""
        found = np.full(len(kinds), -1, np.int64)
        at = self._takes[-1][kinds]
        if at.any():
            columns = [attributes[name][at] for name in self.completing]
            features = np.stack(columns, axis=1) if columns else np.empty((int(at.sum()), 0))
            found[at] = self.last.classify(features)
        return found

    def keep(
        self, orders: Orders, kinds: Ints, attributes: Mapping[str, Floats], classes: Ints, numbers: Ints
    ) -> Bools:
        """Return which events to process."""
        share = None
        if orders.types is not None:
            share = orders.types[kinds] if len(orders.types) > 1 else np.full(len(kinds), orders.types[0])
        elif orders.unwanted is not None or orders.events is not None:
            share = self._shares(orders, kinds, attributes, classes)
        keep = np.ones(len(kinds), np.bool_) if share is None else draws(numbers, self.salt) >= share
        if orders.keys > 0.0:
            keep &= (self._of_keys(kinds, attributes, numbers) >= orders.keys) | self._forbids[kinds]
        if orders.room is not None:
            spared = np.zeros(len(kinds), np.bool_) if orders.room.rank is None else self._forbids[kinds]
            keep &= ~self._too_many(orders.room, keep, spared, classes, numbers)
        if orders.spare > 0.0:
            keep |= draws(numbers, _SPARED) < orders.spare
        return keep

    def _of_keys(self, kinds: Ints, attributes: Mapping[str, Floats], numbers: Ints) -> Floats:
        """Return a draw for each event that is nearly the same for all events of a key."""
        assert self.key is not None
        own, found = draws(numbers, self.salt + 2), np.ones(len(kinds))
        for kind, name in enumerate(self.plan.types):
            at = np.flatnonzero(kinds == kind)
            codes = np.zeros(len(at), np.int64)
            for attribute in self.key.by[name]:
                values = attributes[attribute][at] + 0.0  # turns -0.0 into 0.0
                codes = codes * np.int64(_ODD) ^ values.view(np.int64)
            found[at] = (1.0 - _BLUR) * draws(codes, self.salt + 2) + _BLUR * own[at]
        return found

    def _too_many(self, room: Room, keep: Bools, spared: Bools, classes: Ints, numbers: Ints) -> Bools:
        """Return which further events to discard, so that the others take no more than there is room for."""
        goes, able = np.zeros(len(keep), np.bool_), classes >= 0
        expected = np.where(keep, np.where(able, room.completing_s, room.other_s), 0.0)
        above = float(expected.sum()) - room.all_s
        at = np.flatnonzero(keep if room.rank is None else keep & able & ~spared)
        rank = np.zeros(len(at)) if room.rank is None else room.rank[classes[at]]
        at = at[np.lexsort((draws(numbers[at], self.salt + 1), rank))]
        before = np.cumsum(expected[at]) - expected[at]
        early = np.where(np.sort(rank) <= room.cheap, room.early_s, 0.0)
        goes[at[before < above + early]] = True
        return goes

    def _shares(self, orders: Orders, kinds: Ints, attributes: Mapping[str, Floats], classes: Ints) -> Floats:
        """Return the share of events like each one that is to be discarded: the least over its elements."""
        named: Bools = np.any(self._takes, axis=0).reshape(-1)
        least = np.where((named & ~self._forbids)[kinds], 1.0, 0.0)
        last = len(self.trees) - 1
        for k in range(last + 1):
            at = np.flatnonzero(self._takes[k][kinds])
            if len(at):
                share = np.zeros(len(at))
                if k == last:
                    share = share if orders.events is None else orders.events[classes[at]]
                elif orders.unwanted is not None:
                    share = self._of_runs(k, at, orders.unwanted[k], attributes)
                least[at] = np.minimum(least[at], share)
        return least

    def _of_runs(self, k: int, at: Ints, unwanted: Floats, attributes: Mapping[str, Floats]) -> Floats:
        """Return the least share over the classes of runs that each event may make."""
        columns = [None if name is None else attributes[name][at] for name in self._names[k]]
        by_class = (unwanted[:, :1] if k == 0 else unwanted).min(axis=1)[: self.trees[k].classes]
        return self._possible[k].least(by_class, columns, len(at))
