"""Estimates with confidence intervals: native Column expressions over the weights that shedding adds.

``from spillway import estimate as est``; then ``.agg(est.mean("fare"))`` gives ``struct<value, low, high>``. A kept
row of weight w was kept by an independent random draw with probability 1/w and represents w rows. So weighted sums
over the kept rows estimate sums over all rows, and the variances of the draws add up. With a = w (w - 1), which is 0
for a row that was certain to be kept,

    =========  =======================  ========================================  ============================
    estimate   value                    variance                                  degrees of freedom
    =========  =======================  ========================================  ============================
    count      N = Σ w                  Σ a                                       n* = (Σ a)² / Σ a²
    sum        Σ w y                    Σ a y²                                    (Σ a y²)² / Σ (a y²)²
    mean       m = Σ w y / N            Σ a (y - m)² / (N² f)                     n* f
    ratio      R = Σ w y / Σ w x        Σ a (y - R x)² / ((Σ w x)² f)             n* f
    quantile   least y with F(y) >= q   of F: A (G (1 - q)² + (1 - G) q²) / N²    n*
    =========  =======================  ========================================  ============================

The interval extends t √variance to both sides, with Student's t at the degrees of freedom, at least 1.

- n* is the effective number of sampled rows (Satterthwaite): n where all weights are equal, fewer where some
  weights are much larger than others; rows of weight 1 do not count.
- f corrects for residuals that are taken from the sample's own mean: 1 - 2 Σ a w / (N Σ a) + Σ w² / N², which is
  1 - 1/n where all weights are equal.
- F and G are the shares of the weights and of A = Σ a up to y. The interval of F around q is turned into one of y
  (Woodruff). Where it leaves (0, 1) the end is infinite, because the sample does not reach that far.
- A single row does not show the spread: its mean and ratio have the interval (-∞, ∞). Count and sum have t for
  one degree of freedom. A count is at least the number of rows that were seen.
- Where every weight is 1 the value is exact and the interval has no width. Shedding never adds weights below 1:
  if there are any, low and high are NaN.
- If the kept values are all the same although rows were shed, they have no spread, but the shed rows may have other
  values. The interval then follows a rule of three (:mod:`~spillway.estimate.unseen_values`).
- An infinite value makes a sum or a mean infinite with certainty: then low and high are infinite, too.

In a chain of stages the weights are multiplied, and so are the keep probabilities, so the same formulas hold. They
are those of :mod:`spillway.core.groups.intervals` for the design "independent", except for n* and f: the two agree
where weights are equal, and for a sum where the values are equal, too.

Where rows share a random draw (the results of a join whose inputs were shed, or rows that ``key="user"`` keeps or
drops together), these intervals are too narrow. :func:`joined` and :func:`clustered` return the same estimates with
intervals for shared draws (:mod:`~spillway.estimate.shared`).
"""

from spillway.estimate.checks import check
from spillway.estimate.linear import count, mean, ratio, sum
from spillway.estimate.quantiles import quantile
from spillway.estimate.shared import Shared, clustered, joined

__all__ = ["Shared", "check", "clustered", "count", "joined", "mean", "quantile", "ratio", "sum"]
