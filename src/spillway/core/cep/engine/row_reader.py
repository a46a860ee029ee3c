"""Reads tables into arrays: rows in the order of time, types as numbers, the query's attributes as columns.

======================  ===============================================================================
column                  becomes
======================  ===============================================================================
whole number, truth     a whole number of 64 bits
time, date              microseconds; finer parts are cut off
text                    its code in a vocabulary, so that equal texts are equal numbers
fraction, decimal       a 64-bit float, for a decimal the nearest one; decimals have at most 15 digits
null                    the smallest whole number, or NaN
======================  ===============================================================================

A decimal is a whole number divided by a power of ten, and both are exact as floats: their quotient is rounded once,
to the value that ``float`` gives for the decimal's text. The constants of a query are read with ``float``, and
Spark's own cast gives the same value, while Arrow's is off by one in the last place for every seventh number.

Rows without a time are not in the stream. They have a number like all others, counted from 0 over the whole life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.plan.layout import OTHER, PAUSE
from spillway.core.cep.plan.terms import NULL, Kind
from spillway.core.data.tables import array_of, is_present
from spillway.core.data.times import times_of
from spillway.core.data.vocabulary import Vocabulary
from spillway.errors import SpillwayError, invalid

_EXACT_DIGITS = 15  # whole numbers of so many digits are exact as 64-bit floats
_EXACT_POWER = 22  # powers of ten up to this one are exact as 64-bit floats


@dataclass
class Rows:
    """Rows in the order of time."""

    times: Ints
    kinds: Ints
    keep: Bools
    numbers: Ints
    ints: Ints
    floats: Floats

    def __len__(self) -> int:
        return len(self.times)

    def part(self, low: int, high: int | None = None) -> Rows:
        """Return the rows from ``low`` up to ``high``."""
        return self.picked(slice(low, high))

    def then(self, others: Rows) -> Rows:
        """Return these rows and others, merged in the order of time."""
        both = Rows(
            *(np.concatenate(pair, axis=-1) for pair in zip(_arrays(self), _arrays(others), strict=True))
        )
        return both.picked(np.argsort(both.times, kind="stable"))

    def picked(self, order: Ints | slice) -> Rows:
        """Return the rows at given places."""
        return Rows(*(np.ascontiguousarray(array[..., order]) for array in _arrays(self)))

    def snapshot(self) -> dict[str, Any]:
        """Return the rows as arrays."""
        return dict(vars(self))


def _arrays(rows: Rows) -> tuple[Any, ...]:
    return rows.times, rows.kinds, rows.keep, rows.numbers, rows.ints, rows.floats


class Reader:
    """Reads the tables of one stream."""

    def __init__(
        self, time: str, type_: str, types: list[str], attributes: list[tuple[str, Kind]], words: Vocabulary
    ) -> None:
        self._time, self._type = time, type_
        self._types = pa.array(types, pa.string())
        self._ints = [(name, kind) for name, kind in attributes if kind != "float"]
        self._floats = [name for name, kind in attributes if kind == "float"]
        self.words = words
        self.next_number = 0

    def none(self) -> Rows:
        """Return zero rows."""
        whole = np.empty(0, np.int64)
        return Rows(
            whole,
            whole,
            np.empty(0, np.bool_),
            whole,
            np.empty((len(self._ints), 0), np.int64),
            np.empty((len(self._floats), 0)),
        )

    def read(self, table: pa.Table, keep: Bools | None) -> Rows:
        """Return the rows of a table that have a time, ordered by it.

        They are numbered from ``next_number`` on. The caller advances this number: a table may still be refused.
        """
        if not isinstance(table, pa.Table):
            raise invalid("table", type(table).__name__, "a pyarrow Table")
        times, timed = times_of(table, self._time)
        if keep is None:
            keep = np.ones(len(times), np.bool_)
        elif len(keep) != len(times):
            raise invalid(
                "keep", f"an array of {len(keep)}", f"a truth value for each of the {len(times)} rows"
            )
        ints, floats = self._columns(table)
        numbers = np.arange(self.next_number, self.next_number + len(times))
        kinds = self._kinds(table)
        rows = Rows(_own(times), _own(kinds), _own(np.asarray(keep, np.bool_)), numbers, ints, floats)
        if timed.all() and (times[1:] >= times[:-1]).all():
            return rows
        order = np.flatnonzero(timed)
        return rows.picked(order[np.argsort(times[order], kind="stable")])

    def attributes(self, table: pa.Table) -> dict[str, Floats]:
        """Return the attributes as numbers; this does not count the rows."""
        ints, floats = self._columns(table)
        found = dict(zip([name for name, _ in self._ints], ints.astype(np.float64), strict=True))
        return found | dict(zip(self._floats, floats, strict=True))

    def _columns(self, table: pa.Table) -> tuple[Ints, Floats]:
        ints = np.empty((len(self._ints), table.num_rows), np.int64)
        for n, (name, kind) in enumerate(self._ints):
            column = array_of(table, "attribute", name)
            ints[n] = self._texts(column) if kind == "text" else _whole(column, name)
        floats = np.empty((len(self._floats), table.num_rows))
        for n, name in enumerate(self._floats):
            floats[n] = _fractions(array_of(table, "attribute", name))
        return ints, floats

    def _kinds(self, table: pa.Table) -> Ints:
        column = array_of(table, "type", self._type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            try:
                column = column.cast(pa.string())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SpillwayError(
                    f"type = {self._type!r} has type {column.type}: expected texts or whole numbers.",
                    hint="cast the column to strings",
                ) from error
        found = pc.index_in(column, value_set=self._types.cast(column.type), skip_nulls=True)
        return np.asarray(pc.fill_null(found.cast(pa.int64()), OTHER).to_numpy(zero_copy_only=False))

    def _texts(self, column: pa.Array) -> Ints:
        valid = is_present(column)
        codes = np.full(len(column), NULL, np.int64)
        codes[valid] = self.words.encode(column.drop_null())
        return codes


def _own(array: Any) -> Any:
    """Return a writable array: compiled code would be compiled a second time for a read-only one."""
    return np.require(array, requirements=["C", "W"])


def _whole(column: pa.Array, name: str) -> Ints:
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    try:
        column = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SpillwayError(f"attribute {name!r}: a value does not fit into 64 bits with a sign.") from error
    return np.asarray(pc.fill_null(column, NULL).to_numpy(zero_copy_only=False))


def _fractions(column: pa.Array) -> Floats:
    if pa.types.is_decimal(column.type):
        return _quotients(column)
    return np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False))


def _quotients(column: pa.Array) -> Floats:
    """Return decimals as the nearest floats, nulls as NaN."""
    kind = column.type
    if kind.precision > _EXACT_DIGITS or abs(kind.scale) > _EXACT_POWER:
        found = [np.nan if value is None else float(value) for value in column.to_pylist()]
        return np.array(found, np.float64)
    wide = column.cast(pa.decimal128(kind.precision, kind.scale))
    digits = wide.view(pa.decimal128(kind.precision, 0)).cast(pa.int64())
    whole = pc.fill_null(digits, 0).to_numpy(zero_copy_only=False)
    power = float(10 ** abs(kind.scale))
    numbers = whole / power if kind.scale >= 0 else whole * power
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), numbers, np.nan)


def kinds_of(found: Mapping[str, str]) -> dict[str, Kind]:
    """Return the engine's kind for each kind of the language: truth values and times are whole numbers."""
    names: dict[str, Kind] = {"int": "int", "bool": "int", "time": "int", "float": "float", "text": "text"}
    return {name: names[kind] for name, kind in found.items() if kind in names}


def with_pause(rows: Rows, time: int) -> Rows:
    """Return the rows followed by a pause, a time at which there is no row."""
    one = np.ones(1, np.int64)
    ints, floats = np.zeros((len(rows.ints), 1), np.int64), np.zeros((len(rows.floats), 1))
    return rows.then(Rows(one * time, one * PAUSE, np.ones(1, np.bool_), one * -1, ints, floats))
