"""The join operator on streams: it keeps windows and a budget, chooses what to compare, and learns from the matches.

``process`` takes the next rows of both sides with a budget for them and returns the pairs. Adaptation steps (one per
T_c of the rows' own time) cut the input into pieces. For each piece

    1. the fraction r is the remaining budget / the remaining demand   (rate)
    2. a hash picks the rows that are processed in full, a share γr    (sample)
    3. r becomes r_i, or r_(i,z)                                       (direction, utility)
    4. for each row the best part of the opposite window is chosen     (range selection)
    5. the row is compared with the rows of that part                  (scan or an index)
    6. matches are counted; at the step the order is renewed           (time correlation)

**Budget.** The budget is in work units, never in seconds, so that the same input with the same budgets gives the same
pairs. For a scan a unit is a comparison, and the budget is never exceeded. For an index a unit is a posting that is
read, and rows, lookups and matches count as several units (:mod:`spillway.core.join.work`). How many units a
comparison takes is learned, so the budget is kept on average. Without a budget everything is compared.

**State.** ``snapshot()`` holds the rows in the windows and what has been learned, and nothing else, so the windows
bound its size. Indexes and bit sets are rebuilt from the rows. A join that is built from a snapshot continues exactly
like the one that made it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

import numpy as np
import pyarrow as pa

from spillway.core.checks import require_number
from spillway.core.data.times import MICROSECONDS
from spillway.core.join.access.finder import Finder, finder_of
from spillway.core.join.access.matches import Matches, Matching, matching_of, numbered
from spillway.core.join.adaptations import shedding_of
from spillway.core.join.config import JoinConfig
from spillway.core.join.item_sets import Rows, Shape
from spillway.core.join.meetings import Meetings, meetings
from spillway.core.join.row_reader import SIDES, Reader
from spillway.core.join.selection.random_drop import encounters, keep_ratio
from spillway.core.join.selection.row_draws import DROP, drawn
from spillway.core.join.selection.selector import Selection
from spillway.core.join.waiting_rows import Waiting, picked
from spillway.core.join.window_store import Store
from spillway.core.join.work import Prices, Work
from spillway.core.state.blob import BlobFormat, under
from spillway.errors import SpillwayError, invalid

STATE_FORMAT = BlobFormat(b"SPJOIN", version=1, owner="a join")  # in checkpoints
SCHEMA = pa.schema({"left_row": pa.int64(), "right_row": pa.int64(), "score": pa.float64()})


Clock = Callable[[], float]


def _no_clock() -> float:
    return 0.0


class Join:
    """Joins rows as they arrive."""

    def __init__(self, config: JoinConfig, state: bytes | None = None, clock: Clock = _no_clock) -> None:
        self.config = config
        self.clock = clock
        self.shedding = shedding_of(config.shedding)
        self.reader = Reader(config, self.shedding.utility)
        self.selection = Selection(config)
        self.stores = (Store(config.on.weighted, 0), Store(config.on.weighted, 0))
        self.waiting = Waiting(), Waiting()
        self.finder: Finder = finder_of(config)
        self.work = Work()
        self._now: int | None = None
        self._period: int | None = None
        self.prices = Prices(self.finder.indexed)
        if state is not None:
            self._restore(state)

    def process(
        self,
        left: pa.Table | pa.RecordBatch | None,
        right: pa.Table | pa.RecordBatch | None,
        budget: float | None = None,
        *,
        fraction: float | None = None,
        until_us: int | None = None,
    ) -> pa.Table:
        """Join the next rows and return the pairs: ``left_row``, ``right_row`` (counted from 0) and ``score``.

        Pairs are ordered by the time of their later row, and those of one later row by the time of the earlier row. A
        ``fraction`` sets the share of the windows to compare with directly, instead of a budget. With ``until_us``,
        a time in whole microseconds, only rows up to that time are processed, and later rows wait for another call:
        rows may then arrive out of order, as long as none is older than what has been processed. If a row is refused,
        nothing has changed, and the call may be repeated without it.
        """
        if budget is not None:
            require_number("budget", budget, 0.0)
        if fraction is not None:
            require_number("fraction", fraction, 0.0, 1.0)
            if budget is not None:
                raise invalid("fraction", fraction, "None beside a budget")
        read = self.reader.read(left, right)
        timely = self._timely(0, read[0]), self._timely(1, read[1])
        self.reader.advance()  # nothing is refused from here on
        self.work = Work(rows=len(read[0]) + len(read[1]))
        self.work.late_rows = self.work.rows - len(timely[0]) - len(timely[1])
        rows = (
            self.waiting[0].let_through(timely[0], until_us),
            self.waiting[1].let_through(timely[1], until_us),
        )
        matching, ready = self._matching(), rows
        self.prices.guess(self.stores, rows, single=matching.single)
        if self.shedding.drop_rows or (budget is not None and self._sheds_rows(matching)):
            rows, budget = self._thinned(rows, budget, fraction), None
        self.work.spent = self.prices.of_rows(rows, lookups=False)
        new = len(rows[0]), len(rows[1])
        for store, part in zip(self.stores, rows, strict=True):
            store.add(part)
        self.finder.added(self.stores, new)
        coming = meetings(self.stores, new, self.config.windows)
        kept = max(1e-3, (new[0] + new[1]) / max(1, len(ready[0]) + len(ready[1])))
        dropping, met = self._sheds_rows(matching), coming.comparisons
        self.work.needed = self.prices.of_all(rows, met, dropping=dropping)
        self.work.needed_by_all = self.prices.of_all(ready, met / kept**2, dropping=dropping)
        found = self._join(coming, budget, fraction, matching)
        self._expire()
        return found

    def oldest_rows(self) -> tuple[int, int]:
        """Return the number of each side's oldest row that may still be in a pair: earlier rows may be discarded."""
        oldest = []
        for store, waiting, after in zip(self.stores, self.waiting, self.reader.next_number, strict=True):
            live = np.concatenate([store.numbers[store.live], waiting.rows.numbers])
            oldest.append(int(live.min()) if len(live) else after)
        return oldest[0], oldest[1]

    def _timely(self, side: int, rows: Rows) -> Rows:
        """Return the rows that are not late; raise if late rows are an error."""
        if self._now is None or not len(rows) or rows.times[0] >= self._now:
            return rows
        late = rows.times < self._now
        if self.config.late == "error":
            raise SpillwayError(
                f"{SIDES[side]}: {late.sum()} rows are older than {self._now / MICROSECONDS} s, up to which both "
                "sides have been joined.",
                hint="hand rows over in the order of time, or pass late='drop'",
            )
        return picked(rows, np.flatnonzero(~late))

    def _thinned(
        self, rows: tuple[Rows, Rows], budget: float | None, fraction: float | None
    ) -> tuple[Rows, Rows]:
        if budget is None:
            q = 1.0 if fraction is None else float(np.sqrt(fraction))
        else:
            old, new = encounters(self.stores, rows, self.config.windows)
            price, fixed = self.prices.comparison, self.prices.of_rows(rows, lookups=True)
            q = keep_ratio(budget, old=fixed + price * old, new=price * new)
        if q >= 1.0:
            return rows
        kept = []
        for side, part in enumerate(rows):
            keep = drawn(part.numbers, q, salt=self.config.salt, purpose=DROP, side=side)
            self.work.dropped_rows += int((~keep).sum())
            kept.append(picked(part, np.flatnonzero(keep)))
        return kept[0], kept[1]

    def _sheds_rows(self, matching: Matching) -> bool:
        """Whether a budget is kept by dropping rows: for the baseline, and with a hash index (see ``selector``)."""
        hashed = self.finder.indexed and matching.single
        return self.shedding.drop_rows or (hashed and self.shedding.utility is None)

    def _join(
        self, coming: Meetings, budget: float | None, fraction: float | None, matching: Matching
    ) -> pa.Table:
        """Process rows piece by piece, with an adaptation step between any two pieces."""
        if not len(coming):
            return SCHEMA.empty_table()
        self._now = int(coming.time[-1])
        self.work.demand = coming.comparisons
        if fraction is None:
            self.selection.chooser.carry.fill(0.0)
        whole, dropping = self.finder.indexed and matching.single, self._sheds_rows(matching)
        found, rest = [], cast("Meetings | None", coming)
        while rest is not None:
            began = self.clock()
            to_come = rest.comparisons
            piece, rest = rest.cut(self._enter_period(int(rest.time[0])))
            allowed = None
            if budget is not None:
                left = budget - self.work.spent - self.selection.chooser.carried
                share = piece.comparisons / max(1.0, to_come)
                allowed = max(0.0, left) * share / (self.prices.comparison or 1.0)
            ranges, full = self.selection.choose(
                self.stores, piece, budget=allowed, fraction=fraction, whole=whole
            )
            chosen = self.clock()
            matches = self.finder.find(self.stores, piece, ranges, matching)
            self.prices.account(self.work, ranges.comparisons, matches, dropping=dropping)
            compared = self.clock()
            self.selection.learn(self.stores, piece, full, matches)
            self.work.adapting_s += (chosen - began) + (self.clock() - compared)
            found.append(self._pairs(piece, matches))
        return pa.concat_tables(found)

    def _enter_period(self, time: int) -> int:
        """Make the adaptation step if a new period T_c has begun, and return the time at which this period ends."""
        length = max(1, round(self.shedding.period_s * MICROSECONDS))
        period = time // length
        if self._period is not None and self._period != period:
            self.selection.step(period - self._period)
        self._period = period
        return (period + 1) * length

    def _matching(self) -> Matching:
        return matching_of(self.config.on, self.reader.single_sides)

    def _pairs(self, piece: Meetings, matches: Matches) -> pa.Table:
        left, right = numbered(self.stores, piece, matches)
        return pa.table([pa.array(left), pa.array(right), pa.array(matches.found[2])], schema=SCHEMA)

    def _expire(self) -> None:
        if self._now is None:
            return
        for store, window in zip(self.stores, self.config.windows, strict=True):
            store.expire(self._now - window)
        self.finder.expired(self.stores, self._matching())
        self.reader.vocabulary.forget(
            lambda: np.concatenate(
                [store.items[store.live_items] for store in self.stores]
                + [waiting.rows.items for waiting in self.waiting]
            )
        )

    def snapshot(self) -> bytes:
        """Return the state as bytes; a join from ``build(state)`` continues exactly from here."""
        meta = {
            "config": _identity(self.config),
            "now": self._now,
            "period": self._period,
            "prices": self.prices.snapshot(),
            "next_number": self.reader.next_number,
            "shapes": [None if shape is None else asdict(shape) for shape in self.reader.shapes],
        }
        arrays = self.selection.snapshot()
        arrays |= {f"finder.{name}": array for name, array in self.finder.snapshot().items()}
        arrays |= {f"words.{name}": array for name, array in self.reader.vocabulary.snapshot().items()}
        for side, store, waiting in zip(SIDES, self.stores, self.waiting, strict=True):
            arrays |= {f"{side}.{name}": array for name, array in store.snapshot().items()}
            arrays |= {f"waiting.{side}.{name}": array for name, array in waiting.snapshot().items()}
        return STATE_FORMAT.write(meta, arrays)

    def _restore(self, state: bytes) -> None:
        meta, arrays = STATE_FORMAT.read(state)
        if meta["config"] != _identity(self.config):
            raise SpillwayError(
                f"state: made by a join with {meta['config']}, this one has {_identity(self.config)}.",
                hint="restore with the same predicate, access, windows and types, or start without a state",
            )
        self._now, self._period = meta["now"], meta["period"]
        self.prices.restore(meta["prices"])
        self.reader.next_number = meta["next_number"]
        self.reader.shapes = [None if shape is None else Shape(**shape) for shape in meta["shapes"]]
        self.reader.vocabulary.restore(under("words.", arrays))
        self.selection.restore(arrays)
        for side, store, waiting in zip(SIDES, self.stores, self.waiting, strict=True):
            store.restore(under(f"{side}.", arrays))
            waiting.restore(under(f"waiting.{side}.", arrays))
        self.finder.restored(self.stores, self._matching(), under("finder.", arrays))


def _identity(config: JoinConfig) -> str:
    """Return in words the settings that must not change over the life of a state."""
    shedding = shedding_of(config.shedding)
    types = None if shedding.utility is None else list(map(str, shedding.utility.values))
    on = config.on
    what = f"{on.kind} of {on.left!r} and {on.right!r} by {config.access}"
    cut = f"basic windows {config.length} us {shedding.slide}"
    return f"{what}, windows {config.windows} us, {cut}, types {types}"
