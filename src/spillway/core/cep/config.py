"""The configuration of a pattern operator: the query, the columns, and what is kept about its runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa

from spillway.core.cep.language import check, kinds, parse
from spillway.core.cep.language.rules import check_types
from spillway.core.cep.language.syntax import Query
from spillway.core.cep.language.tree_builder import attributes
from spillway.core.cep.plan.plan import IndexBy
from spillway.core.checks import require_whole
from spillway.core.data.tables import plain_schema, require_name
from spillway.errors import invalid, unknown

if TYPE_CHECKING:
    from spillway.core.cep.engine.operator import Patterns


@dataclass(frozen=True)
class PatternConfig:
    """A pattern over one stream.

    - ``query``: as text, or as a tree.
    - ``schema``: the schema of the input tables.
    - ``time``, ``type``: the columns with a row's time (a timestamp, or a number of seconds) and type.
    - ``index``: which equalities are used to look up runs: ``"all"``, including computed ones; ``"attributes"``, only
      those between two attributes, as in the paper's engine; ``"none"``.
    - ``tracked``: whether runs have classes and are counted, so that they can be shed; ``classes`` and ``slices`` say
      how many classes a state may have and into how many slices of time the window is cut.
    - ``most_runs``: the largest number of runs (each counted once in every index that holds it), including matches
      that wait for a negated element at the end. Beyond that some are shed, see ``Patterns.relieve``. The number is
      checked between rows, whenever another fortieth of ``most_runs`` runs has been made: one row may double it. None
      is no limit.
    - ``timeouts``: whether runs that time out are available as a second output.
    - ``compile``: whether the query is compiled to machine code, which takes seconds, or interpreted, which is a
      hundred times slower and meant for short tables.
    - ``late``: what happens to rows that arrive after rows with a later time were processed: ``"error"`` raises,
      ``"drop"`` leaves them out.
    """

    query: str | Query
    schema: pa.Schema
    time: str = "time"
    type: str = "type"
    index: IndexBy = "all"
    tracked: bool = False
    classes: int = 1
    slices: int = 4
    most_runs: int | None = None
    timeouts: bool = False
    compile: bool = True
    late: Literal["error", "drop"] = "error"

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema):
            raise invalid("schema", type(self.schema).__name__, "a pyarrow Schema")
        for field in ("time", "type"):
            require_name(self.schema.names, field, getattr(self, field))
        if self.time == self.type:
            raise invalid("type", self.type, "another column than that with the time")
        if self.index not in get_args(IndexBy):
            raise unknown("index", self.index, get_args(IndexBy))
        if self.late not in ("error", "drop"):
            raise unknown("late", self.late, ("error", "drop"))
        require_whole("classes", self.classes, 1, 4096)
        require_whole("slices", self.slices, 1, 1024)
        if self.most_runs is not None:
            require_whole("most_runs", self.most_runs, 1, 2**40)
            if not self.tracked:
                raise invalid(
                    "tracked", False, "True where most_runs is given: runs that are shed have to be known"
                )
        for name in dict.fromkeys(part.name for test in self.tree.conditions for part in attributes(test)):
            if name in self.schema.names:
                require_name(self.schema.names, "attribute", name)
        check(self.tree, plain_schema(self.schema))
        kind = self.kinds[self.type]
        if kind not in ("text", "int", "bool", "null"):
            allowed = "a column of texts or whole numbers"
            raise invalid(
                "type", self.type, f"{allowed}; it is of the type {self.schema.field(self.type).type}"
            )
        check_types(self.tree, kind)

    @cached_property
    def tree(self) -> Query:
        """The query as a tree."""
        if isinstance(self.query, Query):
            return self.query
        if not isinstance(self.query, str):
            raise invalid("query", self.query, "a text such as 'PATTERN SEQ(A a, B b) WITHIN 1 s'")
        return parse(self.query)

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the columns."""
        return kinds(plain_schema(self.schema))

    def build(self, state: bytes | None = None) -> Patterns:
        """Return a new operator, or the operator of a snapshot."""
        from spillway.core.cep.engine.operator import Patterns  # noqa: PLC0415

        return Patterns(self, state)
