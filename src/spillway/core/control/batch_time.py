"""Chooses how long a micro-batch should take, so that as many rows as possible are delivered within the target.

**The objective.** A row counts as one if its result arrives within the target y_d. A shed row counts as nothing.
A late row subtracts a quarter of a row, and up to four rows more the larger the late part of its batch is: people
who watch the results hardly notice some late rows, but do notice a gap.

**The trade-off.** Batches run one after the other. A row that arrives just after a batch was cut waits until that
batch ends and then for its own: with batch times t₁, t₂ the slowest row takes t₁ + t₂. Of the rows that arrived while
the first batch ran, the share q = min(1, (y_d - t₂) / t₁) is in time. A batch of time t has t - F left for rows. So,
up to a constant factor, each second

    G(t) = (t - F) / t · E [q - l (1/4 + 4 l)]             q = min(1, (y_d - t e₂) / (t e₁)),  l = 1 - q

rows are delivered. Long batches waste less of their time on F, short ones deliver in time. e₁ and e₂ are the factors
by which two successive batches deviate from their expected times. The mean E is taken over the deviations of the last
batches and over the uncertainty of the cost of a row; the best t is found on a grid. So no safety margin has to be
chosen: a quiet machine gets one of a few percent, a noisy one more, and a systematic error of the model is
compensated.

**The least room.** Without errors, and if late rows cost nothing, the best batch time would be

    t = y_d / 2               if F <= y_d / 3: all rows are in time
    t = 2 F y_d / (F + y_d)   above: not all rows can be in time

In the second case t - F is F (y_d - F) / (y_d + F): y_d / 6 or a little more where F is a third to a half of the
target, and less above. Therefore rows get at least **a sixth of the target** in every batch, or that much where F is
more than half of it (:func:`~spillway.core.control.values.least_room_s`). This holds for any G(t), and however much
time the batch itself and the dropped rows take: to shed more would lose rows and hardly shorten anything.

**Uncertainty.** If rows cost exp(δ) times the estimate, a batch of the size of recent ones still takes
t₀, as those did, and a batch that should take t takes t + (exp(δ) - 1)(t - t₀): only the part beyond t₀ is uncertain.

**With a trigger**, rows wait for the next trigger in any case: max(t e₁, trigger) replaces t e₁.

**Dropped rows.** In a steady overload the share d of each second goes into reading rows that are then dropped, so
t (1 - d) - F is left for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_GRID = np.linspace(0.15, 1.0, 86)  # of the target, in steps of a percent
_LATE = 0.25  # of a row: what a late one subtracts
_MANY_LATE = 4.0  # rows that it subtracts as well if its whole batch is late: a gap is worse
_AS_GOOD = 0.9965  # of the best G: of all t that reach it the longest is taken, which loses least
_LEAST_LEFT = 0.2  # of each second that is left for kept rows, however many are dropped
_MOST_UNSURE = 0.5  # spread of a cost that counts here: a larger one is bounded in another way
_LEAST_FACTOR = 0.2  # by which a batch may be shorter than expected, however uncertain its rows are
_UNSURE_BY = np.array([-(3.0**0.5), 0.0, 3.0**0.5])  # standard deviations: three points for a normal law
_UNSURE_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6.0


def best_batch_s(
    target_s: float,
    fixed_s: float,
    errors: Sequence[float],
    *,
    spread: float = 0.0,
    seen_s: float = 0.0,
    dropping: float = 0.0,
    trigger_s: float = 0.0,
) -> float:
    """Return the t with the largest G(t).

    :param errors: logarithms of measured over expected times of the last batches, oldest first
    :param spread: standard deviation of δ, the logarithm of a row's cost
    :param seen_s: t₀, how long batches of the recent sizes take
    :param dropping: share of the time that is spent on rows that are then dropped

    >>> quiet, noisy = [0.0] * 10, [0.2, -0.2, 0.1, -0.3, 0.3, -0.1] * 3
    >>> [round(best_batch_s(3.0, fixed_s, quiet), 2) for fixed_s in (0.3, 1.5)]
    [1.5, 1.68]
    >>> round(best_batch_s(3.0, 0.3, noisy), 2)
    1.35
    """
    t = (_GRID * target_s)[:, None, None]
    rows = np.maximum(t * max(1.0 - dropping, _LEAST_LEFT) - fixed_s, 0.0)
    dearer = np.exp(_UNSURE_BY[:, None] * min(spread, _MOST_UNSURE))
    unsure = np.maximum(1.0 + (dearer - 1.0) * (t - max(seen_s, fixed_s)) / t, _LEAST_FACTOR)
    e = np.exp(np.asarray(errors))
    waited = np.maximum(t * e[:-1] * unsure, trigger_s)
    in_time = np.clip((target_s - t * e[1:] * unsure) / waited, 0.0, 1.0)
    late = 1.0 - in_time
    gain = (rows * (in_time - late * (_LATE + _MANY_LATE * late))).mean(axis=2) @ _UNSURE_WEIGHTS
    value = gain / np.maximum(t[..., 0] * e[:-1], trigger_s).mean(axis=1)
    best = float(value.max())
    return float(t[np.flatnonzero(value >= min(_AS_GOOD * best, best))[-1], 0, 0])
