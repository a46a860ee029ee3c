"""Writes the program of one query: a loop over rows that looks up runs, tests, makes runs and writes matches.

The text is Python in the small language that Numba compiles; nothing in it is decided at run time that the plan knows.
For each type of row there is a branch with the steps that such a row can take, later elements before earlier
ones, so that a row never meets a run that it has just made itself:

    for each row:  type A: loop of A | enter ... | begin    type B: ...
        step:      key of the row -> bucket of runs -> squeeze out the expired
                   for each run: tests -> new values -> bans -> room -> match written, run appended, node chained

**Room.** Arrays do not grow inside compiled code. Where there is no room the program says for what, notes where it is
(row, step, run) in ``cursor`` and returns; the caller makes room and calls again. Before anything is written
for a run all of its room has been found, so nothing is done twice.

**Work** is counted as 1 for each row, run that is looked at, run that is made, and match.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spillway.core.cep.plan import Ban, Index, Key, Plan, Step, Test
from spillway.core.cep.store import Shape
from spillway.core.cep.terms import Ref, Term, Writer, refs

# Places in the cursor.
ROW, STEP, RUN, UPTO, DONE, FAIL, WRITTEN, SERIAL, HEAD, NEED, RECORDED = range(11)
CURSOR = 32
VALUES = 16  # from here on: how many values each list has written
# For what there is no room; smaller numbers are stores.
NODES, OUTPUT, RECORDS = 1000, 1001, 1002
TRACKED = ("serial", "class", "path")
OTHER, PAUSE = -1, -2  # types of rows: none that the query names, and the end of a window without a row


class Layout:
    """Which column of which store holds what. Stores are the indexes, one per ban, and two for held matches."""

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
        """Return the first column for leaves: before it are the first time and what is tracked, or a row."""
        if store < self.first_ban:
            return self.head
        return 2 if store < self.first_ban + len(self.plan.bans) or store == self.held + 1 else 1

    def column(self, store: int, leaf: Ref) -> tuple[str, int]:
        """Return whether a leaf of a store is in the whole numbers or fractions, and its column."""
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
        """The elements that come out as lists."""
        return [k for k, element in enumerate(self.plan.elements) if element.repeated]


class Program:
    """The text of a query's program."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.layout = plan, Layout(plan)
        self.query = plan.query
        self._lines: list[str] = []
        self._depth = 0
        self._step = 0
        self._names = 0

    def source(self) -> str:
        """Return the text of the function ``advance``."""
        lists = [f"v{k}" for k in self.layout.lists]
        self.line(
            "def advance(high, times, kinds, keep, I, F, base, within, budget, X, N, out, V, cursor, spent, found, T):"
        )
        with self.block():
            for store in range(len(self.layout.leaves)):
                names = [f"{letter}{store}" for letter in "ifskbm"]
                self.line(f"{', '.join(names)} = X[{store}]")
            self.line("nl, ni, nf, nt = N")
            for n, name in enumerate(lists):
                self.line(f"{name} = V[{n}]")
                self.line(f"w{name} = cursor[{VALUES + n}]")
            if self.plan.tracked:
                self.line(
                    "features, thresholds, lefts, rights, roots, limits, spare, salts, "
                    "pslots, paths, counts, refused, record, recordx, xs = T"
                )
                self.line("slices = counts.shape[2]")
                self.line("serial, rw = cursor[SERIAL], cursor[RECORDED]")
            self.line("e, step, at0, n0, done = cursor[ROW], cursor[STEP], cursor[RUN], cursor[UPTO], cursor[DONE]")
            self.line("ow, room = cursor[WRITTEN], out.shape[1]")
            self.line("fail, total, limit = -1, 0, NULL")
            self.line("while e < high and total < budget:")
            with self.block():
                self.rows()
            self.line("cursor[ROW], cursor[STEP], cursor[RUN], cursor[UPTO], cursor[DONE] = e, step, at0, n0, done")
            self.line("cursor[FAIL], cursor[WRITTEN] = fail, ow")
            for n, name in enumerate(lists):
                self.line(f"cursor[{VALUES + n}] = w{name}")
            if self.plan.tracked:
                self.line("cursor[SERIAL], cursor[RECORDED] = serial, rw")
            self.line("return limit")
        return "\n".join(self._lines) + "\n"

    def rows(self) -> None:
        """Write what is done for one row."""
        self.line("now, kind, seq = times[e], kinds[e], base + e")
        self.line("limit = now - within")
        self.line("work, before = 1, ow")
        for name, kind in self.plan.attributes:
            array = "F" if kind == "float" else "I"
            self.line(f"a_{self.layout.attributes[name]}_{kind} = {array}[{self.layout.attributes[name]}, e]")
        if self.plan.held:
            self.held()
        self.line("if not keep[e]:")
        with self.block():
            self.line("kind, work = OTHER, 0")
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
        self.line("found[e] += ow - before")
        self.line("total += work")
        self.line("if fail >= 0:")
        with self.block():
            self.line("break")
        self.line("step, at0, n0, done = 0, 0, -1, 0")
        self.line("e += 1")

    def branch(self, name: str) -> None:
        """Write the steps that a row of a type can take."""
        self._step = 1
        scanned = []
        for store, index in reversed(list(enumerate(self.plan.indexes))):
            steps = [step for step in index.steps if name in self.plan.elements[step.target].types]
            if steps:
                scanned.append((store, index, steps))
        # Later targets first; into the same state, the loop before the entrance.
        scanned.sort(key=lambda s: (-max(step.target for step in s[2]), -s[1].state))
        if self.query.policy == "strict":
            self.line("if step <= 0:")
            with self.block():
                self.clear([n for n, _ in enumerate(self.plan.indexes) if n not in [s for s, _, _ in scanned]])
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
        """Write a step that is passed over when the program goes on after it."""
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
        """Write that stores lose all runs (strict contiguity)."""
        self.line("pass")
        for store in stores:
            self.line(f"m{store}[LIVE] -= b{store}[0, COUNT]")
            self.line(f"b{store}[0, COUNT] = 0")

    def forbid(self, store: int, ban: Ban) -> None:
        """Write that a row is kept that may be forbidden."""
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
        """Write that matches come out whose window has passed."""
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
                    self.line(f"close_gap(i{store}, f{store}, b{store}, m{store}, y, 0, n)")
            self.line("if fail < 0:")
            with self.block():
                self.line("head += 1")
        self.line("cursor[HEAD] = head")
        self.line("if fail >= 0:")
        with self.block():
            self.line("spent[e] += work")
            self.line("found[e] += ow - before")
            self.line("break")

    # Small pieces.

    def line(self, text: str) -> None:
        """Write a line."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Write what follows one step further in."""
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, letter: str) -> str:
        """Return a name that is not in use: Numba gives each a single type."""
        self._names += 1
        return f"{letter}_{self._names}"

    def event(self, ref: Ref) -> str:
        """Return the name of a value of the row."""
        return f"a_{self.layout.attributes[ref.name]}_{ref.kind}"

    def key_texts(self, writer: Writer, keys: list[Key], side: str) -> list[tuple[str, list[str]]]:
        """Return each part of a key as an integer, and when it is known."""
        found = []
        for key in keys:
            term = key.run if side == "run" else key.row
            text, checks = writer.number(term)
            if key.kind == "float":
                text = f"bits({text})"
                if not isinstance(term, Ref):
                    checks = [*checks, f"{writer.number(term)[0]} == {writer.number(term)[0]}"]
            found.append((text, list(dict.fromkeys(checks))))
        return found

    def find(self, store: int, keys: list[str], name: str) -> None:
        """Write the search for a bucket: -1 if there is none."""
        if not keys:
            self.line(f"{name} = 0")
            return
        names = [f"{name}_{n}" for n in range(len(keys))]
        self.line(f"{', '.join(names)} = {', '.join(keys)}")
        self.line("h = 0")
        for part in names:
            self.line(f"h = (h + {part}) * 0x1E3779B97F4A7C15")
            self.line("h ^= h >> 32")
        self.line(f"h &= len(s{store}) - 1")
        self.line(f"{name} = np.int64(s{store}[h]) - 1")
        differs = " or ".join(f"k{store}[{name}, {n}] != {part}" for n, part in enumerate(names))
        self.line(f"while {name} >= 0 and ({differs}):")
        with self.block():
            self.line(f"h = (h + 1) & (len(s{store}) - 1)")
            self.line(f"{name} = np.int64(s{store}[h]) - 1")

    def locate(self, store: int, keys: list[str]) -> None:
        """Write the search for a bucket with room for one more run; it is made if there is none."""
        name = f"y{store}"
        self.find(store, keys, name)
        if keys:
            self.line(f"if {name} < 0:")
            with self.block():
                self.line(f"if m{store}[BUCKETS] < len(b{store}):")
                with self.block():
                    self.line(f"{name} = m{store}[BUCKETS]")
                    self.line(f"m{store}[BUCKETS] += 1")
                    self.line(f"s{store}[h] = {name} + 1")
                    for n in range(len(keys)):
                        self.line(f"k{store}[{name}, {n}] = {name}_{n}")
                    for place, value in (("COUNT", "0"), ("ROOM", "0"), ("START", "0"), ("EARLIEST", "NEVER")):
                        self.line(f"b{store}[{name}, {place}] = {value}")
                self.line("else:")
                with self.block():
                    self.line(f"fail = {store}")
        self.line(f"if fail < 0 and b{store}[{name}, COUNT] == b{store}[{name}, ROOM]:")
        with self.block():
            self.line(f"if not enlarge(i{store}, f{store}, b{store}, m{store}, {name}):")
            with self.block():
                self.line(f"fail = {store}")

    def append(self, store: int, first: str, values: list[tuple[str, int, str]]) -> None:
        """Write that a run is put at the end of the bucket that was located."""
        name = f"y{store}"
        self.line(f"z = b{store}[{name}, START] + b{store}[{name}, COUNT]")
        self.line(f"i{store}[0, z] = {first}")
        for array, column, text in values:
            self.line(f"{array}{store}[{column}, z] = {text}")
        self.line(f"b{store}[{name}, COUNT] += 1")
        self.line(f"m{store}[LIVE] += 1")
        self.line(f"if {first} < b{store}[{name}, EARLIEST]:")
        with self.block():
            self.line(f"b{store}[{name}, EARLIEST] = {first}")


class Scan:
    """The part of a program that shows a row to the runs of one store."""

    def __init__(self, program: Program, store: int, index: Index | None, steps: list[Step]) -> None:
        self.program, self.store, self.index, self.steps = program, store, index, steps
        self.plan, self.layout = program.plan, program.layout
        self.line, self.block = program.line, program.block
        self.step = steps[0] if steps else Step(None, self.plan.last)
        self._locals: dict[Ref, str] = {}
        self._ban: int | None = None
        self._released = False

    # Names.

    def old(self, leaf: Ref) -> str:
        """Return a leaf of the run as it was found."""
        array, column = self.layout.column(self.store, leaf)
        return f"{array}{self.store}[{column}, p]"

    def name(self, ref: Ref) -> str:  # noqa: PLR0911
        """Return what a name is called here."""
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

    def new(self, leaf: Ref) -> str:  # noqa: PLR0911
        """Return a leaf of the run that is being made."""
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

    # A scan.

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
                arrays = f"i{store}, f{store}, b{store}, m{store}, b"
                self.line(f"n = b{store}[b, COUNT] if n0 < 0 else n0")
                self.line(f"if n0 < 0 and b{store}[b, EARLIEST] <= limit:")
                with self.block():
                    self.line(f"n = expire({arrays}, limit)")
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
                            self.line(f"close_gap({arrays}, j, i)")
                            self.line("work += i - j")
                            self.line("n, i = n - (i - j), j")
                self.line("work += i")
                self.line("if fail >= 0:")
                with self.block():
                    self.line("at0, n0 = i, n")

    def run(self, consumes: bool) -> None:
        """Write what is done with one run."""
        if consumes:
            self.line("taken = " + ("True" if self.plan.query.policy == "strict" else "False"))
        if self.plan.tracked:
            self.line(f"counts[TESTED, i{self.store}[3, p], {self.slice_of(f'i{self.store}[0, p]')}] += 1")
        for number, step in enumerate(self.steps):
            self.step = step
            self._locals = {}
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
            self.line("if fail >= 0:")
            with self.block():
                self.line("break")
            self.line("done = 0")
            self.line("if not taken:")
            with self.block():
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
        """Write how a held match comes out."""
        self._released = True
        self.line("ok = True")
        for n, ban in enumerate(self.plan.bans):
            if ban.after == self.plan.last:
                self.ask(n, ban)
        self.line("if ok:")
        with self.block():
            self.room_for_match("break")
            self.match()

    # Making a run.

    def make(self, leave: str) -> None:
        """Write how a run is made, or a match."""
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
        """Write where a new run goes: into the indexes of its state, and to the matches if it is complete."""
        plan, element = self.plan, self.plan.elements[state]
        targets = []
        for store, index in enumerate(plan.indexes):
            if index.state == state:
                keys = self.program.key_texts(Writer(self.name), index.keys, "run")
                tests = [check for _, checks in keys for check in checks]
                if element.repeated and plan.query.policy == "any":
                    if not index.steps[0].loop:
                        tests.append("ends")
                    elif element.at_most is not None:
                        tests.append(f"count < {element.at_most}")
                targets.append((store, index, keys, tests))
        complete = state == plan.last
        if plan.tracked:
            self.track(state, complete)
            if not complete or element.repeated:
                self.line("if not refusing:")
                with self.block():
                    self._commit(leave, state, targets, complete)
                return
        self._commit(leave, state, targets, complete)

    def _commit(self, leave: str, state: int, targets: list, complete: bool) -> None:  # type: ignore[type-arg]
        plan, element = self.plan, self.plan.elements[state]
        for store, _, keys, tests in targets:
            self.line(f"to{store} = {' and '.join(tests) or 'True'}")
            self.line(f"if to{store}:")
            with self.block():
                self.program.locate(store, [text for text, _ in keys])
        if complete:
            self.line(f"if {'ends' if element.repeated else 'True'}:")
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
        if element.repeated:
            self.line("nt[0] += 1")
        if targets:
            self.line("work += 1")
        for store, index, _, _ in targets:
            self.line(f"if to{store}:")
            with self.block():
                values = []
                if plan.tracked:
                    values = [("i", 1, "serial"), ("i", 2, "cls"), ("i", 3, "path")]
                for leaf in index.leaves:
                    array, column = self.layout.column(store, leaf)
                    values.append((array, column, self.new(leaf)))
                self.program.append(store, "first", values)
        if complete:
            self.line(f"if {'ends' if element.repeated else 'True'}:")
            with self.block():
                if plan.held:
                    values = []
                    for leaf in plan.held_leaves():
                        array, column = self.layout.column(self.layout.held, leaf)
                        values.append((array, column, self.new(leaf)))
                    self.program.append(self.layout.held, "first", values)
                else:
                    self.match()
        if state == 0 and plan.held and self.step.begin:
            self.program.append(self.layout.held + 1, "now", [("i", 1, "seq")])
        if plan.tracked:
            self.note(state, bool(targets), complete)

    def node(self, leave: str) -> None:
        """Write the row into the next free node; it counts only if the run is made."""
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
            better = {"sum": f"{name} + {x}", "min": f"min({name}, {x})", "max": f"max({name}, {x})"}[leaf.which]
            self.line(f"{name} = {x} if {empty} else {better}")

    # Conditions.

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

    def walks(self, tests: list[Test], flag: str) -> None:
        """Write the conditions about all rows of a chain."""
        for test in tests:
            if test.walk is not None:
                node = self.name(self.plan.placing.special(self.plan.placing.position[test.walk], "node"))
                self.line(f"q1 = {node} if {flag} else -1")
                self.chain(test, flag)

    def chain(self, test: Test, flag: str) -> None:
        """Write a walk along a chain from its node ``q1``."""
        self.line("while q1 >= 0:")
        with self.block():
            self.line("q = nl[1, q1]" if test.pairs else "q = q1")
            if test.pairs:
                self.line("if q < 0:")
                with self.block():
                    self.line("break")
            self.line(f"if not {Writer(self.name).true(test.term)}:")
            with self.block():
                self.line(f"{flag} = False")
                self.line("break")
            self.line("q1 = nl[1, q1]")

    def ask(self, number: int, ban: Ban) -> None:
        """Write the question whether there is a forbidden row; sets ``ok``."""
        plan, store = self.plan, self.layout.first_ban + number
        self._ban = store
        writer = Writer(self.name)
        keys = self.program.key_texts(writer, ban.keys, "run")
        low, high = "-1", "seq + 1"
        if ban.after >= 0:
            element = plan.elements[ban.after]
            leaf = plan.placing.special(ban.after, "node" if element.repeated else "row")
            low = f"nl[0, {self.new(leaf)}]" if element.repeated else self.new(leaf)
        if ban.after < plan.last:
            element = plan.elements[ban.after + 1]
            high = self.new(plan.placing.special(ban.after + 1, "first_row" if element.repeated else "row"))
        checks = [check for _, found in keys for check in found]
        self.line(f"if {' and '.join(['ok', *checks])}:")
        with self.block():
            self.program.find(store, [text for text, _ in keys], "u")
            self.line("if u >= 0:")
            with self.block():
                self.line(f"low, high_row = {low}, {high}")
                self.line(f"r = b{store}[u, START] + b{store}[u, COUNT] - 1")
                self.line(f"while r >= b{store}[u, START] and i{store}[1, r] > low:")
                with self.block():
                    inside = [f"i{store}[1, r] < high_row"]
                    if ban.after < 0:
                        inside.append(f"i{store}[0, r] > limit")
                    elif ban.after == plan.last:
                        inside = [f"i{store}[0, r] - within < i{self.layout.held}[0, p]"]
                    inside += [writer.true(test.term) for test in ban.tests if not test.walk]
                    self.line(f"hit = {' and '.join(inside)}")
                    self.walks(ban.tests, "hit")
                    self.line("if hit:")
                    with self.block():
                        self.line("ok = False")
                        self.line("break")
                    self.line("r -= 1")
        self._ban = None

    # Matches.

    def _all_match(self) -> bool:
        """Whether each run that is found is a match, all rows being single: then columns are copied."""
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
            self.line(f"out[{k}, ow : ow + part] = i{store}[{column}, p : p + part]")
        self.line(f"out[{plan.last}, ow : ow + part] = seq")
        self.line("ow += part")
        self.line("work += part")
        self.line("i += part")
        self.line("if i < n:")
        with self.block():
            self.line("fail = OUTPUT")

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

    # What shedding wants to know.

    def slice_of(self, first: str) -> str:
        """Return the time slice of a run with the given first time."""
        return f"min(slices - 1, (now - {first}) * slices // within)"

    def track(self, state: int, complete: bool) -> None:
        """Write class, path and refusal of a new run."""
        self.line(f"sl = {self.slice_of('first')}")
        if complete and not self.plan.elements[state].repeated:
            return
        self.line("cls = 0")
        self.line(f"t = roots[{state}]")
        self.line("if t >= 0 or len(record):")
        with self.block():
            for n, ref in enumerate(self.plan.features(state)):
                self.line(f"xs[{n}] = {self.name(ref)}")
        self.line("if t >= 0:")
        with self.block():
            self.line("while features[t] >= 0:")
            with self.block():
                self.line("t = lefts[t] if xs[features[t]] <= thresholds[t] else rights[t]")
            self.line("cls = lefts[t]")
        self.line(f"refusing = chosen(salts, spare[0], limits[{state}, cls, sl], serial)")
        self.line("if refusing:")
        with self.block():
            self.line(f"refused[{state}] += 1")
            self.line("serial += 1")
        parent = "0" if self.step.begin else f"i{self.store}[3, p]"
        self.line(f"path = path_of(pslots, paths, {parent}, {state}, cls)")

    def note(self, state: int, runs: bool, complete: bool) -> None:
        """Write what is counted and recorded for a new run or match."""
        element = self.plan.elements[state]
        parent = "-1" if self.step.begin else f"i{self.store}[1, p]"
        ends = ("ends" if element.repeated else "True") if complete else "False"
        if complete:
            source = "path" if runs else ("0" if self.step.begin else f"i{self.store}[3, p]")
            self.line(f"if {ends}:")
            with self.block():
                self.line(f"counts[COMPLETED, {source}, sl] += 1")
        self.line("if len(record):")
        with self.block():
            for n, text in enumerate(("serial", str(state), parent, "seq", "first", "now", ends)):
                self.line(f"record[{n}, rw] = {text}")
            self.line("recordx[:, rw] = xs")
            self.line("rw += 1")
        self.line("serial += 1")
