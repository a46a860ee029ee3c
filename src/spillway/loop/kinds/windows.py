"""Which windows a batch may open, decided once and for good.

A window must be treated alike in all batches that bring rows of it, or a part of it would come out as if it were the
whole. So a decision about a window is made before its first row, written down with the batch that first needs it,
and handed on from batch to batch until the watermark has passed the window. Spark tells late rows by the watermark of
the batch before, so a window is remembered for one batch longer than it is open.

What has been seen already is known from Spark itself: the offset log of batch b holds the watermark, which is the
latest event time of all batches before b less the delay that the user allowed. With M that latest time,

    windows that a row up to M may belong to    decided by now, or else open: they stay kept
    from there to M + H                         decided now, with the p of now, whatever was said of them before
    beyond                                      kept, for as long as nothing is decided about them

The horizon H is half as much again as event time should advance in this batch, at its pace of late, and a window.
Rows beyond it are kept, which costs time but no result is wrong. A query with several sources has one watermark for
all, which says nothing of ours: there M is what batches have reported, and windows are dropped only if all batches
before b have. Before anything has been reported no window is dropped.

Windows up to M are settled. The bound on gaps and the debt (core/windows/decisions.py) are counted along them, as
they were told, and what lies ahead is decided anew in every batch from there. So gaps are bounded also where batches
are much shorter than a window, and where a restart brings another bound. A debt of more than B windows is forgiven:
they would go missing long after the overload.

A row of the far future may open more windows than can be told one by one: then nothing is decided. A restart with
another arrangement has other windows. Where rows of the old ones were dropped, the new ones that had begun by then
are dropped too, for they would lack these rows.

p follows from the share of the work that fits (decision.py). Work is counted in the windows that a row has a part in,
since the plan makes a row of each of them, and what of it is left at a given p is known from the arrangement
(``shares_left``): 1 - p before a single aggregate, more where an inner window serves several outer ones. p is looked
up there, at most B / (B + 1). Rows that are dropped early cost next to nothing; what a dropped part costs on average
is learned with the rest, and takes its piece of the limit. A batch may have only a few windows, so the coins are
even, and neighbours share one only where windows overlap: rows go early only if all of their windows do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

from spillway.core.random import mix, threshold
from spillway.core.windows import DropConfig, Drops

MOST_GRANULES = 200_000  # that a control row tells of
_LEAST_S = 0.001  # Spark's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """An arrangement as far as its drop is concerned, in microseconds; see core/windows/needs.py."""

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
        """What makes windows the same ones after a restart."""
        return (self.granule_us, self.slide_us, self.inner_us, self.span_us)

    @property
    def most(self) -> int:
        """How many windows can be told one by one."""
        return max(2, MOST_GRANULES * self.granule_us // self.slide_us)

    def drop_probability(self, share: float) -> float:
        """Return the p at which this share of the work is left, or the most if that does not do.

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
    """The windows of the drop from number ``first`` on: "1" is kept.

    ``state`` is that of the coins at the first window that no row can have come of. From there on windows were
    decided with ``drop_probability``. ``dropped`` is how many of those settled since the batch before are missing.
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
        """Read back what :meth:`to_dict` gave."""
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
    """Return what a batch is told, given what the one before it was told.

    :param seen_us: the latest event time that a finished batch has reported
    :param all_seen: where there are several sources, whether that batch was the one before this one
    :param keep_share: the share of the work that fits
    :param waited_s: how long the rows of the batch before and of this one have been gathered
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
    if known:  # of windows from here on no row can have come
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
    """Return the coins at window ``seen``, and how many windows before it have been dropped since the last batch."""
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
    if seen > max(since, decided):  # nothing was decided about the last ones, so they are kept
        state.run = 0
    state.next, state.run, state.owed = seen, min(state.run, spec.max_gap), min(state.owed, spec.max_gap)
    return drops, dropped
