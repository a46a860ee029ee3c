"""Decides which windows to drop: a random draw per batch of windows, with bounded gaps and compensation.

Windows are numbered along the time line. B consecutive windows are a batch, and each batch has a random draw (its
"coin") that says drop with probability p (Section 3.4): dropping neighbours together makes early drops possible. The
draw of batch b is a hash of (salt, b), so the same windows are dropped whenever the decision is made. Then, window by
window,

    draw says drop   run < B               drop                        run + 1
                     run = B               open: B windows are missing already        run = 0, owed + 1
    draw says keep   owed > 0, run < B     drop, to compensate         run + 1, owed - 1
                     otherwise             open                        run = 0

So there is never a run of more than B dropped windows, and at least one opens after each dropped batch. When two
batches in a row are to be dropped, the first window of the second batch opens, and a later window that was to be kept
is dropped instead. Both exceptions cancel, so a share p is dropped in the long run.

**Smaller batches, even draws.** What holds in the long run need not hold for the next few windows, which matter to a
controller. For this purpose ``batch`` may be less than B (neighbours need not be dropped together where windows do
not overlap), and with ``even`` the draws follow the golden ratio: draw b is the fractional part of c + b φ. It is as
uniform as a hash, but successive draws are spread out, so that even a few windows keep their share up to a window or
two.

**Limit.** One window of B + 1 has to open: p is limited to B / (B + 1). Up to this limit the debt ``owed`` always
returns to zero.

**Pieces.** ``decide`` continues where it stopped, and ``state`` is all that it remembers. Windows decided in several
calls are decided as in one call. Between calls p may change: the draw of a batch that has begun stays, a new p
applies from the next batch on. With p = 0 nothing is dropped from the very next window, and the debt is cancelled:
there is nothing to shed any more.

**Gaps.** ``decide`` does not see rows: it counts gaps on the time line, in window numbers, because windows may have
to be decided ahead of time. A window that opens and has no rows delivers nothing, so on a stream with empty windows
more than B of the existing results may be missing in a row. Where all rows are available, ``decide_filled`` receives
the windows that have results. It skips the others, and a window ends a gap only if it has a result for every leaf.

======  =================================================================
symbol  meaning
======  =================================================================
p       ``drop_probability``
B       ``max_gap``, in windows of the drop; also the windows that share a draw, unless ``batch`` is given
run     windows dropped in a row up to now
owed    windows opened although the draw said drop, not compensated yet
======  =================================================================

>>> drops = DropConfig(max_gap=2, salt=7).build()
>>> drops.decide(0, 12, 0.5)
[False, False, True, True, True, True, True, True, False, False, True, False]
>>> drops.snapshot()
{'kind': 'window_drop', 'version': 1, 'next': 12, 'run': 1, 'owed': 1, 'dropping': 1}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.checks import require_number, require_whole
from spillway.core.random import mix, threshold
from spillway.core.state.records import from_snapshot, to_snapshot
from spillway.errors import SpillwayError, invalid

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_FAR = 1_000_000  # windows; over a longer gap in the data windows are not decided one by one


@dataclass(frozen=True, kw_only=True)
class DropConfig:
    """The bound on the gap, in windows of the drop, and the draws: salt, windows per draw, even or not."""

    max_gap: int
    salt: int = 0
    batch: int | None = None
    even: bool = False

    def __post_init__(self) -> None:
        require_whole("max_gap", self.max_gap, 1, 10**9)
        require_whole("salt", self.salt, -(2**63), 2**63 - 1)
        if self.batch is not None:
            require_whole("batch", self.batch, 1, self.max_gap)

    @property
    def most(self) -> float:
        """The largest drop probability that the bound allows, B / (B + 1)."""
        return self.max_gap / (self.max_gap + 1)

    @property
    def together(self) -> int:
        """How many windows share a draw."""
        return self.batch or self.max_gap

    def coin(self, batch: int) -> int:
        """Return the draw of a batch, a number to compare with a threshold."""
        if not self.even:
            return mix(self.salt, batch)
        return (mix(self.salt) + batch * _GOLDEN + 2**63) % 2**64 - 2**63

    def build(self, state: Mapping[str, Any] | None = None) -> Drops:
        """Return a new ``Drops``, or one restored from a snapshot."""
        return Drops(self, state)


@dataclass
class DropState:
    """The next window to decide, the run and the debt before it, and the draw of its batch.

    Before the first window ``next`` is None. ``dropping`` is 1 or 0, and None if the batch has not begun.
    """

    next: int | None = None
    run: int = 0
    owed: int = 0
    dropping: int | None = None


class Drops:
    """Decides windows in the order of their numbers, once each."""

    kind = "window_drop"
    version = 1

    def __init__(self, config: DropConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            DropState()
            if state is None
            else from_snapshot(DropState, state, kind=self.kind, version=self.version)
        )
        if not 0 <= self.state.run <= config.max_gap:
            raise invalid("state.run", self.state.run, f"0 to max_gap = {config.max_gap}")
        if self.state.owed < 0:
            raise invalid("state.owed", self.state.owed, "0 or more")

    def decide(self, first: int, last: int, drop_probability: float) -> list[bool]:
        """Return whether each window from ``first`` up to but without ``last`` is kept.

        Windows between the last decided one and ``first`` are decided as well. A window that has been decided
        cannot be requested again: store the answer.
        """
        require_number("drop_probability", drop_probability, 0.0, 1.0)
        state = self.state
        if state.next is None or first - state.next > _FAR:
            state.next, state.dropping = first, None
        self._require_new(first)
        skipped = first - state.next
        limit = threshold(min(drop_probability, self.config.most))
        return [self._kept(drop_probability, limit) for _ in range(last - state.next)][skipped:]

    def decide_filled(self, filled: Mapping[int, bool], drop_probability: float) -> dict[int, bool]:
        """Return whether each window that has results is kept; ``filled`` says which of them end a gap.

        >>> drops = DropConfig(max_gap=1, salt=3).build()
        >>> drops.decide_filled({0: True, 2: True, 4: False, 7: True}, 1.0)
        {0: False, 2: True, 4: False, 7: True}
        """
        require_number("drop_probability", drop_probability, 0.0, 1.0)
        state, together = self.state, self.config.together
        limit = threshold(min(drop_probability, self.config.most))
        kept = {}
        for window in sorted(filled):
            self._require_new(window)
            if state.next is not None and (state.next - 1) // together != window // together:
                state.dropping = None
            state.next = window
            kept[window] = self._kept(drop_probability, limit, ends=filled[window])
        return kept

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)

    def _require_new(self, window: int) -> None:
        if self.state.next is not None and window < self.state.next:
            raise SpillwayError(
                f"window {window} has been decided: the next one is {self.state.next}.",
                hint="keep the answers of decide(), or go on from a snapshot made before",
            )

    def _kept(self, p: float, limit: int, ends: bool = True) -> bool:
        state, B = self.state, self.config.max_gap
        assert state.next is not None
        batch, at = divmod(state.next, self.config.together)
        state.next += 1
        if p == 0.0:
            state.run = state.owed = state.dropping = 0
            return True
        if at == 0 or state.dropping is None:
            state.dropping = int(self.config.coin(batch) <= limit)
        if state.dropping and state.run == B:
            state.owed += 1
        elif state.dropping or (state.owed and state.run < B):
            state.owed -= not state.dropping
            state.run += 1
            return False
        if ends:
            state.run = 0
        return True


class DropLog:
    """Stores decisions for several readers: groups whose windows come at different moments, or a replay.

    >>> log = DropLog(DropConfig(max_gap=2, salt=7).build())
    >>> [log.kept(window, 0.5) for window in (0, 3, 2, 1)]
    [False, True, True, False]
    """

    def __init__(self, drops: Drops | None = None, decided: Mapping[int, bool] | None = None) -> None:
        self._drops = drops
        self._decided = dict(decided or {})

    def kept(self, window: int, drop_probability: float) -> bool:
        """Return whether a window is kept; decide it and those before it if necessary.

        Without ``drops`` the windows that are not in the log are dropped.
        """
        if window not in self._decided and self._drops is not None:
            first = self._drops.state.next
            first = window if first is None else min(first, window)
            self._decided.update(
                enumerate(self._drops.decide(first, window + 1, drop_probability), start=first)
            )
        return self._decided.get(window, False)
