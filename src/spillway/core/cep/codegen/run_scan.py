"""Writes how a row is shown to the runs of one store: runs are found and tested, and they take the row."""

from __future__ import annotations

from spillway.core.cep.codegen.run_creation import Making
from spillway.core.cep.plan.plan import Step
from spillway.core.cep.plan.terms import Writer

_COUNTED, _SPARSE = 64, 16  # the fewest runs in a sample, and how many runs one of them may stand for
_ODD = 40503


class Scan(Making):
    """Writes one step of a row over the runs of a store."""

    def write(self) -> None:
        """Write the whole scan."""
        assert self.index is not None
        store, consumes = self.store, self.plan.query.policy != "any"
        writer = Writer(self.name)
        rows = []
        for key in self.index.keys:
            rows.append(self.program.key_texts(writer, [key], "row")[0])
        checks = [check for _, found in rows for check in found]
        self.line(f"if {' and '.join(checks) or 'True'}:")
        with self.block():
            self.program.find(store, [text for text, _ in rows], "b")
            self.line("if b >= 0:")
            with self.block():
                self.line(f"n = b{store}[b, COUNT] if n0 < 0 else n0")
                self.line(f"if n0 < 0 and b{store}[b, EARLIEST] <= limit:")
                with self.block():
                    self.line(f"n = expire(x{store}, b, limit)")
                if self.plan.tracked:
                    self.count()
                self.line("i = at0")
                self.line("work -= i")
                if self._all_match():
                    self.copy()
                else:
                    if consumes:
                        self.line("j = i")
                    self.line("while i < n:")
                    with self.block():
                        self.line(f"p = b{store}[b, START] + i")
                        self.run(consumes)
                        self.line("i += 1")
                    if consumes:
                        self.line("if j < i:")
                        with self.block():
                            self.line(f"close_gap(x{store}, b, j, i)")
                            self.line("work += i - j")
                            self.line("n, i = n - (i - j), j")
                self.line("work += i")
                self.line("if fail >= 0:")
                with self.block():
                    self.line("at0, n0 = i, n")

    def run(self, consumes: bool) -> None:
        """Write what happens to one run."""
        store, policy = self.store, self.plan.query.policy
        if consumes:
            self.line(f"taken = {policy == 'strict'}")
        for number, step in enumerate(self.steps):
            self.step = step
            self._locals = {}
            if number:
                self.line(f"p = b{store}[b, START] + i")  # the bucket may have moved
            self.line("ok = " + self._tests(step, consumes))
            self.walks(step.tests, "ok")
            self.line("if ok:")
            with self.block():
                if consumes:
                    self.line("taken = True")
                    self.line(f"ok = done & {1 << number} == 0")
                    self.line("if ok:")
                    with self.block():
                        self.make("break")
                        self.line(f"done |= {1 << number}")
                else:
                    self.make("break")
        if consumes:
            self.line("done = 0")
            self.line("if not taken:")
            with self.block():
                self.stay()

    def count(self) -> None:
        """Write the count of all runs that will be examined, and the class of the row if it may complete some.

        Counting a run takes as long as examining it. Where there are many, one in up to sixteen is counted for all.
        Runs are in the order in which they were made, so each slice is represented; the row's number decides which
        run is counted first.
        """
        store = self.store
        self.line("if n0 < 0:")
        with self.block():
            self.line(f"every = max(1, min({_SPARSE}, n // {_COUNTED}))")
            self.line(f"t = b{store}[b, START]")
            self.line(f"for p in range(t + ((seq & 65535) * {_ODD} >> 8) % every, t + n, every):")
            with self.block():
                self.line(f"first = i{store}[0, p]")
                self.line(f"looks[i{store}[3, p] * slices + {self.plan.ages.slice_of('first')}] += every")
        for step in self.steps:
            if step.target == self.plan.last and not self.plan.elements[step.target].repeated:
                self.step = step
                self.classify_event()

    def stay(self) -> None:
        """Write that a run that has not taken the row is moved up to the runs before it."""
        self.line("if j < i:")
        with self.block():
            self.line(f"t = b{self.store}[b, START] + j")
            shape = self.layout.shape(self.store)
            for array, columns in (("i", shape.ints), ("f", shape.floats)):
                for column in range(columns):
                    self.line(f"{array}{self.store}[{column}, t] = {array}{self.store}[{column}, p]")
        self.line("j += 1")

    def begin(self) -> None:
        """Write how a run begins."""
        self.line("i = at0")
        self.line("while i < 1:")
        with self.block():
            tests = [Writer(self.name).true(test.term) for test in self.step.tests]
            self.line(f"if {' and '.join(tests) or 'True'}:")
            with self.block():
                self.make("break")
            self.line("i += 1")

    def release(self) -> None:
        """Write the output of a held match, which is counted now; the record of a forbidden one is taken back."""
        store, tracked = self.store, self.plan.tracked
        self._released = True
        self.line("ok = True")
        for n, ban in enumerate(self.plan.bans):
            if ban.after == self.plan.last:
                self.ask(n, ban)
        self.line("if ok:")
        with self.block():
            self.room_for_match("break")
            self.match()
            if tracked:
                self.line(f"counts[COMPLETED, i{store}[3, p], i{store}[4, p]] += 1")
            if tracked and self.plan.last > 0 and not self.plan.elements[-1].repeated:
                self.line(f"pairs[i{store}[2, p], i{store}[5, p]] += 1")
        if tracked:
            self.line("elif len(record):")
            with self.block():
                self.line("if rw >= record.shape[1]:")
                with self.block():
                    self.line("fail = RECORDS")
                    self.line("break")
                entry = f"i{store}[1, p], TAKEN_BACK, -1, first_seq, i{store}[0, p], now, False, xs"
                self.line(f"write_down(record, recordx, rw, {entry})")
                self.line("rw += 1")

    def _tests(self, step: Step, consumes: bool) -> str:
        tests = []
        if consumes and self.plan.elements[self.index.state].repeated:  # type: ignore[union-attr]
            state = self.index.state  # type: ignore[union-attr]
            most = self.plan.elements[state].at_most
            if not step.loop:
                tests.append(f"{self.old(self.plan.placing.special(state, 'open'))} != 0")
            elif most is not None:
                tests.append(f"{self.old(self.plan.placing.special(state, 'count'))} < {most}")
        tests += [Writer(self.name).true(test.term) for test in step.tests if not test.walk]
        return " and ".join(tests) or "True"

    def _all_match(self) -> bool:
        """Whether each run found makes a match of single rows: then whole columns are copied."""
        plan = self.plan
        return (
            plan.query.policy == "any"
            and self.steps[0].target == plan.last
            and not self.steps[0].tests
            and not any(element.repeated for element in plan.elements)
            and not any(ban.asked_in == plan.last for ban in plan.bans)
            and not plan.held
            and not plan.tracked
        )

    def copy(self) -> None:
        """Write the copying of columns."""
        plan, store = self.plan, self.store
        self.line("part = min(n - i, room - ow)")
        self.line(f"p = b{store}[b, START] + i")
        for k in range(plan.last):
            _, column = self.layout.column(store, plan.placing.special(k, "row"))
            self.line(f"copy_column(i{store}, {column}, p, part, out, {k}, ow)")
        self.line(f"out[{plan.last}, ow : ow + part] = seq")
        self.line("ow += part")
        self.line("work += part")
        self.line("i += part")
        self.line("if i < n:")
        with self.block():
            self.line("fail = OUTPUT")
