"""How wrong an answer is, and what it costs to be as right.

The error of a window is the mean over its groups of the relative error

    ε_g = min(1, |ŷ_g - y_g| / |y_g|)          1 where the group is missing; 0 of 0 is 0

in [0, 1] as the paper's ε_Q (Section III). The error of a method is the mean over windows, and over several salts.
"""

from __future__ import annotations

import numpy as np

from spillway.core.arrays import Floats


def relative_errors(truth: Floats, estimate: Floats) -> Floats:
    """Return the relative error of each group; NaN stands for a group that is missing.

    >>> relative_errors(np.array([10.0, 10.0, 10.0, 0.0]), np.array([9.0, np.nan, 50.0, 0.0])).tolist()
    [0.1, 1.0, 1.0, 0.0]
    """
    off = np.abs(estimate - truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(off == 0.0, 0.0, off / np.abs(truth))
    return np.where(np.isnan(estimate), 1.0, np.minimum(relative, 1.0))


def share_for(error: float, shares: Floats, errors: Floats) -> float:
    """Return the share of the rows at which a method's error falls to the given one.

    Between measurements the error is linear; beyond the last one lies the whole window, whose error is 0.

    >>> share_for(0.25, np.array([0.02, 0.5]), np.array([0.9, 0.5]))
    0.75
    """
    x, y = np.append(shares, 1.0), np.append(errors, 0.0)
    y = np.minimum.accumulate(y)
    if error >= y[0]:
        return float(x[0])
    return float(np.interp(error, y[::-1], x[::-1]))


def ratio(above: float, below: float, floor: float = 1e-9) -> float:
    """Return a ratio of two errors, both taken to be at least a floor: two methods without an error are alike.

    >>> ratio(0.5, 0.25), ratio(0.0, 0.0)
    (2.0, 1.0)
    """
    return max(above, floor) / max(below, floor)
