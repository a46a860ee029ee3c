"""Turns a query into a plan: where each condition is tested, which equalities an index uses, what a run has to carry.

A **run** is a partial match. Its state is the element whose row it took last, so a run in state s has rows for the
elements up to s; negated elements are not counted. A run grows by a **step**: ``begin`` (no run yet, one row),
``enter`` the next element, or ``loop``, one more row of a repeated element. Each condition belongs to the step after
which all rows that it names are known:

=========  ===========================================  ===============================================
stage      the latest element is named as               tested
=========  ===========================================  ===============================================
enter      ``a.v``, ``b[first].v``                      when its first row is taken
each       ``b[i].v``                                   at every row that is taken
pair       ``b[i+1].v``                                 at every row but the first
end        ``b[last].v``, an aggregate                  when a run is made, to know if its sequence may end here
=========  ===========================================  ===============================================

**Keys.** An equality between a value of the run and a value of the row, both perhaps computed, is not tested run by
run. The runs of a state are in an index by the values of their sides of all these equalities, and the row looks up
the runs with its own values. Under ``any`` each step has its own index; under the other policies a row that is taken
removes the run, so the steps of a state share one index, by the keys that they have in common. All other conditions
are ``tests``.

**Leaves** are what a run carries: a row or the chain of rows per element, and the values that later steps need. What
can be computed from the rows of a run alone is computed when the run is made, and carried instead of its parts. So a
run's rows are never read again, except for conditions such as ``b[i].v < c.v`` on all rows of a sequence and a later
row: these walk along the chain.

**Bans** are negated elements. Their rows, which may forbid a match, are kept in a separate index. A run looks them up
when everything that the ban's conditions name is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from spillway.core.cep.language.syntax import Element, Query
from spillway.core.cep.plan.condition_placement import Placing, Stage
from spillway.core.cep.plan.terms import Apply, Kind, Ref, Term, refs
from spillway.core.cep.plan.time_slices import Ages
from spillway.errors import SpillwayError

IndexBy = Literal["all", "attributes", "none"]


@dataclass(frozen=True)
class Condition:
    """A condition. With ``walk`` it must hold for all rows of that variable, with ``pairs`` for all adjacent ones."""

    term: Term
    walk: str | None = None
    pairs: bool = False


@dataclass(frozen=True)
class Key:
    """An equality between a value of the run and a value of the row."""

    run: Term
    row: Term

    @property
    def kind(self) -> Kind:
        """``float`` if either side is."""
        return "float" if "float" in (self.run.kind, self.row.kind) else "int"


@dataclass
class Step:
    """One way to take a row."""

    source: int | None
    target: int
    tests: list[Condition] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)

    @property
    def loop(self) -> bool:
        """Whether the step takes one more row of the same element."""
        return self.source == self.target

    @property
    def begin(self) -> bool:
        """Whether the step begins a run."""
        return self.source is None


@dataclass
class Ban:
    """A negated element: after which state it stands (-1: before all), and in which state a run looks it up."""

    element: Element
    after: int
    asked_in: int
    at_end: bool
    own: list[Condition] = field(default_factory=list)
    tests: list[Condition] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    leaves: list[Ref] = field(default_factory=list)


@dataclass
class Index:
    """Where runs of a state wait for the rows of some steps."""

    state: int
    steps: list[Step]
    keys: list[Key]
    leaves: list[Ref] = field(default_factory=list)


class Plan:
    """Everything that the engine needs to know about a query. ``kinds`` are those of the attributes."""

    def __init__(
        self,
        query: Query,
        kinds: Mapping[str, Kind],
        codes: Mapping[str, int],
        index_by: IndexBy = "all",
        tracked: bool = False,
        slices: int = 1,
    ) -> None:
        self.query, self.index_by, self.tracked, self.ages = query, index_by, tracked, Ages(slices)
        self.elements = [element for element in query.elements if not element.negated]
        if not self.elements:
            raise SpillwayError(
                "the pattern has no element that is not negated.", hint="add one, as in SEQ(A a)"
            )
        self.placing = Placing(query, kinds, codes)
        self.last = len(self.elements) - 1
        self.types = list(dict.fromkeys(name for element in query.elements for name in element.types))
        self.steps = self._make_steps()
        self.endings: list[list[Condition]] = [[] for _ in self.elements]
        self.bans: list[Ban] = [self._ban(element) for element in query.elements if element.negated]
        self._place_conditions()
        self.indexes = self._make_indexes()
        self._make_ban_keys()
        self._carry()

    @property
    def held(self) -> bool:
        """Whether a match is known only when its window has passed."""
        return any(ban.after == self.last for ban in self.bans)

    @property
    def attributes(self) -> list[tuple[str, Kind]]:
        """The attributes that the query names."""
        return list(dict.fromkeys((ref.name, ref.kind) for ref in self.placing.named))

    def features(self, state: int) -> list[Ref]:
        """The features that decide a run's class: attributes in conditions, lengths, and what later steps compare."""
        found: list[Ref] = []
        for position, element in enumerate(self.elements[: state + 1]):
            for ref in self.placing.named:
                if ref.variable == element.variable:
                    which = "last" if element.repeated else "only"
                    found.append(replace(ref, source="leaf", which=which))
            if element.repeated:
                found.append(self.placing.special(position, "count"))
        for index in self.indexes:
            if index.state == state:
                terms = [key.run for key in index.keys]
                terms += [test.term for step in index.steps for test in step.tests]
                found += [self.placing.computed(t, state) for t in self._run_sides(terms, state)]
        return [ref for ref in dict.fromkeys(found) if ref.kind != "text" or ref.which != "computed"]

    def _run_sides(self, terms: Iterable[Term], state: int) -> Iterator[Apply | Ref]:
        for term in terms:
            sources = {ref.source for ref in refs(term)}
            if isinstance(term, Apply) and term.kind != "truth" and sources == {"leaf"}:
                yield term
            elif isinstance(term, Apply):
                yield from self._run_sides(term.operands, state)
            elif isinstance(term, Ref) and term.which == "computed":
                yield term

    def _make_steps(self) -> list[Step]:
        steps = [Step(None, 0)]
        for k, element in enumerate(self.elements):
            if element.repeated and element.at_most != 1:
                steps.append(Step(k, k))
            if k < self.last:
                steps.append(Step(k, k + 1))
        return steps

    def _ban(self, element: Element) -> Ban:
        at = self.query.elements.index(element)
        after = sum(not other.negated for other in self.query.elements[:at]) - 1
        middle = 0 <= after < self.last
        return Ban(element, after, after + 1 if middle else self.last, at_end=not middle)

    def _place_conditions(self) -> None:
        placing = self.placing
        bans = {ban.element.variable: ban for ban in self.bans}
        for condition in self.query.conditions:
            term = placing.read(condition)
            names = {ref.variable for ref in refs(term)} & set(bans)
            if names:
                self._place_ban(bans[names.pop()], term)
                continue
            stage = placing.stage(term)
            if stage.kind == "end":
                self.endings[stage.state].append(self._test(term, stage, enter=False))
                continue
            for step in self.steps:
                if step.target == stage.state and not (
                    (stage.kind == "enter" and step.loop) or (stage.kind == "pair" and not step.loop)
                ):
                    step.tests.append(self._test(term, stage, enter=not step.loop))

    def _test(self, term: Term, stage: Stage, enter: bool) -> Condition:
        walk, pairs = self.placing.walked(term, stage)
        placed = self.placing.place(term, stage, walk, enter)
        return Condition(self.placing.hoist(placed, stage.state), walk, pairs)

    def _place_ban(self, ban: Ban, term: Term) -> None:
        others = {ref.variable for ref in refs(term)} - {ban.element.variable}
        if not others:
            ban.own.append(Condition(self.placing.place_row(term)))
            return
        stage = self.placing.stage(term, but=ban.element.variable)
        if stage.state > ban.asked_in:
            ban.asked_in, ban.at_end = stage.state, False
        if stage.state == ban.asked_in and stage.kind != "enter":
            ban.at_end = True
        ban.tests.append(Condition(term))

    def _make_ban_keys(self) -> None:
        for ban in self.bans:
            tests, ban.tests = ban.tests, []
            for test in tests:
                stage = Stage(ban.asked_in, "end")
                walk, pairs = self.placing.walked(test.term, stage)
                term = self.placing.place(test.term, stage, walk, enter=True, banned=ban.element.variable)
                key = self._key(term, "negated")
                if key is not None and walk is None:
                    ban.keys.append(key)
                else:
                    ban.tests.append(Condition(term, walk, pairs))
            ban.leaves = list(
                dict.fromkeys(r for test in ban.tests for r in refs(test.term) if r.source == "negated")
            )

    def _make_indexes(self) -> list[Index]:
        indexes = []
        for state in range(len(self.elements)):
            steps = [step for step in self.steps if step.source == state]
            for step in steps:
                step.keys = self._split(step)
            if self.query.policy == "any":
                indexes += [Index(state, [step], step.keys) for step in steps]
            elif steps:
                shared = [] if self.query.policy == "strict" else steps[0].keys
                shared = [key for key in shared if all(key in step.keys for step in steps)]
                indexes.append(Index(state, steps, shared))
        for index in indexes:
            for step in index.steps:
                step.tests = [test for test in step.tests if self._exact(test) not in index.keys]
        return indexes

    def _split(self, step: Step) -> list[Key]:
        """Return the equalities between run and row among a step's tests; a test on all rows implies one, too."""
        keys = []
        for test in step.tests:
            key = self._key(self.placing.last_of(test.term) if test.walk and not test.pairs else test.term)
            if key is not None:
                keys.append(key)
        return list(dict.fromkeys(keys))

    def _exact(self, test: Condition) -> Key | None:
        return None if test.walk else self._key(test.term)

    def _key(self, term: Term, row: str = "event") -> Key | None:
        if self.index_by == "none" or not (isinstance(term, Apply) and term.operator == "="):
            return None
        left, right = term.operands
        for run, other in ((left, right), (right, left)):
            run_refs, row_refs = list(refs(run)), list(refs(other))
            if not run_refs or not row_refs:
                continue
            if all(r.source in ("leaf", "old") for r in run_refs) and all(r.source == row for r in row_refs):
                if self.index_by == "attributes" and not (_plain(run) and isinstance(other, Ref)):
                    return None
                return Key(self.placing.as_leaves(run), other)
        return None

    def _carry(self) -> None:
        """Determine what the runs of each state have to carry, from the last state to the first."""
        for index in self.indexes:
            index.leaves = list(self.rows_of(index.state))
            if self.query.policy != "any" and self.elements[index.state].repeated:
                index.leaves.append(self.placing.special(index.state, "open"))
        changed = True
        while changed:
            changed = False
            for index in self.indexes:
                wanted = {ref for step in index.steps for ref in self._wanted(step)}
                new = sorted(wanted - set(index.leaves), key=words_of)
                index.leaves += new
                changed = changed or bool(new)

    def rows_of(self, state: int) -> list[Ref]:
        """The leaves that hold the rows of a run."""
        found = []
        for k, element in enumerate(self.elements[: state + 1]):
            names = ("node", "count") if element.repeated else ("row",)
            found += [self.placing.special(k, name) for name in names]
            if element.repeated and (any(ban.after == k - 1 for ban in self.bans) or (self.held and k == 0)):
                found.append(self.placing.special(k, "first_row"))
        return found

    def held_leaves(self) -> list[Ref]:
        """What a match that waits for its window to pass has to carry."""
        late = [ban for ban in self.bans if ban.after == self.last]
        terms = [t for ban in late for t in [k.run for k in ban.keys] + [test.term for test in ban.tests]]
        leaves = [ref for term in terms for ref in refs(term) if ref.source == "leaf"]
        return list(dict.fromkeys([*self.rows_of(self.last), *leaves]))

    def made_with(self, step: Step) -> list[Ref]:
        """The leaves whose values have to be known when a step makes a run."""
        state = step.target
        found: list[Ref] = []
        for index in self.indexes:
            if index.state == state:
                found += index.leaves
                found += [ref for key in index.keys for ref in refs(key.run)]
        for ban in self.bans:
            if ban.asked_in == state and ban.after != self.last:
                terms = [key.run for key in ban.keys] + [test.term for test in ban.tests]
                found += [ref for term in terms for ref in refs(term) if ref.source == "leaf"]
                if ban.after >= 0:
                    low = self.elements[ban.after]
                    found.append(self.placing.special(ban.after, "node" if low.repeated else "row"))
                high = self.elements[ban.after + 1]
                found.append(self.placing.special(ban.after + 1, "first_row" if high.repeated else "row"))
        found += [r for test in self.endings[state] for r in refs(test.term) if r.source == "leaf"]
        if state == self.last:
            found += self.held_leaves() if self.held else self.rows_of(state)
        if self.tracked and (state < self.last or self.elements[state].repeated):
            found += self.features(state)
        for test in [*self.endings[state], *(t for b in self.bans if b.asked_in == state for t in b.tests)]:
            if test.walk:
                found.append(self.placing.special(self.placing.position[test.walk], "node"))
        return list(dict.fromkeys(found))

    def _wanted(self, step: Step) -> Iterator[Ref]:
        """The leaves that a step needs of the run that takes the row."""
        for test in step.tests:
            for ref in refs(test.term):
                if ref.source in ("leaf", "old"):
                    yield from self._from_run(replace(ref, source="leaf"), step, old=ref.source == "old")
            if test.walk:
                yield self.placing.special(self.placing.position[test.walk], "node")
        for leaf in self.made_with(step):
            yield from self._from_run(leaf, step)

    def _from_run(self, leaf: Ref, step: Step, old: bool = False) -> Iterator[Ref]:
        at = self.placing.at(leaf)
        if at < step.target or old:
            yield leaf
            return
        if leaf.which in ("first", "first_row", "node", "count") and step.loop:
            yield leaf
        aggregate = self.placing.aggregates.get(leaf)
        if aggregate is not None:
            if step.loop:
                yield leaf
            for ref in refs(aggregate):
                if ref.source == "leaf":
                    yield from self._from_run(ref, step)
        elif leaf.which == "computed":
            for ref in refs(self.placing.terms[leaf]):
                yield from self._from_run(ref, step)


def words_of(ref: Ref) -> str:
    """Return a name to order leaves by."""
    return f"{ref.variable}.{ref.which}.{ref.name}.{ref.kind}"


def _plain(run: Term) -> bool:
    return isinstance(run, Ref) and run.which in ("only", "last", "first")
