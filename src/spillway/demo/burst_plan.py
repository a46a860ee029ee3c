"""What the demo and the Spark benchmark play, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spillway.errors import invalid
from spillway.replay.traces import Rates


@dataclass(frozen=True, kw_only=True)
class BurstPlan:
    """What is played and for how long.

    ===================== ==================================================================================
    ``target_s``          the delay that rows should not exceed
    ``lead_s``            half of the capacity, to warm the query up; rows of that time do not count
    ``calm_s``            half of the capacity
    ``burst_s``           five times the capacity
    ``after_s``           half of the capacity
    ``patience_s``        how long to wait for rows that Spillway has not let through when the trace is over
    ``saturated_s``       how long a batch takes, about, when capacity is measured: a query at saturation takes in
                          whatever has gathered, so its batches are longer than the delay it is allowed
    ``blocks``            how often plain query and query with Spillway take turns at saturation
    ``batches_per_block`` batches measured in each of those turns
    ``warm_up``           batches and rows per batch that the fresh JVM gets at most to reach its speed
    ``warm_up_limit_s``   how long that may take on a slow machine
    ``fast_start``        leave out the JVM's optimising compiler: half the speed, but from the start
    ``limit_s``           shorten the trace, down to half, so that everything takes about this long
    ===================== ==================================================================================
    """

    target_s: float = 3.0
    lead_s: float = 8.0
    calm_s: float = 10.0
    burst_s: float = 30.0
    after_s: float = 12.0
    patience_s: float = 8.0
    saturated_s: float = 6.0
    blocks: int = 4
    batches_per_block: int = 2
    warm_up: tuple[int, int] = (30, 20_000)
    warm_up_limit_s: float | None = None
    fast_start: bool = False
    limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("target_s", "lead_s", "calm_s", "burst_s", "after_s", "patience_s", "saturated_s"):
            if not getattr(self, name) > 0.0:
                raise invalid(name, getattr(self, name), "seconds above 0")
        for name in ("blocks", "batches_per_block"):
            if getattr(self, name) < 1:
                raise invalid(name, getattr(self, name), "a whole number >= 1")

    @property
    def play_s(self) -> float:
        """How long the trace takes."""
        return self.lead_s + self.calm_s + self.burst_s + self.after_s

    def shortened(self, play_s: float) -> BurstPlan:
        """Return the same in at most that many seconds, but in no less than half of the time.

        >>> plan = BurstPlan(lead_s=2, calm_s=2, burst_s=12, after_s=4)
        >>> plan.shortened(15).burst_s, plan.shortened(5).play_s, plan.shortened(50) == plan
        (9.0, 10.0, True)
        """
        factor = min(1.0, max(0.5, play_s / self.play_s))
        names = ("lead_s", "calm_s", "burst_s", "after_s")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def trace(self, rows_per_s: float) -> Rates:
        """Return the arrivals for a machine of this capacity."""
        half, five = 0.5 * rows_per_s, 5.0 * rows_per_s
        return Rates((half, five, half), (self.lead_s + self.calm_s, self.burst_s, self.after_s))

    def phase(self, at_s: float) -> str:
        """Return what is going on at a second of the trace, in words.

        >>> BurstPlan().phase(20.0)
        'burst: five times the capacity'
        """
        if at_s < self.lead_s:
            return "warming up at half the capacity"
        if at_s < self.lead_s + self.calm_s:
            return "calm: half the capacity"
        if at_s < self.lead_s + self.calm_s + self.burst_s:
            return "burst: five times the capacity"
        return "after the burst: half the capacity"


FULL = BurstPlan()
"""For figures that repeat: about five minutes for three variants."""

DEMO = BurstPlan(
    lead_s=6.0,
    calm_s=8.0,
    burst_s=20.0,
    after_s=10.0,
    saturated_s=1.5,
    blocks=2,
    batches_per_block=3,
    warm_up_limit_s=50.0,
    limit_s=165.0,
)
"""For people who watch: less than three minutes for two variants, with some seconds for the page at the end."""

QUICK = BurstPlan(
    target_s=2.0,
    lead_s=1.0,
    calm_s=0.5,
    burst_s=12.0,
    after_s=0.5,
    patience_s=2.0,
    saturated_s=1.0,
    blocks=1,
    batches_per_block=3,
    warm_up=(3, 3_000),
    fast_start=True,
    limit_s=55.0,
)
"""For a first look: less than a minute on two quiet cores, and rough."""
