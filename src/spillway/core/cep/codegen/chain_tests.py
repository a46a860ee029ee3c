"""Tests that are more than an expression: on all rows of a chain, and on rows that must not exist."""

from __future__ import annotations

from spillway.core.cep.codegen.value_names import Naming
from spillway.core.cep.plan.plan import Ban, Condition
from spillway.core.cep.plan.terms import Writer


class Asking(Naming):
    """Writes walks along chains and searches for rows that forbid a match."""

    def walks(self, tests: list[Condition], flag: str) -> None:
        """Write the tests of conditions on all rows of a chain."""
        for test in tests:
            if test.walk is not None:
                node = self.name(self.plan.placing.special(self.plan.placing.position[test.walk], "node"))
                self.line(f"q1 = {node} if {flag} else -1")
                self.chain(test, flag)

    def chain(self, test: Condition, flag: str) -> None:
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
        """Write the search for a row that forbids the match; it sets ``ok``."""
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
