"""The text of a program under construction: its lines, its names, and short pieces of code that use stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spillway.core.cep.plan.layout import Layout
from spillway.core.cep.plan.plan import Key, Plan
from spillway.core.cep.plan.terms import Ref, Writer


class Text:
    """Lines of a program."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.layout = plan, Layout(plan)
        self.lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Indent the lines that follow."""
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, letter: str) -> str:
        """Return a name that is not in use: Numba gives each name a single type."""
        self._names += 1
        return f"{letter}_{self._names}"

    def event(self, ref: Ref) -> str:
        """Return the name of a value of the row."""
        return f"a_{self.layout.attributes[ref.name]}_{ref.kind}"

    def key_texts(self, writer: Writer, keys: list[Key], side: str) -> list[tuple[str, list[str]]]:
        """Return each part of a key as an integer, with the conditions under which it is known."""
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
        """Write the search for a bucket; the result is -1 if there is none."""
        if keys:
            self.line(f"{name} = find(x{store}, ({', '.join(keys)},))")
        else:
            self.line(f"{name} = 0")

    def locate(self, store: int, keys: list[str]) -> None:
        """Write the search for a bucket with room for one more run; a missing bucket is created."""
        name = f"y{store}"
        if keys:
            self.line(f"{name} = locate(x{store}, ({', '.join(keys)},))")
            self.line(f"if {name} < 0:")
            with self.block():
                self.line(f"fail = {store}")
            self.line(f"elif b{store}[{name}, COUNT] == b{store}[{name}, ROOM]:")
        else:
            self.line(f"{name} = 0")
            self.line(f"if b{store}[0, COUNT] == b{store}[0, ROOM]:")
        with self.block():
            self.line(f"if not enlarge(x{store}, {name}):")
            with self.block():
                self.line(f"fail = {store}")

    def append(self, store: int, first: str, values: list[tuple[str, int, str]]) -> None:
        """Write a run to the end of the bucket that was located."""
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
