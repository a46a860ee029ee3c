"""The demo while it runs, in the terminal: what arrives, how late rows are, what is kept, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Group
from rich.live import Live as Screen
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from spillway.demo.curves import VARIANT_NAMES

if TYPE_CHECKING:
    from rich.console import Console

    from spillway.demo.burst_plan import BurstPlan
    from spillway.demo.capacity import Capacity
    from spillway.demo.playback import Live
    from spillway.replay.traces import Rates

IN_TIME, LATE, QUIET = "dodger_blue1", "dark_orange", "dim"  # told apart by colour-blind people, too
_LEVELS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


@dataclass
class Track:
    """What was seen of one run: how late the oldest waiting row was in each second of the trace."""

    worst_s: dict[int, float] = field(default_factory=dict)
    now_s: float = -1.0
    kept: float | None = None
    waiting: int = 0
    reason: str = ""
    done: bool = False

    def see(self, live: Live, trace: Rates) -> None:
        """Take in the state of the run."""
        self.now_s = live.now_s
        if live.now_s < 0.0:
            return
        read = live.batches[-1].last_row if live.batches else 0
        arrived = trace.count(min(live.now_s, trace.duration_s))
        self.waiting = max(arrived - read, 0)
        oldest_s = live.now_s - float(trace.times(read, read + 1)[0]) if self.waiting else 0.0
        second = int(live.now_s)
        self.worst_s[second] = max(self.worst_s.get(second, 0.0), oldest_s)
        if live.status is not None:
            self.kept, self.reason = live.status.keep_ratio, live.status.reason


class DemoView:
    """A panel that follows the demo; where the output is no terminal, a line for each step."""

    def __init__(self, console: Console, plan: BurstPlan) -> None:
        self._console = console
        self._plan = plan
        self._began = time.monotonic()
        self._steps: list[str] = []
        self._capacity: Capacity | None = None
        self._trace: Rates | None = None
        self._tracks: dict[str, Track] = {}
        self._screen = Screen(
            get_renderable=self.render,
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._screen.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._screen.stop()

    def tell(self, what: str) -> None:
        """Take note of the next step."""
        self._steps.append(what)
        for track in self._tracks.values():
            track.done = True
        if not self._console.is_terminal:
            self._console.print(f"{self._elapsed()}  {what}", highlight=False)

    def measured(self, plan: BurstPlan, capacity: Capacity) -> None:
        """Take note of what this machine can do, and of what will be played."""
        self._plan, self._capacity = plan, capacity
        self._trace = plan.trace(capacity.rows_per_s)
        if not self._console.is_terminal:
            self._console.print(
                f"{self._elapsed()}  capacity: {capacity.rows_per_s:,.0f} rows/s", highlight=False
            )

    def watch(self, live: Live) -> None:
        """Take in the state of a run."""
        assert self._trace is not None
        self._tracks.setdefault(live.variant, Track()).see(live, self._trace)

    def render(self) -> Panel:
        """Return the panel as it should look now."""
        parts: list[Any] = []
        if self._capacity is not None:
            rate = self._capacity.rows_per_s
            parts.append(
                Text(f"This machine finishes {rate:,.0f} rows a second of the demo's query.", style=QUIET)
            )
        for number, (variant, track) in enumerate(self._tracks.items(), start=1):
            parts += [Text(), self._run(number, VARIANT_NAMES[variant], track)]  # type: ignore[index]
        if not any(not track.done for track in self._tracks.values()):
            parts += [Text(), Spinner("dots", Text(self._steps[-1] if self._steps else "starting"))]
        return Panel(
            Group(*parts),
            title="Spillway demo",
            subtitle=f"{self._elapsed()}   Ctrl-C stops it",
            title_align="left",
            subtitle_align="right",
            border_style=QUIET,
            padding=(1, 2),
        )

    def _run(self, number: int, name: str, track: Track) -> Any:
        head = Text(f"{number}  {name}", style="bold")
        rows: list[Any] = [head]
        if not track.done and self._trace is not None:
            if track.now_s < 0.0:
                return Group(head, Spinner("dots", Text("starting the query")))
            head.append(f"   {self._phase(track)}", style="not bold")
            rows.append(self._gauges(track))
        rows.append(self._history(track))
        if not track.done and track.reason:
            rows.append(Text(f"why   {track.reason}", style=QUIET, overflow="fold"))
        return Group(*rows)

    def _phase(self, track: Track) -> str:
        assert self._trace is not None
        if track.now_s > self._trace.duration_s:
            return "waiting for the rest"
        return f"{self._plan.phase(track.now_s)}, second {track.now_s:.0f} of {self._trace.duration_s:.0f}"

    def _gauges(self, track: Track) -> Table:
        assert self._trace is not None
        assert self._capacity is not None
        target_s, capacity = self._plan.target_s, self._capacity.rows_per_s
        late_s = track.worst_s.get(int(track.now_s), 0.0)
        rate = _rate(self._trace, track.now_s)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=8)
        grid.add_column(justify="right", width=16)
        grid.add_column(width=_BAR_WIDTH)
        grid.add_column()
        grid.add_row(
            "arriving",
            f"{rate:,.0f} rows/s",
            _bar(rate / capacity / 5.0, "white"),
            f"{rate / capacity:.1f} × capacity",
        )
        style = IN_TIME if late_s <= target_s else LATE
        share = late_s / (5.0 * target_s)
        grid.add_row(
            "delay", Text(f"{late_s:.1f} s", style=style), _bar(share, style), f"target {target_s:g} s"
        )
        if track.kept is None:
            grid.add_row("waiting", f"{track.waiting:,} rows")
        else:
            grid.add_row("kept", f"{track.kept:.0%}", _bar(track.kept, IN_TIME))
        return grid

    def _history(self, track: Track) -> Text:
        """Return the delay so far, a character for each second."""
        seconds = sorted(track.worst_s)
        target_s = self._plan.target_s
        top = max(3.0 * target_s, *(track.worst_s[second] for second in seconds)) if seconds else target_s
        line = Text("delay ")
        for second in seconds[-100:]:
            late_s = track.worst_s[second]
            level = _LEVELS[min(int(late_s / top * len(_LEVELS)), len(_LEVELS) - 1)]
            line.append(level, style=IN_TIME if late_s <= target_s else LATE)
        if seconds:
            line.append(f"  worst {max(track.worst_s.values()):.1f} s", style=QUIET)
        return line

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02d}"


def _bar(share: float, style: str) -> Text:
    """Return a bar that is full at 1."""
    filled = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH)
    return Text("━" * filled, style=style).append("─" * (_BAR_WIDTH - filled), style=QUIET)


def _rate(trace: Rates, at_s: float) -> float:
    end_s = 0.0
    for rate, span_s in zip(trace.rates, trace.spans_s, strict=True):
        end_s += span_s
        if at_s < end_s:
            return rate
    return 0.0
