"""What a simulated run leaves behind: every row's fate, every sample and every decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.control import Decision, Sample
from spillway.sim.targets import Targets


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one run.

    ================= ==================================================================================
    ``arrival_s``     when each row arrived
    ``delay_s``       arrival to departure of the row's last piece; NaN for a row that was shed
    ``targets``       the target in force over time
    ``period_s``      the control period, or the mean batch on a batched engine
    ``samples``       one per period, as the controller saw them
    ``decisions``     one per period, as the controller made them
    ``elapsed_s``     simulated seconds until the last row had left
    ================= ==================================================================================
    """

    arrival_s: Floats
    delay_s: Floats
    targets: Targets
    period_s: float
    samples: tuple[Sample, ...]
    decisions: tuple[Decision, ...]
    elapsed_s: float

    @property
    def delivered(self) -> npt.NDArray[np.bool_]:
        """Which rows were not shed."""
        return ~np.isnan(self.delay_s)

    def delay_series_s(self, period_s: float | None = None) -> tuple[Floats, Floats]:
        """Return the paper's y(k): for each period its end and the mean delay of the rows that arrived in it.

        A period of which no row was delivered has no delay: NaN.
        """
        length = self.period_s if period_s is None else period_s
        got = self.delivered
        last = float(self.arrival_s[-1]) if self.arrival_s.size else 0.0
        periods = max(1, int(np.ceil(last / length)))
        index = np.minimum((self.arrival_s[got] / length).astype(np.int64), periods - 1)
        rows = np.bincount(index, minlength=periods)
        total = np.bincount(index, weights=self.delay_s[got], minlength=periods)
        mean = np.divide(total, rows, out=np.full(periods, np.nan), where=rows > 0)
        return np.arange(1.0, periods + 1.0) * length, mean
