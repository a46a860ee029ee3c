"""``spillway demo``: play a burst through a Spark query without and with Spillway, and write a page about it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillway.demo.burst import Burst
    from spillway.demo.burst_plan import BurstPlan


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    parser = commands.add_parser(
        "demo",
        help="watch a burst on real Spark, without and with Spillway",
        description="Measure what this machine can do with a CPU-heavy query, play five times as much through "
        "it, first without and then with Spillway, and write a page of plots.",
    )
    parser.add_argument("--target", metavar="TIME", help="the delay to hold (default: 3 seconds, quick 2)")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="length of the burst (default: 20, quick up to 12)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="about a minute: shorter in everything, and rougher"
    )
    parser.add_argument(
        "--neighbour",
        type=int,
        nargs="?",
        const=0,
        metavar="SEED",
        help="start a process that uses a core on and off, in a pattern of its own for each seed (default: 0)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("spillway-demo"),
        help="where to write (default: %(default)s)",
    )
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="open the page in a browser at the end",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demo and write what came out."""
    from rich.console import Console

    from spillway.demo.burst_session import run as run_burst
    from spillway.demo.live_view import DemoView
    from spillway.demo.neighbour import comes_and_goes
    from spillway.demo.page import burst_page
    from spillway.demo.page_plots import delay_picture
    from spillway.report.files import write_atomically

    console = Console()
    plan = build_plan(options)
    record = options.out / "burst.json"
    write_atomically(record, "")  # a folder that cannot be written to is found now, not in three minutes
    record.unlink()
    schedule = None if options.neighbour is None else comes_and_goes(options.neighbour, plan.play_s)
    try:
        with DemoView(console, plan) as view:
            burst = run_burst(
                plan,
                ("plain", "spillway"),
                schedule=schedule,
                tell=view.tell,
                watch=view.watch,
                measured=view.measured,
            )
    except KeyboardInterrupt:
        print("Stopped. Spark and its processes have been ended; no report was written.", file=sys.stderr)
        return 130
    page = options.out / "report.html"
    write_atomically(record, burst.to_json())
    write_atomically(options.out / "delay.svg", delay_picture(burst))
    write_atomically(page, burst_page(burst))
    show(console, burst)
    console.print(f"\nreport: {page.resolve()}", highlight=False, soft_wrap=True)
    if options.open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0


def build_plan(options: argparse.Namespace) -> BurstPlan:
    """Return what the options ask for."""
    from dataclasses import replace

    from spillway.demo.burst_plan import DEMO, QUICK
    from spillway.durations import seconds

    plan = QUICK if options.quick else DEMO
    if options.target is not None:
        plan = replace(plan, target_s=seconds("target", options.target))
    if options.seconds is not None:
        plan = replace(plan, burst_s=options.seconds, limit_s=None)
    return plan


def show(console: Any, burst: Burst) -> None:
    """Print what happened."""
    from rich.table import Table

    from spillway.demo.page import speed_warnings, summary, verdict

    console.print(verdict(burst), highlight=False)
    for warning in speed_warnings(burst):
        console.print(f"\n{warning}", style="dark_orange", highlight=False)
    table = Table("", box=None, pad_edge=False)
    for name in ("without Spillway", "with Spillway"):
        table.add_column(name, justify="right")
    for row in summary(burst):
        table.add_row(*row)
    console.print()
    console.print(table, highlight=False)
    console.print(
        f"\n{burst.loss_over_minimum:.2f} × the least loss, "
        f"{burst.delivered_over_best('spillway'):.0%} of what could be delivered in time",
        highlight=False,
    )
