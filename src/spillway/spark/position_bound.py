"""Bounds batches of unknown size: rows are dropped by their place in their task.

Of some sources nobody knows how many rows a batch has before they have all been read (offsets.py). What is known
without looking ahead is how many rows of a task have come so far: Spark numbers them natively. A row's chance falls
with its number, so that a task lets in about twice its part of what fits, however many rows come, and everything
while there is no more than that part.

=========== =========================================================================================
symbol      what it is
=========== =========================================================================================
B           rows that may arrive before any is dropped for this reason: ``BatchDecision.bound_rows``
T           tasks that the batch is taken to have: ``BatchDecision.tasks``
i, j        the number of a row in its task, and of the task in its batch, both from 0
n           the rank of the row if all tasks took turns, (i + 1) max(T, j + 1)
p           the chance of the row, min(1, B / n)²
=========== =========================================================================================

**What gets in.** Task j has the part r = B / max(T, j + 1). Its first r rows have chance 1, and all others together
let in r more, for the sum of (r / i)² over i > r is less than r. So T tasks let in 2 B rows at most. Rows beyond the
part are dropped gently: of a task that has a fifth more than its part, 3 % are, and of one that has twice its part, a
quarter. That is the reserve for tasks that are not equally full.

**How many tasks there will be** is not known either, and a file source splits a large batch into more of them than
a small one. A task beyond the expected ones has the part that it would have if it were the last, B / (j + 1). So
equally full tasks whose rows are B or fewer lose none, however many more they are than expected, and k T tasks let
in 2 (1 + ln k) B rows. Fewer tasks than expected have to hold the same rows, and some would be dropped in vain:
hence a smaller number of tasks is believed at once and a larger one step by step (stage_updates.py). Before any
report two are expected: a single task that has all B rows loses a quarter of them then, and none in the batches
after it. Had as many been expected as there are cores, it would lose nearly all.

**Where i counts.** In front of the ordinary cut, which keeps a share k of the rows, so B is in rows that arrive:
max(L / k, n̂), where L rows fit and n̂ are expected. A batch that is as large as expected is left to the ordinary cut,
and of any other no more than 2 L rows get in (2 n̂ k, should that be more).

**Replay.** Which rows are chosen is a threshold on a hash with a salt of its own, and B and T are on record. The same
rows come out again if the source gives the same partitions in the same order, as Spark asks of all sources. The
weight is 1 / p times the ordinary one, so weighted counts and sums are unbiased; those of rows far beyond the bound
are large, and their answers accordingly wide.

Where the size is known B is null, and no row is numbered or hashed. Where all sources count their rows it always is,
and nothing of this is in the plan (counted_sources.py).

**On streams** Spark refuses ``monotonically_increasing_id``, since each batch begins at 0 again: what makes it no id
there is what is wanted here. A subquery of one row hides it from that check, and the optimizer puts it in the place
of the subquery (``OptimizeOneRowRelationSubquery``). :func:`check_numbers` looks whether it does, at the call.
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
    """Number the rows of each task, where the batch is bounded; to be called before any of them is dropped."""
    number = F.expr(f"(select case when {PREFIX}bound is not null then monotonically_increasing_id() end)")
    return df.select("*", number.alias(_NUMBER))


def check_numbers(control: DataFrame) -> None:
    """Read the control row twice outside a stream, to see that tasks can, and that rows are numbered."""
    twice = control.select(F.explode(F.array(F.lit(1.0), F.lit(1.0))).alias(f"{PREFIX}bound"))
    if [row[_NUMBER] for row in check_executors(with_numbers(twice))] != [0, 1]:
        raise SpillwayError(
            "this Spark does not number the rows of a task, by which batches of unknown size are bounded.",
            hint="spark.sql.optimizer.excludedRules must not name OptimizeOneRowRelationSubquery",
        )


def with_bound(
    df: DataFrame, keep: Column, key: Sequence[Column], *, protected: Column | None = None
) -> DataFrame:
    """Say of each numbered row whether it is kept, given whether the ordinary cut keeps it."""
    number, bound = F.col(_NUMBER), F.col(f"{PREFIX}bound")
    in_task = number.bitwiseAND((1 << BITS_OF_NUMBER) - 1) + 1
    task = F.shiftrightunsigned(number, BITS_OF_NUMBER) + 1
    rank = in_task * F.greatest(F.col(f"{PREFIX}tasks"), task.cast("double"))
    over = F.greatest(F.lit(1.0), rank / bound)  # 1 where there is no bound: nulls are left out
    df = df.select("*", keep.alias(_SPARING), (over * over).alias(_WEIGHT))
    hashed = F.xxhash64(*key, F.col(f"{PREFIX}bound_salt")).cast("double") + F.lit(2.0**63)
    drawn = (F.col(_WEIGHT) <= 1.0) | (hashed * F.col(_WEIGHT) <= 2.0**64)
    if protected is not None:
        drawn = protected | drawn
    return df.select("*", (F.col(_SPARING) & drawn).alias(KEEP))


def bound_weight() -> Column:
    """Return one over the chance of a row, 1 where the batch is not bounded."""
    return F.col(_WEIGHT)


def bound_metrics() -> list[Column]:
    """Return what is counted: rows that were dropped for this reason alone, and the last number."""
    dropped = F.col(_SPARING) & ~F.col(KEEP)
    return [F.count(F.when(dropped, F.lit(1))).alias("bounded"), F.max(_NUMBER).alias("last_number")]
