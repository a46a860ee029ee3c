"""Decides which windows a batch keeps and which it drops. A decision is final once rows of the window may have come.

All batches that have rows of a window must treat the window alike. Otherwise the result of a part of the window
would be output as if it were the result of the whole. So the decision about a window is made before its first row,
stored with the batch that first needs it, and passed on from batch to batch until the watermark has passed the
window. Spark finds late rows by the watermark of the batch before, so a window is remembered for one batch longer
than it is open.

Spark itself shows which event times have been seen: the offset log of batch b holds the watermark, which is the
latest event time of all batches before b minus the delay that the user allowed. If M is that latest event time:

    windows that a row up to M may belong to    decided by now; if not, they are open and stay kept
    windows from there to M + H                 decided now, with the current p; earlier decisions are replaced
    windows beyond M + H                        kept, as long as nothing is decided about them

The horizon H is 1.5 times the advance of event time expected in this batch (from its latest pace), plus a window.
Rows beyond it are kept, which costs time but makes no result wrong. A query with several sources has one watermark
for all of them, which does not show the event time of one source. There M is the latest event time that batches have
reported, and windows are dropped only if all batches before b have reported. Before the first report no window is
dropped.

Windows up to M are settled. The bound B on consecutive dropped windows and the debt (core/windows/decisions.py) are
counted along the settled windows, as they were decided, and the windows after M are decided anew in every batch. So
gaps are bounded even where batches are much shorter than a window, and where a restart brings another bound. A debt
of more than B windows is cancelled, because these windows would be dropped long after the overload.

A row of the far future may open more windows than can be listed one by one; then nothing is decided. A restart with
another arrangement has other windows. Where rows of the old windows were dropped, the new windows that had begun by
then are dropped too, because they would lack these rows.

p follows from the share of the work that fits (decision.py). Work is counted in windows per row, because the plan
makes one row for each window that a row belongs to. The arrangement gives the work that is left at a given p
(``shares_left``): 1 - p before a single aggregate, more where an inner window serves several outer ones. p is looked
up in this table and is at most B / (B + 1). Rows that are dropped early cost next to nothing; the average cost of a
dropped part is learned with the other costs and uses up its part of the limit. A batch may have only a few windows,
so the random draws are spread evenly. Neighbouring windows share a draw only where windows overlap, because a row can
be dropped early only if all of its windows are dropped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

from spillway.core.random import mix, threshold
from spillway.core.windows import DropConfig, Drops

MOST_GRANULES = 200_000  # the most granules that a control row lists
_LEAST_S = 0.001  # the resolution of Spark's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """The parts of an arrangement that the window drop needs, in microseconds; see core/windows/needs.py."""

    granule_us: int
    slide_us: int
    inner_us: int
    span_us: int
    delay_ms: int
    max_gap: int
    together: int
    shares_left: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths that must be equal for windows to be the same after a restart."""
        return (self.granule_us, self.slide_us, self.inner_us, self.span_us)

    @property
    def most(self) -> int:
        """The most windows that can be listed one by one."""
        return max(2, MOST_GRANULES * self.granule_us // self.slide_us)

    def drop_probability(self, share: float) -> float:
        """Return the p at which this share of the work is left; if no p is enough, the largest one.

        >>> lengths = {"granule_us": 1, "slide_us": 1, "inner_us": 0, "span_us": 1, "delay_ms": 0}
        >>> spec = WindowSpec(**lengths, max_gap=4, together=1, shares_left=(1.0, 0.9, 0.2))
        >>> [round(spec.drop_probability(share), 6) for share in (1.0, 0.9, 0.55, 0.1)]
        [0.0, 0.4, 0.6, 0.8]
        """
        left, step = self.shares_left, self.max_gap / (self.max_gap + 1) / (len(self.shares_left) - 1)
        for number, (more, less) in enumerate(pairwise(left)):
            if less <= share:
                return step * (number + (more - min(share, more)) / (more - less) if more > less else number)
        return step * (len(left) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDecision:
    """The decision about windows from number ``first`` on: "1" means kept, "0" dropped.

    ``state`` is the state of the random draws at the first window that no row can have reached yet. From that window
    on, windows were decided with ``drop_probability``. ``dropped`` counts the dropped ones among the windows that
    were settled since the batch before.
    """

    first: int = 0
    kept: str = ""
    latest_us: int | None = None
    watermark_ms: int | None = None
    state: dict[str, Any] | None = field(default=None)
    drop_probability: float = 0.0
    dropped: int = 0
    pace: float | None = None
    shape: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back the output of :meth:`to_dict`."""
        return cls(**{**found, "shape": tuple(found.get("shape", ()))})


def decide_windows(
    spec: WindowSpec,
    before: WindowDecision,
    *,
    watermark_ms: int | None,
    seen_us: int | None,
    all_seen: bool | None = None,
    waited_s: tuple[float | None, float | None],
    keep_share: float,
    seed: int,
) -> WindowDecision:
    """Return the window decision of a batch, given that of the batch before.

    :param seen_us: the latest event time that a finished batch has reported
    :param all_seen: where there are several sources, whether that batch was the one before this one
    :param keep_share: the share of the work that fits
    :param waited_s: how long rows have gathered for the batch before, and for this batch
    """
    if not watermark_ms:
        return before
    begun = "1"
    if before.shape not in ((), spec.shape):
        begun = "0" if "0" in before.kept else "1"
        before = WindowDecision(latest_us=before.latest_us, watermark_ms=before.watermark_ms)
    by_watermark = (watermark_ms + spec.delay_ms + 1) * 1000
    known = seen_us is not None and (seen_us <= by_watermark if all_seen is None else all_seen)
    latest = max(by_watermark, seen_us or 0, before.latest_us or 0)
    last_s, this_s = waited_s
    pace = before.pace
    if before.latest_us is not None and latest > before.latest_us and last_s:
        pace = (latest - before.latest_us) / max(last_s, _LEAST_S)
    late_ms = watermark_ms if before.watermark_ms is None else before.watermark_ms
    open_from = (late_ms * 1000 - spec.span_us) // spec.slide_us
    seen, most = (latest + spec.inner_us) // spec.slide_us + 1, spec.most
    told = replace(
        before, latest_us=latest, watermark_ms=watermark_ms, pace=pace, shape=spec.shape, dropped=0
    )
    if seen - open_from > most:
        return told
    bits, p = before.kept, before.drop_probability
    decided = before.first + len(bits) if bits else open_from
    drops, dropped = _settle(spec, before, decided, seen, seed)
    state = drops.snapshot()
    if seen > decided:
        bits += begun * min(seen - decided, seen - open_from)
        decided = seen
    if known:  # no row of a window from here on can have come
        p = spec.drop_probability(keep_share)
        step = (this_s or 0.0) * (1e6 if pace is None else pace)
        until = max((latest + int(1.5 * step)) // spec.slide_us + 2, seen + 1)
        ahead = drops.decide(seen, min(until, seen + most), p)
        bits = bits[: len(bits) - (decided - seen)] + "".join("1" if kept else "0" for kept in ahead)
        decided = seen + len(ahead)
    first = max(decided - len(bits), open_from)
    return replace(
        told,
        first=first,
        kept=bits[len(bits) - (decided - first) :],
        state=state,
        drop_probability=p,
        dropped=dropped,
    )


def _settle(
    spec: WindowSpec, before: WindowDecision, decided: int, seen: int, seed: int
) -> tuple[Drops, int]:
    """Return the random draws at window ``seen``, and how many windows settled since the last batch are dropped."""
    config = DropConfig(max_gap=spec.max_gap, salt=mix(seed), batch=spec.together, even=True)
    drops = config.build()
    state = drops.state
    since = seen
    if before.state is not None:
        since, state.run, state.owed = (before.state[name] for name in ("next", "run", "owed"))
    limit, dropped = threshold(min(before.drop_probability, config.most)), 0
    for number in range(since, min(seen, decided)):
        gone = before.kept[number - before.first] == "0"
        coin = config.coin(number // config.together) <= limit
        state.run = state.run + 1 if gone else 0
        state.owed = max(state.owed + coin - gone, 0)
        dropped += gone
    if seen > max(since, decided) or not before.drop_probability:
        state.owed = 0
    if seen > max(since, decided):  # nothing was decided about the last windows, so they are kept
        state.run = 0
    state.next, state.run, state.owed = seen, min(state.run, spec.max_gap), min(state.owed, spec.max_gap)
    return drops, dropped
