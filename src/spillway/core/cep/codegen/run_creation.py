"""Writes how a run is made from a run and a row: its values, the stores it goes to, and the match it may be.

The code first computes all values and finds all room; if room is missing, it leaves the loop. Then it writes the run.
"""

from __future__ import annotations

from dataclasses import dataclass

from spillway.core.cep.codegen.chain_tests import Asking
from spillway.core.cep.plan.plan import Index
from spillway.core.cep.plan.terms import Ref, Term, Writer, refs


@dataclass(frozen=True)
class Target:
    """An index that a new run goes to if a test holds, with its key."""

    store: int
    index: Index
    keys: list[str]
    test: str


class Making(Asking):
    """Writes the code that makes runs and matches."""

    def make(self, leave: str) -> None:
        """Write how a run or a match is made."""
        plan, step, state = self.plan, self.step, self.step.target
        element = plan.elements[state]
        self.line(f"first = {'now' if step.begin else f'i{self.store}[0, p]'}")
        if element.repeated:
            count = plan.placing.special(state, "count")
            self.line("count = " + (f"{self.old(count)} + 1" if step.loop else "1"))
            self.node(leave)
        self.values()
        asked = [(n, b) for n, b in enumerate(plan.bans) if b.asked_in == state and b.after != plan.last]
        at_once = [(n, ban) for n, ban in asked if not (step.loop or (ban.at_end and element.repeated))]
        at_end = [(n, ban) for n, ban in asked if ban.at_end and element.repeated]
        self.line("ok = True")
        for n, ban in at_once:
            self.ask(n, ban)
        self.line("if ok:")
        with self.block():
            if element.repeated:
                tests = [f"count >= {element.at_least}"]
                tests += [Writer(self.name).true(t.term) for t in plan.endings[state] if not t.walk]
                self.line("ok = " + " and ".join(tests))
                self.walks([test for test in plan.endings[state] if test.walk], "ok")
                for n, ban in at_end:
                    self.ask(n, ban)
                self.line("ends = ok")
            self.place_run(leave, state)

    def place_run(self, leave: str, state: int) -> None:
        """Write where a new run is stored: in the indexes of its state, and among the matches if it is complete."""
        plan, element = self.plan, self.plan.elements[state]
        targets = [self._target(n, index) for n, index in enumerate(plan.indexes) if index.state == state]
        complete = ("ends" if element.repeated else "True") if state == plan.last else None
        if plan.tracked:
            self.track(state)
            self.line("if not refusing:")
            with self.block():
                if targets:
                    before = "0" if self.step.begin else f"i{self.store}[3, p]"
                    self.line(f"path = path_of(pslots, paths, {before}, {state}, cls)")
                self._find_room(leave, state, targets, complete)
                self._write(state, targets, complete)
        else:
            self._find_room(leave, state, targets, complete)
            self._write(state, targets, complete)

    def _target(self, store: int, index: Index) -> Target:
        element = self.plan.elements[index.state]
        keys = self.program.key_texts(Writer(self.name), index.keys, "run")
        tests = [check for _, checks in keys for check in checks]
        if element.repeated and self.plan.query.policy == "any":
            if not index.steps[0].loop:
                tests.append("ends")
            elif element.at_most is not None:
                tests.append(f"count < {element.at_most}")
        return Target(store, index, [text for text, _ in keys], " and ".join(tests) or "True")

    def _find_room(self, leave: str, state: int, targets: list[Target], complete: str | None) -> None:
        plan = self.plan
        for target in targets:
            self.line(f"to{target.store} = {target.test}")
            self.line(f"if to{target.store}:")
            with self.block():
                self.program.locate(target.store, target.keys)
        if complete:
            self.line(f"if {complete}:")
            with self.block():
                if plan.held:
                    first = plan.placing.special(0, "first_row" if plan.elements[0].repeated else "row")
                    self.program.locate(self.layout.held, [self.new(first)])
                else:
                    self.room_for_match(None)
        if state == 0 and plan.held and self.step.begin:
            self.program.locate(self.layout.held + 1, [])
        if plan.tracked:
            self.line("if len(record) and rw >= record.shape[1]:")
            with self.block():
                self.line("fail = RECORDS")
        self.line("if fail >= 0:")
        with self.block():
            self.line(leave)

    def _write(self, state: int, targets: list[Target], complete: str | None) -> None:
        plan = self.plan
        if plan.elements[state].repeated:
            self.line("nt[0] += 1")
        if targets:
            self.line("work += 1")
        tracked = [("i", 1, "serial"), ("i", 2, "cls"), ("i", 3, "path")] if plan.tracked else []
        for target in targets:
            self.line(f"if to{target.store}:")
            with self.block():
                values = tracked + self._cells(target.store, target.index.leaves)
                self.program.append(target.store, "first", values)
        if complete:
            self.line(f"if {complete}:")
            with self.block():
                if plan.held:
                    cells = self._cells(self.layout.held, plan.held_leaves())
                    self.program.append(self.layout.held, "first", self._credit(bool(targets)) + cells)
                    self.line("found[e] += 1")
                else:
                    self.match()
        if state == 0 and plan.held and self.step.begin:
            self.program.append(self.layout.held + 1, "now", [("i", 1, "seq")])
        if plan.tracked:
            self.note(state, bool(targets), complete)

    def _credit(self, runs: bool) -> list[tuple[str, int, str]]:
        """Return what a held match has to carry so that it can be counted once it is final."""
        if not self.plan.tracked:
            return []
        single = not (self.step.begin or self.plan.elements[self.step.target].repeated)
        kind = f"i{self.store}[2, p]" if single else "0"
        return [("i", n + 1, text) for n, text in enumerate(("serial", kind, self._path(runs), "sl", "cls"))]

    def _path(self, runs: bool) -> str:
        """Return the path that a match is counted for: its own if it also becomes a run, else the parent's."""
        before = "0" if self.step.begin else f"i{self.store}[3, p]"
        return "path" if runs else before

    def _cells(self, store: int, leaves: list[Ref]) -> list[tuple[str, int, str]]:
        return [(*self.layout.column(store, leaf), self.new(leaf)) for leaf in leaves]

    def node(self, leave: str) -> None:
        """Write the row into the next free node; the node is in use only if the run is made."""
        self.line("node = nt[0]")
        self.line("if node >= nl.shape[1]:")
        with self.block():
            self.line("fail = NODES")
            self.line(leave)
        before = self.plan.placing.special(self.step.target, "node")
        self.line("nl[0, node] = seq")
        self.line(f"nl[1, node] = {self.old(before) if self.step.loop else '-1'}")
        variable = self.plan.elements[self.step.target].variable
        for ref in self.plan.placing.chained.get(variable, []):
            self.line(f"{self.layout.node_column(ref)}node] = {self.program.event(ref)}")

    def values(self) -> None:
        """Write the aggregates and the computed leaves of the new run."""
        wanted = self.plan.made_with(self.step)
        for leaf in wanted:
            self._value(leaf)

    def _value(self, leaf: Ref) -> None:
        placing = self.plan.placing
        if leaf in self._locals or placing.at(leaf) < self.step.target:
            return
        aggregate = placing.aggregates.get(leaf)
        if aggregate is not None:
            self._inner(aggregate)
            name = self.program.fresh("g")
            self._aggregate(leaf, aggregate, name)
            self._locals[leaf] = name
        elif leaf.which == "computed":
            self._inner(placing.terms[leaf])
            name = self.program.fresh("c")
            self.line(f"{name} = {Writer(self.name).value(placing.terms[leaf])}")
            self._locals[leaf] = name

    def _inner(self, term: Term) -> None:
        for ref in refs(term):
            if ref.source == "leaf":
                self._value(ref)

    def _aggregate(self, leaf: Ref, term: Term, name: str) -> None:
        text, checks = Writer(self.name).number(term)
        known = " and ".join(dict.fromkeys(checks)) or "True"
        if leaf.kind == "float":
            known += f" and {text} == {text}" if not isinstance(term, Ref) else ""
        null = "np.nan" if leaf.kind == "float" else "NULL"
        start = "0" if leaf.which == "known" else null
        self.line(f"{name} = {self.old(leaf) if self.step.loop else start}")
        self.line(f"if {known}:")
        with self.block():
            if leaf.which == "known":
                self.line(f"{name} += 1")
                return
            empty = f"{name} != {name}" if leaf.kind == "float" else f"{name} == NULL"
            x = self.program.fresh("x")
            self.line(f"{x} = {text}")
            total = f"{name} + {x}"
            if leaf.kind == "int":
                total = f"({total} if {name} != TOO_LARGE and sum_fits({name}, {x}) else TOO_LARGE)"
            better = {"sum": total, "min": f"min({name}, {x})", "max": f"max({name}, {x})"}[leaf.which]
            self.line(f"{name} = {x} if {empty} else {better}")

    def room_for_match(self, leave: str | None) -> None:
        """Write the test that there is room for a match."""
        tests = ["ow >= room"]
        for k in self.layout.lists:
            count = self.new(self.plan.placing.special(k, "count"))
            tests.append(f"wv{k} + {count} > len(v{k})")
        self.line(f"if {' or '.join(tests)}:")
        with self.block():
            self.line("fail = OUTPUT")
            for k in self.layout.lists:
                count = self.new(self.plan.placing.special(k, "count"))
                self.line(f"cursor[NEED] = max(cursor[NEED], {count})")
            if leave:
                self.line(leave)

    def match(self) -> None:
        """Write a match."""
        for k, element in enumerate(self.plan.elements):
            if not element.repeated:
                self.line(f"out[{k}, ow] = {self.new(self.plan.placing.special(k, 'row'))}")
                continue
            self.line(f"t = {self.new(self.plan.placing.special(k, 'count'))}")
            self.line(f"out[{k}, ow] = t")
            self.line(f"q = {self.new(self.plan.placing.special(k, 'node'))}")
            self.line(f"wv{k} += t")
            self.line(f"t = wv{k}")
            self.line("while q >= 0:")
            with self.block():
                self.line("t -= 1")
                self.line(f"v{k}[t] = nl[0, q]")
                self.line("q = nl[1, q]")
        self.line("ow += 1")
        self.line("work += 1")

    def track(self, state: int) -> None:
        """Write class, path and refusal of a new run; a match that does not become a run is never refused."""
        self.line(f"sl = {self.plan.ages.slice_of('first')}")
        self.line("refusing = False")
        if state == self.plan.last and not self.plan.elements[state].repeated:
            if self.step.begin:
                self.classify_event()
            self.line("cls = event")
            self.line("if len(record):")
            with self.block():
                self._event_features()
            return
        self.line("cls = 0")
        self.line(f"if roots[{state}] >= 0 or len(record):")
        with self.block():
            self.line("pass")
            for n, ref in enumerate(self.plan.features(state)):
                self.line(f"xs[{n}] = {self.name(ref)}")
        self._look_up("cls", state)
        self.line(f"refusing = chosen(salts, spare[0], limits[{state}, cls, sl], serial)")
        self.line("if refusing:")
        with self.block():
            self.line(f"refused[{state}] += 1")
            self.line(f"offered[{state}, cls, sl] += 1")
            self.line("serial += 1")

    def classify_event(self) -> None:
        """Write how the class of a row that may complete matches is found: it is the same for all of them."""
        root = len(self.plan.elements)
        self.line("event = 0")
        self.line(f"if roots[{root}] >= 0:")
        with self.block():
            self._event_features()
        self._look_up("event", root)

    def _event_features(self) -> None:
        last = self.plan.last
        self.line("pass")
        for n, ref in enumerate(self.plan.features(last)):
            if ref.variable == self.plan.elements[last].variable and ref.which == "only":
                self.line(f"xs[{n}] = {self.name(ref)}")

    def _look_up(self, name: str, root: int) -> None:
        self.line(f"if roots[{root}] >= 0:")
        with self.block():
            self.line(f"{name} = class_of(nodes, thresholds, axes, cuts, classes, roots[{root}], xs)")

    def note(self, state: int, runs: bool, complete: str | None) -> None:
        """Write what is counted and recorded for a new run or match."""
        if state != self.plan.last or self.plan.elements[state].repeated:
            self.line(f"offered[{state}, cls, sl] += 1")
        if complete and not self.plan.held:
            self.line(f"if {complete}:")
            with self.block():
                self.line(f"counts[COMPLETED, {self._path(runs)}, sl] += 1")
                if not self.plan.elements[state].repeated and not self.step.begin:
                    self.line(f"pairs[i{self.store}[2, p], cls] += 1")
        parent = "-1" if self.step.begin else f"i{self.store}[1, p]"
        self.line("if len(record):")
        with self.block():
            entry = f"serial, {state}, {parent}, seq, first, now, {complete or False}, xs"
            self.line(f"write_down(record, recordx, rw, {entry})")
            self.line("rw += 1")
        self.line("serial += 1")
