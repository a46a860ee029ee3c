"""Assigns rows to shards: by a hash of the key for equality, on a grid for all other predicates.

Equal values have equal hashes, so for equality shard k joins the rows that hash to k, and no row is copied. Any other
predicate may hold between any two rows. Then the left stream has a parts and the right one b, and each of the a × b
cells joins one left part with one right part. A left row is copied to the b cells of its grid row, a right row to the
a cells of its grid column, and each pair meets in one cell only. ::

                right part 0   1   2
    left part 0      [ 0 ][ 1 ][ 2 ]        a left row of part 1 goes to cells 3, 4 and 5,
    left part 1      [ 3 ][ 4 ][ 5 ]        a right row of part 2 to cells 2 and 5

The comparisons are the same as in one join without shards. Left rows are held b times and right rows a times, so a
and b are chosen close to each other.

**Keys.** Spark places a group by a hash of its key, and two small numbers may share a partition, which leaves a core
idle. So the key of a shard is a number that Spark places in the partition where the shard should be.

**Fixed layout.** State belongs to keys, so the layout is stored at the first start and cannot be changed later, even
on a machine with more cores. A description of the join is stored as well, and another join on the same checkpoint is
refused.
"""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.errors import SpillwayError, invalid
from spillway.loop.checkpoint_store import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SHARDS = 1_000
_MOST_BY_DEFAULT = 16
_TRIED_PER_SHARD = 64


@dataclass(frozen=True)
class Grid:
    """Parts of the left and of the right stream, and the key of each cell; ``hashed``: cells on the diagonal only."""

    left: int
    right: int
    hashed: bool
    keys: tuple[int, ...]

    def parts(self, side: int) -> int:
        """Return how many parts a side has."""
        return self.right if side == 1 else self.left

    def targets(self, side: int) -> tuple[tuple[int, ...], ...]:
        """Return for each part of a side the keys that its rows go to.

        >>> Grid(2, 3, False, (10, 11, 12, 13, 14, 15)).targets(1)
        ((10, 13), (11, 14), (12, 15))
        """
        if self.hashed:
            return tuple((key,) for key in self.keys)
        if side == 0:
            return tuple(self.keys[i * self.right : (i + 1) * self.right] for i in range(self.left))
        return tuple(self.keys[j :: self.right] for j in range(self.right))

    def counts(self, key: int) -> tuple[bool, bool]:
        """Return whether a cell is the first with its left rows, and with its right rows: it counts these rows."""
        at = self.keys.index(key)
        return (True, True) if self.hashed else (at % self.right == 0, at // self.right == 0)

    def share(self, here: int, sent: int) -> float:
        """Return a shard's part of a budget, given its number of rows and that of all shards (task.py).

        >>> grid = Grid(4, 4, True, (10, 11, 12, 13))
        >>> grid.share(90, 100), grid.share(0, 100), grid.share(0, 0)
        (0.575, 0.125, 0.25)
        """
        even = 1.0 / len(self.keys)
        return (even + here / sent) / 2 if self.hashed and sent else even


def sides_of(shards: int) -> tuple[int, int]:
    """Return a and b, close to each other, for at most this many cells.

    >>> [sides_of(shards) for shards in (1, 2, 4, 7, 16)]
    [(1, 1), (1, 2), (2, 2), (2, 3), (4, 4)]
    """
    found = [
        (a, b) for a in range(1, shards + 1) for b in range(a, shards // a + 1) if b <= 2 * a or shards < 4
    ]
    return max(found, key=lambda ab: (ab[0] * ab[1], ab[0]))


def _sides(shards: int, hashed: bool) -> tuple[int, int]:
    return (shards, shards) if hashed else sides_of(shards)


def default_shards(spark: SparkSession) -> int:
    """Return the number of tasks that can run at once; if it is not known, that of partitions, but at most 16."""
    partitions = _partitions(spark)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return min(partitions, _MOST_BY_DEFAULT)
    return min(partitions, int(spark.sparkContext.defaultParallelism))


def spread(places: Iterable[tuple[int, int]], shards: int) -> tuple[int, ...]:
    """Choose this many keys, given where each would be placed, as evenly spread over the places as possible.

    >>> spread([(0, 1), (1, 1), (2, 0), (3, 1)], 2), spread([(0, 1), (1, 1), (2, 0), (3, 1)], 3)
    ((0, 2), (0, 2, 1))
    """
    by_place: dict[int, list[int]] = defaultdict(list)
    for key, place in places:
        by_place[place].append(key)
    rounds = [
        keys[depth]
        for depth in range(shards)
        for keys in sorted(by_place.values(), key=lambda keys: keys[0])
        if depth < len(keys)
    ]
    return tuple(rounds[:shards])


def make_grid(spark: SparkSession, shards: int, *, hashed: bool) -> Grid:
    """Return a layout for this many shards, or a few less."""
    left, right = _sides(shards, hashed)
    cells = shards if hashed else left * right
    numbers = spark.range(_TRIED_PER_SHARD * cells).select(F.col("id").cast("int").alias("key"))
    place = F.pmod(F.hash("key"), F.lit(_partitions(spark)))
    found = sorted((row[0], row[1]) for row in numbers.select("key", place).collect())
    return Grid(left, right, hashed, spread(found, cells))


def lasting_grid(
    spark: SparkSession, folder: Folder, stage: int, shards: int | None, *, hashed: bool
) -> Grid:
    """Return the layout that is stored for this join, or make one and store it."""
    name = f"joins/{stage}.json"
    text = folder.read(name)
    if text is None:
        made = make_grid(spark, default_shards(spark) if shards is None else shards, hashed=hashed)
        folder.write_once(name, json.dumps(asdict(made)))
        text = folder.read(name) or "{}"
    grid = _parsed(text)
    if grid.hashed != hashed:
        raise SpillwayError(
            "the checkpoint holds another kind of join.", hint="start with a checkpoint of its own"
        )
    if shards is not None and _sides(shards, hashed) != (grid.left, grid.right) and len(grid.keys) != shards:
        raise invalid(
            "shards",
            shards,
            f"{len(grid.keys)}, as in this checkpoint",
            hint="leave shards= out, or start with a new checkpoint",
        )
    return grid


def require_same(folder: Folder, stage: int, what: str, kind: str = "join") -> None:
    """Store a description of the operator that a stage's state belongs to; refuse if another one is stored."""
    name = f"joins/{stage}.txt"
    folder.write_once(name, what)
    written = folder.read(name)
    if written != what:
        there, here = differing(written or "", what)
        raise SpillwayError(
            f"the checkpoint holds the state of another {kind}: there it has '{there}', here '{here}'.",
            hint=f"start with a new checkpoint, or with the {kind} that spillway/{name} in it tells of",
        )


def differing(one: str, other: str) -> tuple[str, str]:
    """Return a few words of two texts from where they begin to differ.

    >>> differing("SEQ(A a, B b) WITHIN 5 s by time 'ts'", "SEQ(A a, B b) WITHIN 6 s by time 'ts'")
    ("b) WITHIN 5 s by time 'ts'", "b) WITHIN 6 s by time 'ts'")
    """
    words = one.split(), other.split()
    pairs = enumerate(zip_longest(*words))
    begin = max(0, next((n for n, (a, b) in pairs if a != b), 0) - 2)
    there, here = (textwrap.shorten(" ".join(text[begin:]), 60, placeholder=" ...") for text in words)
    return there, here


def check_shards(shards: int | None) -> None:
    """Refuse an invalid number of shards."""
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if shards is not None and not (whole and 1 <= shards <= MOST_SHARDS):
        raise invalid("shards", shards, f"a whole number from 1 to {MOST_SHARDS}, or None")


def _parsed(text: str) -> Grid:
    try:
        found = json.loads(text)
        return Grid(found["left"], found["right"], found["hashed"], tuple(found["keys"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SpillwayError(f"the layout of the join cannot be read: {error!r}.") from error


def _partitions(spark: SparkSession) -> int:
    return max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
