"""The promises on recorded timestamps: every Parquet file of the data folder that has a time for each row.

A file's times are its first column of timestamps, or a whole-number column that ends in ``_us``, or else a column
``t`` in seconds. Some consecutive rows of it, from a tenth of the way on, go through windows of which there are a few
hundred.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.windows.promises import Found, check
from spillway.core.windows import Arrangement, sliding, tumbling
from spillway.errors import SpillwayError
from spillway.replay.loaders import data_dir

MAX_GAP = 3
PROBABILITY = 0.5
_WINDOWS = 300
_STEPS_S = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 21_600, 86_400)


def recorded(rows: int, folder: Path | None = None) -> tuple[dict[str, Found], dict[str, str]]:
    """Return what was found in each file, and why others could not be used; nothing where there is no data."""
    root = data_dir() if folder is None else folder
    found: dict[str, Found] = {}
    unusable: dict[str, str] = {}
    for path in sorted(root.glob("*/*.parquet")) if root is not None else []:
        try:
            found[path.name] = promised(times_us(path, rows))
        except SpillwayError as error:
            unusable[path.name] = str(error)
    return found, unusable


def promised(times: npt.NDArray[np.int64]) -> Found:
    """Check several arrangements over these times."""
    total = Found()
    for salt, arrangement in enumerate(arrangements(int(times[-1] - times[0]))):
        _, slide = arrangement.drop_units()
        gaps = [MAX_GAP * slide // leaf.slide for leaf in arrangement.leaves()]
        total += check(times.tolist(), arrangement, p=PROBABILITY, gaps=gaps, salt=salt)
    return total


def arrangements(span_us: int) -> list[Arrangement]:
    """Return windows of which a span of time holds a few hundred, alone, nested and shared.

    >>> arrangements(300_000_000)[1:3]
    [sliding('3000000 us', '1000000 us'), tumbling('1000000 us') >> tumbling('4000000 us')]
    """
    fitting = [step for step in _STEPS_S if span_us >= _WINDOWS * step * 1e6]
    step = round((fitting or _STEPS_S)[-1 if fitting else 0] * 1e6)
    one, two, three, four = (f"{n * step} us" for n in range(1, 5))
    return [
        tumbling(one),
        sliding(three, one),
        tumbling(one) >> tumbling(four),
        sliding(two, one) | tumbling(two),
    ]


def times_us(path: Path, rows: int) -> npt.NDArray[np.int64]:
    """Return up to so many consecutive times of a file, sorted, in microseconds."""
    try:
        schema = pq.read_schema(path)
        name = next((f.name for f in schema if pa.types.is_timestamp(f.type)), None) or next(
            (f.name for f in schema if _is_micros(f) or _is_seconds(f)), None
        )
        if name is None:
            raise SpillwayError(f"{path.name}: no column of times among {schema.names}.")
        column = pq.read_table(path, columns=[name])[name].drop_null()
    except (OSError, pa.ArrowException) as error:
        raise SpillwayError(f"{path.name}: not a readable Parquet file: {error}.") from error
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        micros = column.to_numpy()
    elif pa.types.is_floating(column.type):
        micros = np.round(column.to_numpy() * 1e6).astype(np.int64)
    else:
        micros = column.to_numpy()
        micros = micros[micros > 0]  # a trace's first snapshot has time 0
    found: npt.NDArray[np.int64] = np.sort(micros.astype(np.int64))
    found = found[min(found.size // 10, max(found.size - rows, 0)) :][:rows]
    if found.size < 2 or found[0] == found[-1]:
        raise SpillwayError(f"{path.name}: fewer than two different times.")
    return found


def _is_micros(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type)) and field.name.endswith("_us")


def _is_seconds(field: pa.Field) -> bool:
    return bool(pa.types.is_floating(field.type)) and field.name == "t"
