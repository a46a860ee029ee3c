"""How long a micro-batch should take, so that as many rows as possible are delivered within the target.

**The objective.** A row counts if its result is there within the target y_d. A row that was shed counts for nothing.
A late one takes off a quarter of a row, and up to four more the larger the late part of its batch is: whoever watches
the results hardly notices some late rows, but does notice a gap.

**The trade.** Batches run one after the other. A row that arrives just after a batch was cut waits for that batch to
end and then for its own: with batch times t₁, t₂ the slowest row takes t₁ + t₂, and of the rows that came while the
first one ran the share q = min(1, (y_d - t₂) / t₁) is in time. A batch of time t leaves t - F of it for rows. So, but
for a factor, each second

    G(t) = (t - F) / t · E [q - l (1/4 + 4 l)]             q = min(1, (y_d - t e₂) / (t e₁)),  l = 1 - q

rows are delivered. Long batches waste less on F, short ones are in time. e₁ and e₂ are the factors by which two
batches in a row miss what was expected of them. The mean is taken over those of the last batches, and over what is
not known of the cost of a row; the best t is looked up on a grid. So there is no margin to choose: a quiet machine
has one of a few percent, a noisy one more, and a model that is wrong on the whole is made up for.

**The least room.** Without errors, and if late rows cost nothing, the best batch time would be

    t = y_d / 2               if F <= y_d / 3: all rows are in time
    t = 2 F y_d / (F + y_d)   above: not all rows can be in time

In the second case t - F is F (y_d - F) / (y_d + F): y_d / 6 or a little more where F is a third to a half of the
target, and less above. Therefore rows get at least **a sixth of the target** in every batch, or that much where F is
more than half of it (:func:`~spillway.core.control.values.least_room_s`), whatever G(t) says and however much time
the batch itself and the rows that it drops take: to shed more would lose rows and hardly shorten anything.

**What is not sure.** If rows cost exp(δ) times what is believed, a batch of the size of those seen lately still takes
t₀, as they did, and one that should take t takes t + (exp(δ) - 1)(t - t₀): only what goes beyond them is unsure.

**With a trigger** rows wait for the next one whatever is done: max(t e₁, trigger) stands for t e₁.

**Dropped rows.** In a steady overload the share d of each second goes into reading rows that are then dropped, so
t (1 - d) - F is left for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_GRID = np.linspace(0.15, 1.0, 86)  # of the target, in steps of a percent
_LATE = 0.25  # of a row in time that a late one takes off
_MANY_LATE = 4.0  # what it takes off more if all of its batch is late: a gap is worse than some late rows
_AS_GOOD = 0.9965  # of the best: the longest of those is taken, which loses least
_LEAST_LEFT = 0.2  # of each second that dropped rows leave, however many there are
_MOST_UNSURE = 0.5  # of the spread of a cost: what is less known than that is bounded in another way
_LEAST_FACTOR = 0.2  # by which a batch is shorter than believed, however unsure its rows are
_UNSURE_BY = np.array([-(3.0**0.5), 0.0, 3.0**0.5])  # standard deviations: three points stand for a normal
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

    :param errors: logarithms of the last batches' times over what was expected of them, oldest first
    :param spread: standard deviation of δ, the logarithm of a row's cost
    :param seen_s: t₀, what batches of the sizes seen lately take
    :param dropping: share of the time that goes into rows that are dropped

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
