"""``spillway demo``: a burst on this machine, without and with Spillway, watched live and told in a page of plots."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.durations import seconds

if TYPE_CHECKING:
    from spillway.bench.burst import Burst, BurstPlan
    from spillway.bench.capacity import Capacity
    from spillway.bench.drive import Live as Moment

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    parser = commands.add_parser(
        "demo",
        help="watch a real Spark query take a burst of five times its capacity",
        description="Measure what this machine can do, play a burst of five times that through a real Spark query, "
        "first without and then with Spillway, and write a page of plots. Takes about three minutes.",
    )
    parser.add_argument(
        "--target", default="3 seconds", metavar="DURATION", help="the latency target (3 seconds)"
    )
    parser.add_argument("--quick", action="store_true", help="a shorter burst, about a minute and a half")
    parser.add_argument(
        "--out", type=Path, default=Path("spillway-demo"), metavar="DIR", help="where the report goes"
    )
    parser.add_argument("--open", action="store_true", help="open the report in the browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demo."""
    from rich.console import Console

    from spillway.bench import burst as bursts
    from spillway.report import write_report

    plan = plan_for(seconds("target", options.target), quick=options.quick)
    console = Console()
    with View(console, plan) as view:
        burst = bursts.run(
            plan, ("plain", "spillway"), tell=view.tell, watch=view.watch, measured=view.measured
        )
    path = write_report(burst, options.out)
    show(console, burst)
    console.print(f"report: {path.absolute().as_uri()}", highlight=False, soft_wrap=True)
    if options.open:
        webbrowser.open(path.absolute().as_uri())
    return 0


def plan_for(target_s: float, *, quick: bool) -> BurstPlan:
    """Return what is played: under four minutes in all on two cores."""
    from spillway.bench.burst import BurstPlan

    if quick:
        return BurstPlan(
            target_s=target_s, lead_s=3, calm_s=3, burst_s=10, after_s=4, patience_s=1,
            blocks=1, batches_per_block=3, warm_up_batches=8,
        )  # fmt: skip
    return BurstPlan(
        target_s=target_s, lead_s=6, calm_s=8, burst_s=20, after_s=8, patience_s=3,
        blocks=2, batches_per_block=3, warm_up_batches=20,
    )  # fmt: skip


class View:
    """What the terminal shows while the demo runs; one line per step where nobody watches."""

    def __init__(self, console: Any, plan: BurstPlan) -> None:
        from rich.live import Live

        self._console = console
        self._plan = plan
        self._capacity: Capacity | None = None
        self._what = ""
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, what: str) -> None:
        """Say what is being done."""
        self._what = what
        if self._live is None:
            self._console.print(what, highlight=False)
        else:
            self._live.update(self._panel([f"[dim]{what} …[/dim]"]))

    def measured(self, capacity: Capacity) -> None:
        """Say what the machine can do."""
        self._capacity = capacity
        self._console.print(
            f"this machine does {capacity.rows_per_s:,.0f} rows/s; the burst brings "
            f"{5 * capacity.rows_per_s:,.0f} rows/s for {self._plan.burst_s:g} s",
            highlight=False,
        )

    def watch(self, moment: Moment) -> None:
        """Show a moment of a run: rates, delay against the target, share kept, and why."""
        if self._live is not None and self._capacity is not None:
            self._live.update(self._panel(self._lines(moment, self._capacity)))

    def _lines(self, moment: Moment, capacity: Capacity) -> list[str]:
        name = "with Spillway" if moment.variant == "spillway" else "without Spillway"
        if moment.now_s < 0 or not moment.batches:
            return [f"[bold]{name}[/bold]", "[dim]starting the query …[/dim]"]
        trace, target = self._plan.trace(capacity.rows_per_s), self._plan.target_s
        delays = [
            batch.ended_s - float(trace.times(batch.first_row, batch.first_row + 1)[0])
            for batch in moment.batches[-_WIDTH:]
        ]
        second = min(max(moment.now_s, 0.0), trace.duration_s)
        rate = int(trace.count(second)) - int(trace.count(max(second - 1.0, 0.0)))
        worst, colour = delays[-1], "red" if delays[-1] > target else "green"
        lines = [
            f"[bold]{name}[/bold]   {self._plan.phase(moment.now_s)}   [dim]{moment.now_s:.0f} of "
            f"{trace.duration_s:.0f} s[/dim]",
            f"arriving  {rate:>10,} rows/s   capacity {capacity.rows_per_s:,.0f}",
            f"delay     [{colour}]{worst:>10.1f} s[/{colour}]        target {target:g} s",
            f"          [{colour}]{sparkline(delays, 4 * target)}[/{colour}]  [dim]top: {4 * target:g} s[/dim]",
        ]
        if moment.status is not None:
            lines.append(f"kept      {moment.status.keep_ratio:>10.0%}")
            lines.append(f"[dim]{moment.status.reason}[/dim]")
        else:
            waiting = int(trace.count(second)) - moment.batches[-1].last_row
            lines.append(f"waiting   {waiting:>10,} rows")
        return lines

    def _panel(self, lines: list[str]) -> Any:
        from rich.panel import Panel

        return Panel("\n".join(lines), title=f"spillway demo: {self._what}", title_align="left", width=100)


def sparkline(values: list[float], top: float) -> str:
    """Return values as a line of little bars.

    >>> sparkline([0.0, 1.0, 2.0, 9.0], 4.0)
    '▁▃▅█'
    """
    return "".join(_BARS[min(int(len(_BARS) * max(value, 0.0) / top), len(_BARS) - 1)] for value in values)


def show(console: Any, burst: Burst) -> None:
    """Print the summary."""
    from rich.table import Table

    from spillway.report import summary

    table = Table("", box=None, pad_edge=False)
    table.add_column("without Spillway", justify="right")
    table.add_column("with Spillway", justify="right")
    for row in summary(burst):
        table.add_row(*row)
    console.print(table, highlight=False)
