"""Recorded news as two streams: the stories of one service, and those of all others.

A file belongs here if it has the columns ``ts`` (a timestamp), ``service``, ``keywords`` (a list of words) and
``weights`` (as many numbers), whatever its name and folder. Stories whose service begins with F go to the left, the
rest to the right, both in the order of time. Rows without a time, a service or keywords are left out.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spillway.errors import SpillwayError
from spillway.replay.loaders import data_dir

COLUMNS = ("ts", "service", "keywords", "weights")
LEFT = "F"


def news(folder: Path | None = None) -> tuple[pa.Table, pa.Table]:
    """Return left and right stories with ``time``, ``words`` and ``weights``; raises where there are none."""
    root = data_dir() if folder is None else folder
    files = [] if root is None else [path for path in sorted(root.rglob("*.parquet")) if _fits(path)]
    if not files:
        where = "there is no data folder" if root is None else "no Parquet file in the data folder has them"
        raise SpillwayError(
            f"news is made from the columns {', '.join(COLUMNS)}: {where}.",
            hint="set SPILLWAY_DATA to the folder of recorded data",
        )
    try:
        found = pa.concat_tables([pq.read_table(path, columns=list(COLUMNS)) for path in files])
        found = found.set_column(0, "ts", pc.cast(found["ts"], pa.timestamp("us"), safe=False))
        found = found.drop_null().sort_by("ts")
        left = pc.starts_with(pc.utf8_trim_whitespace(found["service"]), LEFT)
    except (OSError, pa.ArrowException) as error:
        raise SpillwayError(f"news cannot be read from {files[0].name}: {error}.") from error
    stories = pa.table({"time": found["ts"], "words": found["keywords"], "weights": found["weights"]})
    return stories.filter(left), stories.filter(pc.invert(left))


def _fits(path: Path) -> bool:
    try:
        return set(COLUMNS) <= set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException):
        return False  # what is no Parquet file is nobody's data set
