"""The ways in which a join gives up comparisons: which adaptations are on, and their parameters.

===============  ==============================================================================================
name             what is compared when not everything can be
===============  ==============================================================================================
``"random"``     whole rows are dropped, the rest is joined in full: the baseline
``"newest"``     the newest part of the windows (rate adaptation alone)
``"timecorr"``   the basic windows that yield most (with time correlation adaptation)
``"selective"``  the basic windows of both sides that yield most (with join direction adaptation): the default
===============  ==============================================================================================

With a utility, the last three also take into account that some matches are worth more than others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spillway.core.checks import require_number
from spillway.core.join.selection.range_selection import Slide
from spillway.core.join.selection.utility import Utility
from spillway.errors import invalid, unknown

SheddingName = Literal["random", "newest", "timecorr", "selective"]


@dataclass(frozen=True, kw_only=True)
class Shedding:
    """The adaptations and their parameters.

    - ``drop_rows``: drop rows at random instead of giving up comparisons; the other switches do not matter then.
    - ``time_correlation``, ``direction``: which adaptations are on.
    - ``direct_by``: what the direction compares, the basic windows of both sides or, as in the paper's Algorithm 4,
      the two whole windows. With a utility it is always basic windows.
    - ``utility``: types of rows and what they are worth.
    - ``basic_window_s``: the paper's b; by default a fortieth of the shorter window, but at least a four hundredth of
      the longer one.
    - ``sample``: γ. A share γr of the rows is processed in full, to learn; it takes about γ of the budget.
      The paper has 0.1.
    - ``period_s``: T_c, how often the counts are turned into a new order of basic windows.
    - ``memory``: the factor by which older counts weigh less after each period; the paper has 0.
    - ``learn_from``: all comparisons, or only those of rows processed in full as in the paper.
    - ``slide``: how basic windows move on, ``"smooth"`` or in steps as in the paper.
    """

    drop_rows: bool = False
    time_correlation: bool = True
    direction: bool = True
    direct_by: Literal["basic_window", "window"] = "basic_window"
    utility: Utility | None = None
    basic_window_s: float | None = None
    sample: float = 0.05
    period_s: float = 5.0
    memory: float = 0.8
    learn_from: Literal["all", "full"] = "all"
    slide: Slide = "smooth"

    def __post_init__(self) -> None:
        if self.utility is not None and not isinstance(self.utility, Utility):
            raise invalid("utility", self.utility, "a Utility or None")
        if self.basic_window_s is not None:
            require_number("basic_window_s", self.basic_window_s, 1e-6)
        require_number("sample", self.sample, 0.0, 1.0)
        require_number("period_s", self.period_s, 1e-6)
        require_number("memory", self.memory, 0.0, 0.999)
        for field, value, choices in (
            ("direct_by", self.direct_by, ("basic_window", "window")),
            ("learn_from", self.learn_from, ("all", "full")),
            ("slide", self.slide, ("step", "smooth")),
        ):
            if value not in choices:
                raise unknown(field, value, choices)

    @property
    def learns(self) -> bool:
        """Whether any adaptation needs rows that are processed in full."""
        return not self.drop_rows and (self.time_correlation or self.direction or self.utility is not None)

    def length_s(self, within_s: tuple[float, float]) -> float:
        """Return b for the given windows; without time correlation one basic window covers the whole window."""
        if not self.time_correlation or self.drop_rows:
            return max(within_s)
        if self.basic_window_s is None:
            return max(min(within_s) / 40, max(within_s) / 400)
        return self.basic_window_s


_PLAIN = Shedding(time_correlation=False, direction=False)
NAMED: Mapping[str, Shedding] = {
    "random": replace(_PLAIN, drop_rows=True),
    "newest": _PLAIN,
    "timecorr": Shedding(direction=False),
    "selective": Shedding(),
}


def shedding_of(given: SheddingName | Shedding | str) -> Shedding:
    """Return the shedding that a name stands for, or the given one."""
    if isinstance(given, Shedding):
        return given
    if given not in NAMED:
        raise unknown("shedding", given, NAMED)
    return NAMED[given]
