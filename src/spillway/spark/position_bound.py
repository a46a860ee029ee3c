"""Bounds batches of unknown size: rows are dropped by their position in their task.

For some sources the number of rows of a batch is not known before all of them have been read (offsets.py). A task
knows without looking ahead how many of its rows have come so far: Spark numbers them natively. The keep probability
of a row falls with its number. So a task lets in about twice its part of the rows that fit, regardless of how many
rows come, and it drops none while there are no more rows than that part.

=========== =========================================================================================
symbol      what it is
=========== =========================================================================================
B           rows that may arrive before any is dropped for this reason: ``BatchDecision.bound_rows``
T           expected number of tasks of the batch: ``BatchDecision.tasks``
i, j        number of a row in its task, and of the task in its batch, both from 0
n           estimated rank of the row in the batch if all tasks advance equally, (i + 1) max(T, j + 1)
p           probability that the row is kept, min(1, B / n)²
=========== =========================================================================================

**How many rows get in.** Task j has the part r = B / max(T, j + 1). Its first r rows have probability 1, and all
others together let in r more, because the sum of (r / i)² over i > r is less than r. So T tasks let in at most 2 B
rows. Few rows just beyond the part are dropped: 3 % of a task that has a fifth more than its part, and a quarter of
one that has twice its part. That is the tolerance for tasks that are not equally full.

**The number of tasks** is not known either, and a file source splits a large batch into more tasks than a small one.
A task beyond the expected ones has the part that it would have if it were the last, B / (j + 1). So equally full
tasks with B rows or fewer in total lose none, even if there are many more tasks than expected, and k T tasks let in
2 (1 + ln k) B rows. If there are fewer tasks than expected, each has more rows, and some would be dropped needlessly.
Hence the loop follows a fall in the number of tasks at once and a rise step by step (stage_updates.py). Before any
report two tasks are expected: a single task that has all B rows then loses a quarter of them, and none in the batches
after it. If as many tasks as cores were expected, it would lose nearly all.

**Where i is counted:** before the ordinary cut, which keeps a share k of the rows. So B is in arriving rows:
max(L / k, n̂), where L rows fit and n̂ are expected. A batch that is as large as expected is only cut in the ordinary
way, and of any other batch at most 2 L rows get in (2 n̂ k, if that is more).

**Replay.** Rows are chosen by a threshold on a hash with a separate salt, and B and T are stored. The same rows are
chosen again if the source delivers the same partitions in the same order, as Spark requires of all sources. The
weight is 1 / p times the ordinary weight, so weighted counts and sums are unbiased. Weights of rows far beyond the
bound are large, and the intervals of estimates from them are wide.

Where the size is known B is null, and no row is numbered or hashed. If all sources count their rows, the size is
always known, and this bound is not in the plan at all (counted_sources.py).

**On streams** Spark refuses ``monotonically_increasing_id``, because it begins at 0 again in each batch. That is
exactly what is needed here. A subquery of one row hides the function from that check, and the optimizer replaces the
subquery by the function (``OptimizeOneRowRelationSubquery``). :func:`check_numbers` tests that at the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.errors import SpillwayError
from spillway.loop.reports import BITS_OF_NUMBER
from spillway.spark.control_row import PREFIX, check_executors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

KEEP = f"{PREFIX}keep"
COLUMNS = ("bound", "tasks", "bound_salt")  # of the control row
_NUMBER = f"{PREFIX}number"
_SPARING = f"{PREFIX}sparing"
_WEIGHT = f"{PREFIX}bound_weight"


def with_numbers(df: DataFrame) -> DataFrame:
    """Number the rows of each task if the batch is bounded. Call it before any row is dropped."""
    number = F.expr(f"(select case when {PREFIX}bound is not null then monotonically_increasing_id() end)")
    return df.select("*", number.alias(_NUMBER))


def check_numbers(control: DataFrame) -> None:
    """Read the control row twice outside a stream, to check that tasks can read it and that rows are numbered."""
    twice = control.select(F.explode(F.array(F.lit(1.0), F.lit(1.0))).alias(f"{PREFIX}bound"))
    if [row[_NUMBER] for row in check_executors(with_numbers(twice))] != [0, 1]:
        raise SpillwayError(
            "this Spark does not number the rows of a task, by which batches of unknown size are bounded.",
            hint="spark.sql.optimizer.excludedRules must not name OptimizeOneRowRelationSubquery",
        )


def with_bound(
    df: DataFrame, keep: Column, key: Sequence[Column], *, protected: Column | None = None
) -> DataFrame:
    """Add the column that says whether a numbered row is kept, given whether the ordinary cut keeps it."""
    number, bound = F.col(_NUMBER), F.col(f"{PREFIX}bound")
    in_task = number.bitwiseAND((1 << BITS_OF_NUMBER) - 1) + 1
    task = F.shiftrightunsigned(number, BITS_OF_NUMBER) + 1
    rank = in_task * F.greatest(F.col(f"{PREFIX}tasks"), task.cast("double"))
    over = F.greatest(F.lit(1.0), rank / bound)  # 1 where there is no bound: greatest() ignores nulls
    df = df.select("*", keep.alias(_SPARING), (over * over).alias(_WEIGHT))
    hashed = F.xxhash64(*key, F.col(f"{PREFIX}bound_salt")).cast("double") + F.lit(2.0**63)
    drawn = (F.col(_WEIGHT) <= 1.0) | (hashed * F.col(_WEIGHT) <= 2.0**64)
    if protected is not None:
        drawn = protected | drawn
    return df.select("*", (F.col(_SPARING) & drawn).alias(KEEP))


def bound_weight() -> Column:
    """Return 1 / the keep probability of a row; it is 1 where the batch is not bounded."""
    return F.col(_WEIGHT)


def bound_metrics() -> list[Column]:
    """Return the metrics: the rows that were dropped only because of the bound, and the last number."""
    dropped = F.col(_SPARING) & ~F.col(KEEP)
    return [F.count(F.when(dropped, F.lit(1))).alias("bounded"), F.max(_NUMBER).alias("last_number")]
