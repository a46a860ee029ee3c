"""The trigger: decides when to shed and how much, from a bound on the latency and a margin that is learned.

This is the trigger of Section III-B; the margin depends on how often the bound was exceeded.

With θ the bound and m the margin, nothing is shed while μ̂ <= θ' = (1 - m) θ. Otherwise the share of the work that
has to go is the violation, as in Equation 6,

    v = (μ̂ - θ') / μ̂

and the shedding set D is chosen for it. Between two sheddings at least ``delay_events`` events pass.

**Margin.** The paper says that the bound should be chosen somewhat lower than needed, because shedding takes effect
with a delay. How much lower is learned here: μ should be within θ for a share ``held`` of the time, so at each check

    μ > θ:   m grows by  step · held               otherwise:   m falls by  step · (1 - held)

which is in equilibrium exactly where that share is met, whatever the noise. m begins with 1 % and is at most
``most_margin``. It falls no further than to ``least_margin``, or to its initial value if that is less: else the first
rise after a long quiet time would exceed the bound.

>>> trigger = TriggerConfig(bound_s=1.0).build()
>>> trigger.violation(0.9), round(trigger.violation(2.0), 3)
(0.0, 0.505)
"""

from __future__ import annotations

from dataclasses import dataclass

from spillway.core.checks import require_number, require_whole


@dataclass(frozen=True, kw_only=True)
class TriggerConfig:
    """The bound and how it is kept.

    - ``bound_s``: θ, in seconds.
    - ``held``: in which share of the checks μ should be within the bound.
    - ``margin``: the initial m; ``margin_step``: how fast it is learned, 0 for a fixed margin.
    - ``delay_events``: the paper's j, how many events have to pass before runs are shed again.
    """

    bound_s: float
    held: float = 0.97
    margin: float = 0.01
    margin_step: float = 0.006
    least_margin: float = 0.005
    most_margin: float = 0.5
    delay_events: int = 0

    def __post_init__(self) -> None:
        require_number("bound_s", self.bound_s, 0.0, above=True)
        require_number("held", self.held, 0.0, 1.0)
        require_number("most_margin", self.most_margin, 0.0, 0.99)
        require_number("least_margin", self.least_margin, -1.0, self.most_margin)
        require_number("margin", self.margin, -1.0, self.most_margin)
        require_number("margin_step", self.margin_step, 0.0, 1.0)
        require_whole("delay_events", self.delay_events, 0, 10**9)

    def build(self) -> Trigger:
        """Return the trigger."""
        return Trigger(self)


class Trigger:
    """Computes from the latency how much to shed."""

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        self.margin = config.margin
        self.waited = config.delay_events

    @property
    def target_s(self) -> float:
        """θ', the bound less the margin."""
        return (1.0 - self.margin) * self.config.bound_s

    def learn(self, latency_s: float, events: int, pace: float = 1.0) -> None:
        """Update the margin at a check: the measured μ, and how many events passed since the last check.

        ``pace`` slows the margin down for strategies that take effect only after more than a few checks.
        """
        c = self.config
        late = latency_s > c.bound_s
        change = pace * c.margin_step * (c.held if late else c.held - 1.0)
        least = min(c.least_margin, c.margin)
        self.margin = min(c.most_margin, max(least, self.margin + change))
        self.waited += events

    def violation(self, expected_s: float, allowed_s: float | None = None) -> float:
        """Return v, or 0 if the bound is kept; ``allowed_s`` replaces the target where it is given."""
        target_s = self.target_s if allowed_s is None else allowed_s
        if expected_s <= target_s:
            return 0.0
        return (expected_s - target_s) / expected_s

    def may_shed(self) -> bool:
        """Return whether the delay has passed; if so, it starts again."""
        if self.waited < self.config.delay_events:
            return False
        self.waited = 0
        return True
