"""The configuration of a join: the predicate, the windows, how matches are found, and what is shed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from spillway.core.checks import require_number, require_whole
from spillway.core.data.times import MICROSECONDS
from spillway.core.join.adaptations import Shedding, SheddingName, shedding_of
from spillway.core.join.predicates import Predicate
from spillway.errors import invalid, unknown

if TYPE_CHECKING:
    from spillway.core.join.operator import Join

T = TypeVar("T")
Access = Literal["scan", "index", "sorted_index"]
_LONGEST_S = 10.0**11
_MOST_BASIC_WINDOWS = 10_000


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """A join of two streams.

    - ``on``: the predicate, such as ``overlap("words", at_least=3)``.
    - ``within_s``: how long rows stay in the windows, in seconds: one number, or one for the left and one for the
      right.
    - ``time``: the column with a row's time, or one for each side: a timestamp, or a number of seconds.
    - ``shedding``: a name or a :class:`Shedding`; matters where a budget is given.
    - ``access``: ``"scan"``, ``"index"`` (lists in the order of time) or ``"sorted_index"`` (lists sorted by
      identifier, for comparison).
    - ``late``: what happens to rows that arrive after rows with a later time were processed: ``"error"`` raises,
      ``"drop"`` leaves them out.
    - ``salt``: the seed of all random choices.
    """

    on: Predicate
    within_s: float | tuple[float, float]
    time: str | tuple[str, str] = "time"
    shedding: SheddingName | Shedding | str = "selective"
    access: Access = "scan"
    late: Literal["error", "drop"] = "error"
    salt: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.on, Predicate):
            raise invalid("on", self.on, "a predicate such as overlap('words', at_least=3) or equality('id')")
        for value in pair("within_s", self.within_s):
            require_number("within_s", value, 0.0, _LONGEST_S)
        for name in pair("time", self.time):
            if not isinstance(name, str) or not name:
                raise invalid("time", self.time, "the name of a column, or one for each side")
        if max(self.windows) > _MOST_BASIC_WINDOWS * self.length:
            basic = shedding_of(self.shedding).basic_window_s
            least = max(self.windows) / MICROSECONDS / _MOST_BASIC_WINDOWS
            raise invalid("basic_window_s", basic, f"at least {least:g} for windows of this length")
        if self.access not in get_args(Access):
            raise unknown("access", self.access, get_args(Access))
        if self.late not in ("error", "drop"):
            raise unknown("late", self.late, ("error", "drop"))
        require_whole("salt", self.salt, -(2**63), 2**63 - 1)

    @property
    def windows(self) -> tuple[int, int]:
        """The lengths w_1 and w_2 in microseconds."""
        left, right = pair("within_s", self.within_s)
        return round(left * MICROSECONDS), round(right * MICROSECONDS)

    @property
    def times(self) -> tuple[str, str]:
        """The time columns of both sides."""
        return pair("time", self.time)

    @property
    def length(self) -> int:
        """The length b of basic windows in microseconds."""
        w = self.windows
        seconds = shedding_of(self.shedding).length_s((w[0] / MICROSECONDS, w[1] / MICROSECONDS))
        return max(1, round(seconds * MICROSECONDS))

    def build(self, state: bytes | None = None, *, clock: Callable[[], float] | None = None) -> Join:
        """Return a new join, or the join of a snapshot.

        A ``clock`` in seconds, such as ``time.perf_counter``, is only used to report in ``work`` how long adaptation
        takes.
        """
        from spillway.core.join.operator import Join  # noqa: PLC0415

        return Join(self, state) if clock is None else Join(self, state, clock)


def pair(field: str, given: T | tuple[T, T]) -> tuple[T, T]:
    """Return the value for the left side and the value for the right side.

    >>> pair("within_s", 20), pair("within_s", (20, 5))
    ((20, 20), (20, 5))
    """
    if isinstance(given, tuple | list):
        if len(given) != 2:
            raise invalid(field, given, "one value, or two: for the left and the right side")
        return given[0], given[1]
    return given, given
