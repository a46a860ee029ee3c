"""Taxi rides made to order, in the shape of the DEBS 2015 data: mean fare per route on machines without data.

The rows are made up, their shape is not. The first hour of the real data (10,004 rides) has, with routes between
cells of about two kilometres: 47 % of the routes with one ride, and 6 % of the rides on one route; log distances with
a mean of 0.61 and a deviation of 0.87 (miles); fares of about 3.67 + 2.83 per mile, with a deviation of their
logarithm of 0.18 about that. So here

    p_r(t)  ∝  (r + q)^-s  exp(a sin 2π (t / T_r + φ_r))     how likely a ride takes route r = 1, 2, ..., R
    fare    =  (3.67 + 2.83 d_r) · e^(0.18 z) · (1 + 0.1 sin 2πt / 2h)          z standard normal

A Zipf law with exponent s leaves a share of about 1/s of the routes in any window with a single ride, which gives s;
the shift q keeps the first route from taking most of the rides.

====== ============================================================== =================================
symbol meaning                                                        value
====== ============================================================== =================================
R      routes that there are                                          20,000
s, q   exponent and shift of their popularity                         2, 6
d_r    distance of a route, log-normal, in miles                      e^(0.61 + 0.87 z)
a      drift: popularity swings by the factors e^-a to e^a            1
T_r    period of the swing, different for each route                  0.5 to 3 h
φ_r    its phase                                                      0 to 1
====== ============================================================== =================================

Rides come at 100,000 in 30 minutes on average (the paper's Table III), a fifth more or less over two hours.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats
from spillway.errors import invalid
from spillway.replay.recorded import DataSet, in_order

WINDOW_S = 1_800.0
SLIDE_S = 600.0
RIDES_PER_S = 100_000 / WINDOW_S

_ROUTES, _EXPONENT, _SHIFT, _DRIFT = 20_000, 2.0, 6.0, 1.0
_BASE, _PER_MILE, _SPREAD = 3.67, 2.83, 0.18
_LOG_MILES = (0.61, 0.87)
_SWING_S = 7_200.0
_STEP_S = 60.0


def rides(*, duration_s: float, rides_per_s: float = RIDES_PER_S, seed: int = 0) -> DataSet:
    """Return the rides of so many seconds; the same seed gives the same rides.

    >>> made = rides(duration_s=1800, rides_per_s=2.0, seed=1)
    >>> made.rows == rides(duration_s=1800, rides_per_s=2.0, seed=1).rows, made.spans[0].column_names
    (True, ['group', 'value', 'time', 'row'])
    """
    for name, number in (("duration_s", duration_s), ("rides_per_s", rides_per_s)):
        if not (math.isfinite(number) and number > 0.0):
            raise invalid(name, number, "a number above 0")
    rng = np.random.default_rng(seed)
    popular = (np.arange(1, _ROUTES + 1) + _SHIFT) ** -_EXPONENT
    miles = np.exp(rng.normal(*_LOG_MILES, _ROUTES))
    periods, phases = rng.uniform(1_800.0, 10_800.0, _ROUTES), rng.random(_ROUTES)
    times, routes = [], []
    for start in np.arange(0.0, duration_s, _STEP_S):
        length = min(_STEP_S, duration_s - start)
        count = rng.poisson(rides_per_s * length * (1.0 + 0.2 * _wave(start)))
        likely = popular * np.exp(_DRIFT * np.sin(2.0 * np.pi * (start / periods + phases)))
        routes.append(rng.choice(_ROUTES, count, p=likely / likely.sum()))
        times.append(start + np.sort(rng.random(count)) * length)
    route, at = np.concatenate(routes), np.concatenate(times)
    fares = (_BASE + _PER_MILE * miles[route]) * np.exp(_SPREAD * rng.standard_normal(route.size))
    micros = pa.array((at * 1e6).astype(np.int64)).cast(pa.timestamp("us"))
    table = in_order(
        pa.array(route), pa.array(fares * (1.0 + 0.1 * _wave(at))), micros, pa.array(np.arange(route.size))
    )
    return DataSet(
        name="debs",
        query="mean fare per route, 30 min sliding by 10 (made up in the shape of DEBS 2015)",
        window_s=WINDOW_S,
        slide_s=SLIDE_S,
        spans=(table,),
    )


def _wave(at_s: float | Floats) -> Floats:
    return np.asarray(np.sin(2.0 * np.pi * np.asarray(at_s) / _SWING_S))
