"""Writes the program of one query: a loop over rows that looks up runs, tests, makes runs and writes matches.

The text is in the subset of Python that Numba compiles; nothing that the plan knows is decided at run time. For each
type of row there is a branch with the steps that such a row can take, later elements before earlier ones, so that a
row never meets a run that it has just made itself:

    for each row:  type A: loop of A | enter ... | begin    type B: ...
        step:      key of the row -> bucket of runs -> squeeze out the expired
                   for each run: tests -> new values -> bans -> room -> match written, run appended, node chained

**Room.** Arrays do not grow inside compiled code. Where there is no room, the program notes in ``cursor`` what needs
room and where it is (row, step, run), and returns; the caller makes room and calls again. All room for a run is found
before anything is written for it, so nothing is done twice.

**Work** is counted as 1 for each row, each run that is examined, each run that is made, and each match.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spillway.core.cep.codegen.program_text import Text
from spillway.core.cep.codegen.run_scan import Scan
from spillway.core.cep.plan.layout import VALUES
from spillway.core.cep.plan.plan import Ban, Plan
from spillway.core.cep.plan.terms import Writer


class Program(Text):
    """The text of a query's program."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.query = plan.query
        self._step = 0

    def source(self) -> str:
        """Return the text of the function ``advance``."""
        lists = [f"v{k}" for k in self.layout.lists]
        rows, buffers = "high, times, kinds, keep, I, F, base", "out, V, cursor, spent, found"
        self.line(f"def advance({rows}, within, budget, most, X, N, {buffers}, T):")
        with self.block():
            for store in range(len(self.layout.leaves)):
                self.line(f"x{store} = X[{store}]")
                for letter, place in (("i", 0), ("b", 4), ("m", 5)):
                    self.line(f"{letter}{store} = x{store}[{place}]")
                if self.layout.shape(store).floats:
                    self.line(f"f{store} = x{store}[1]")
            self.line("nl, ni, nf, nt = N")
            for n, name in enumerate(lists):
                self.line(f"{name} = V[{n}]")
                self.line(f"w{name} = cursor[{VALUES + n}]")
            if self.plan.tracked:
                self.line(
                    "roots, nodes, thresholds, axes, cuts, classes, limits, spare, salts, "
                    "pslots, paths, counts, refused, offered, pairs, record, recordx, xs = T"
                )
                self.line("looks = counts[TESTED].ravel()")
                for text in self.plan.ages.begin():
                    self.line(text)
                self.line("serial, rw, began = cursor[SERIAL], cursor[RECORDED], cursor[BEGAN]")
                self.line("grain = max(1, most // 40)")
            self.line(
                "e, step, at0, n0, done = cursor[ROW], cursor[STEP], cursor[RUN], cursor[UPTO], cursor[DONE]"
            )
            self.line("ow, room = cursor[WRITTEN], out.shape[1]")
            self.line("fail, total, limit = -1, 0, NULL")
            self.line("while e < high and total < budget:")
            with self.block():
                self.rows()
            self.line(
                "cursor[ROW], cursor[STEP], cursor[RUN], cursor[UPTO], cursor[DONE] = e, step, at0, n0, done"
            )
            self.line("cursor[FAIL], cursor[WRITTEN] = fail, ow")
            for n, name in enumerate(lists):
                self.line(f"cursor[{VALUES + n}] = w{name}")
            if self.plan.tracked:
                self.line("cursor[SERIAL], cursor[RECORDED], cursor[BEGAN] = serial, rw, began")
            self.line("return limit")
        return "\n".join(self.lines) + "\n"

    def rows(self) -> None:
        """Write the code that handles one row."""
        self.line("now, kind, seq = times[e], kinds[e], base + e")
        self.line("limit = now - within")
        if self.plan.tracked:
            for text in self.plan.ages.row():
                self.line(text)
        self.line("work, before = 0, ow")
        for name, kind in self.plan.attributes:
            array = "F" if kind == "float" else "I"
            self.line(f"a_{self.layout.attributes[name]}_{kind} = {array}[{self.layout.attributes[name]}, e]")
        if self.plan.held:
            self.held()
        self.line("if not keep[e]:")
        with self.block():
            self.line("kind = OTHER")
        self.line("elif step == 0 and kind >= OTHER:")  # a pause is not counted as a row
        with self.block():
            self.line("work += 1")
        stores = [n for n, _ in enumerate(self.plan.indexes)]
        for n, name in enumerate(self.plan.types):
            self.line(f"{'if' if n == 0 else 'elif'} kind == {n}:  # {name!r}")
            with self.block():
                self.branch(name)
        if self.query.policy == "strict":
            self.line("elif kind == OTHER:")
            with self.block():
                self.clear(stores)
        self.line("spent[e] += work")
        if not self.plan.held:
            self.line("found[e] += ow - before")
        self.line("total += work")
        self.line("if fail >= 0:")
        with self.block():
            self.line("break")
        self.line("step, at0, n0, done = 0, 0, -1, 0")
        self.line("e += 1")
        if self.plan.tracked:
            self.crowded()

    def crowded(self) -> None:
        """Write the test that stops the program after a row if there may be too many runs.

        Expired runs may be among them. The program stops at most once for each fortieth of ``most`` runs made;
        otherwise a nearly full state would be searched for expired runs at every row. At which rows it stops depends
        on the stream alone.
        """
        counted = [store for store, _ in enumerate(self.plan.indexes)]
        counted += [self.layout.held] if self.plan.held else []
        live = " + ".join(f"m{store}[LIVE]" for store in counted) or "0"
        self.line(f"if {live} > most and serial // grain != began // grain:")
        with self.block():
            self.line("fail, began = CROWDED, serial")
            self.line("break")
        self.line("began = serial")

    def branch(self, name: str) -> None:
        """Write the steps that a row of a type can take."""
        self._step = 1
        scanned = []
        for store, index in reversed(list(enumerate(self.plan.indexes))):
            steps = [step for step in index.steps if name in self.plan.elements[step.target].types]
            if steps:
                scanned.append((store, index, steps))
        # Later targets first; for the same target, the loop before the entrance.
        scanned.sort(key=lambda s: (-max(step.target for step in s[2]), -s[1].state))
        if self.query.policy == "strict":
            self.line("if step <= 0:")
            with self.block():
                self.clear(
                    [n for n, _ in enumerate(self.plan.indexes) if n not in [s for s, _, _ in scanned]]
                )
        for store, index, steps in scanned:
            with self.resumable():
                Scan(self, store, index, steps).write()
        if name in self.plan.elements[0].types:
            with self.resumable():
                Scan(self, -1, None, [self.plan.steps[0]]).begin()
        for n, ban in enumerate(self.plan.bans):
            if name in ban.element.types:
                with self.resumable():
                    self.forbid(self.layout.first_ban + n, ban)

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Write a step that is skipped if the program resumes after it."""
        self.line(f"if fail < 0 and step <= {self._step}:")
        with self.block():
            yield
            self.line("if fail >= 0:")
            with self.block():
                self.line(f"step = {self._step}")
            self.line("else:")
            with self.block():
                self.line("at0, n0, done = 0, -1, 0")
        self._step += 1

    def clear(self, stores: list[int]) -> None:
        """Write the removal of all runs from stores (strict contiguity)."""
        self.line("pass")
        for store in stores:
            self.line(f"m{store}[LIVE] -= b{store}[0, COUNT]")
            self.line(f"b{store}[0, COUNT] = 0")

    def forbid(self, store: int, ban: Ban) -> None:
        """Write that a row of a negated element is stored."""
        writer = Writer(self.event)
        tests = [writer.true(test.term) for test in ban.own]
        keys = self.key_texts(writer, ban.keys, "row")
        self.line(f"if {' and '.join(tests + [c for _, checks in keys for c in checks]) or 'True'}:")
        with self.block():
            self.locate(store, [text for text, _ in keys])
            self.line("if fail < 0:")
            with self.block():
                values = [("i", 1, "seq")]
                for leaf in ban.leaves:
                    array, column = self.layout.column(store, leaf)
                    values.append((array, column, self.event(leaf)))
                self.append(store, "now", values)

    def held(self) -> None:
        """Write the output of held matches whose window has passed."""
        store, firsts = self.layout.held, self.layout.held + 1
        self.line("head = cursor[HEAD]")
        self.line(f"while fail < 0 and head < b{firsts}[0, COUNT]:")
        with self.block():
            self.line(f"p = b{firsts}[0, START] + head")
            self.line(f"if i{firsts}[0, p] > limit:")
            with self.block():
                self.line("break")
            self.line(f"first_seq = i{firsts}[1, p]")
            self.find(store, ["first_seq"], "y")
            self.line("if y >= 0:")
            with self.block():
                self.line(f"i, n = b{store}[y, COUNT], 0")
                self.line("while n < i:")
                with self.block():
                    self.line(f"p = b{store}[y, START] + n")
                    scan = Scan(self, store, None, [])
                    scan.release()
                    self.line("n += 1")
                self.line("if n > 0:")
                with self.block():
                    self.line(f"close_gap(x{store}, y, 0, n)")
            self.line("if fail < 0:")
            with self.block():
                self.line("head += 1")
        self.line("cursor[HEAD] = head")
        self.line("if fail >= 0:")
        with self.block():
            self.line("spent[e] += work")
            self.line("break")
