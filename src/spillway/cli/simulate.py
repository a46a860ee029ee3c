"""``spillway simulate``: run controllers over a trace in virtual time and compare what comes out."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.cli import batched_engine

if TYPE_CHECKING:
    from spillway.replay.traces import Arrivals
    from spillway.sim import BatchedEngine, Engine, Metrics, Minimum, Outcome

SHAPES = ("step", "sine", "burst", "pareto")
BEST_ROWS = 1_000_000
"""That the best is looked for with: two seconds instead of a minute, and within half a percent on a quiet machine.
With stalls and bursts the luck of a seed makes more of a difference, some two percent."""


@dataclass(frozen=True, slots=True)
class Best:
    """What ``delivered over best`` is relative to: rows within the target, and of whom."""

    rows: float
    shedder: str

    def share(self, metrics: Metrics) -> float:
        """Return a controller's rows within the target over the best's."""
        return metrics.in_time_rows / max(self.rows, 1.0)


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    parser = commands.add_parser(
        "simulate",
        help="try controllers on a trace in virtual time",
        description="Run one or more controllers over a trace of arrivals in virtual time, without Spark, and "
        "compare delay and loss with each other and with the least possible loss.",
    )
    parser.add_argument(
        "controllers", metavar="CONTROLLER", nargs="*", help="deadline, ctrl, baseline, aurora, none"
    )
    trace = parser.add_argument_group("arrivals")
    trace.add_argument(
        "--trace",
        metavar="TRACE",
        default="burst",
        help="step, sine, burst (half the capacity, five times, half; the default), pareto, or a file: "
        "Parquet with arrival times, JSON with rates",
    )
    trace.add_argument("--rate", type=float, metavar="ROWS/S", help="scale the trace to this mean rate")
    trace.add_argument(
        "--duration", default="120 seconds", metavar="TIME", help="length (default: %(default)s)"
    )
    trace.add_argument(
        "--beta", type=float, default=1.0, help="pareto's bias factor; small is bursty (default: 1)"
    )
    engine = parser.add_argument_group("engine")
    engine.add_argument("--engine", choices=("pipelined", "batched"), default="pipelined")
    engine.add_argument(
        "--cost", metavar="TIME", help="processor time per row (default: 5.26 ms, batched 10 us)"
    )
    engine.add_argument(
        "--varying", action="store_true", help="let the cost vary as in the paper's Figure 14"
    )
    engine.add_argument("--headroom", type=float, default=0.97, help="share of the processor (default: 0.97)")
    engine.add_argument("--schedule", choices=("round_robin", "fifo"), default="round_robin")
    engine.add_argument(
        "--shed", choices=("entry", "queue"), default="entry", help="where rows may be dropped"
    )
    engine.add_argument(
        "--fixed", default="300 ms", metavar="TIME", help="time per batch (default: %(default)s)"
    )
    engine.add_argument("--lag", type=int, default=0, help="periods or batches until a decision takes effect")
    batched_engine.add_options(parser)
    control = parser.add_argument_group("control")
    control.add_argument(
        "--target", default="2 seconds", metavar="TIME", help="target delay (default: %(default)s)"
    )
    control.add_argument(
        "--period", default="1 second", metavar="TIME", help="control period (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the metrics to this file")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw delay and arrivals into this PNG or SVG file"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the simulations, show and write what came out."""
    from rich.console import Console

    from spillway.core.control import make
    from spillway.durations import seconds
    from spillway.report.plots import check_name
    from spillway.sim import least_loss, measure

    if options.plot is not None:
        check_name(options.plot)
    target_s, period_s = seconds("target", options.target), seconds("period", options.period)
    engine = build_engine(options)
    trace = build_trace(options, capacity=engine.headroom / float(engine.cost.array[0]))
    outcomes: dict[str, Outcome] = {}
    for name in options.controllers or ("none", "ctrl", "deadline"):
        extra = {"engine": options.engine} if name == "deadline" else {}
        controller = make(name, target_delay_s=target_s, period_s=period_s, headroom=engine.headroom, **extra)
        outcomes[name] = engine.run(trace, controller, target_s)
    metrics = {name: measure(outcome) for name, outcome in outcomes.items()}
    least = least_loss(trace, engine.cost, target_s, headroom=engine.headroom)
    best = best_of(engine, trace, target_s, least)
    console = Console()
    show(console, metrics, least, best, trace, target_s)
    show_survivors(console, engine, outcomes)
    if options.json is not None:
        write_json(options, metrics, least, best)
    if options.plot is not None:
        draw(options.plot, trace, outcomes, target_s)
    return 0


def build_trace(options: argparse.Namespace, capacity: float) -> Arrivals:
    """Return the trace that the options name; made-up ones are a multiple of the engine's capacity."""
    from spillway.durations import seconds
    from spillway.errors import unknown
    from spillway.replay import generators
    from spillway.replay.loaders import load
    from spillway.replay.traces import Rates

    length = seconds("duration", options.duration)
    trace: Arrivals
    if options.trace == "step":
        trace = generators.step(low=0.1 * capacity, high=1.5 * capacity, at_s=0.1 * length, duration_s=length)
    elif options.trace == "sine":
        trace = generators.sine(low=0.0, high=2.0 * capacity, period_s=length / 4.0, duration_s=length)
    elif options.trace == "burst":
        trace = generators.burst(capacity=capacity, calm_s=length / 3.0, burst_s=length / 3.0)
    elif options.trace == "pareto":
        trace = generators.pareto(
            mean=1.5 * capacity, beta=options.beta, duration_s=length, seed=options.seed
        )
    elif Path(options.trace).is_file():
        path = Path(options.trace)
        trace = Rates.from_json(path.read_bytes()) if path.suffix == ".json" else load(path)
        if options.rate is not None:
            trace = trace.scaled(rate=options.rate)
        return trace.slice(0.0, length)
    else:
        raise unknown("trace", options.trace, (*SHAPES, "a file that exists"))
    return trace if options.rate is None else trace.scaled(rate=options.rate)


def build_engine(options: argparse.Namespace) -> Engine | BatchedEngine:
    """Return the engine that the options describe."""
    from spillway.durations import seconds
    from spillway.replay.costs import PAPER_CAPACITY_ROWS_S, constant, varying
    from spillway.sim import Engine

    batched = options.engine == "batched"
    if not batched:
        batched_engine.refuse(options)
    usual = 10e-6 if batched else 1.0 / PAPER_CAPACITY_ROWS_S
    cost_s = usual if options.cost is None else seconds("cost", options.cost)
    length = seconds("duration", options.duration)
    cost = (
        varying(base_s=cost_s, duration_s=length, seed=options.seed) if options.varying else constant(cost_s)
    )
    if batched:
        return batched_engine.build(options, cost=cost, duration_s=length)
    return Engine(
        cost=cost,
        period_s=seconds("period", options.period),
        headroom=options.headroom,
        schedule=options.schedule,
        shed=options.shed,
        lag_periods=options.lag,
        seed=options.seed,
    )


def best_of(engine: Engine | BatchedEngine, trace: Arrivals, target_s: float, least: Minimum) -> Best:
    """Return the best shedder for an engine: the least possible loss leaves the fixed time of batches out."""
    from spillway.sim import BatchedEngine
    from spillway.sim.best import SHARES, best_delivered, thinned

    if not isinstance(engine, BatchedEngine):
        return Best(least.delivered_rows, "a shedder that knows all arrivals and costs beforehand")
    informed, rows = thinned(replace(engine, estimate=None, lag_batches=0), trace, BEST_ROWS)
    share = best_delivered(informed, rows, target_s) / max(rows.total, 1)
    return Best(
        share * trace.total,
        f"the best of {len(SHARES) + 1} shedders on this engine that know the costs and how slow the machine was in "
        "the batch before. The least possible loss is that of an engine without batches and their fixed time",
    )


def show(
    console: Any, metrics: dict[str, Metrics], least: Minimum, best: Best, trace: Arrivals, target_s: float
) -> None:
    """Print one line per controller."""
    from rich.table import Table

    rate = trace.total / trace.duration_s if trace.duration_s else 0.0
    console.print(
        f"{trace.total:,} rows in {trace.duration_s:,.0f} s ({rate:,.0f}/s), target {target_s:g} s, least "
        f"possible loss {least.loss_ratio:.1%}",
        highlight=False,
    )
    table = Table("controller", box=None, pad_edge=False)
    for column in ("mean delay", "late rows", "violation", "overshoot", "loss", "delivered over best"):
        table.add_column(column, justify="right")
    for name, found in metrics.items():
        table.add_row(
            name,
            f"{found.mean_delay_s:.2f} s",
            f"{found.late_rows:,}",
            f"{found.acc_violation_s:,.0f} s",
            f"{found.overshoot_s:.2f} s",
            f"{found.loss_ratio:.1%}",
            f"{best.share(found):.1%}",
        )
    console.print(table, highlight=False)
    console.print(f"best: {best.shedder}.", highlight=False)


def show_survivors(console: Any, engine: Engine | BatchedEngine, outcomes: dict[str, Outcome]) -> None:
    """Say where the crash that was asked for did not happen."""
    from spillway.sim import BatchedEngine

    if not isinstance(engine, BatchedEngine) or engine.machine.killed_at_s is None:
        return
    killed_at_s = engine.machine.killed_at_s
    for name, outcome in outcomes.items():
        if not batched_engine.was_killed(outcome, killed_at_s):
            console.print(
                f"{name}: not killed, no batch was running at {killed_at_s:g} s",
                style="yellow",
                highlight=False,
            )


def write_json(options: argparse.Namespace, metrics: dict[str, Metrics], least: Minimum, best: Best) -> None:
    """Write what was asked and what came out."""
    import json

    from spillway.report.files import write_atomically

    asked = {
        name: value for name, value in vars(options).items() if isinstance(value, str | int | float | None)
    }
    found = {
        name: {**asdict(values), "delivered_over_best": best.share(values)}
        for name, values in metrics.items()
    }
    content = {
        "options": asked,
        "least_loss_ratio": least.loss_ratio,
        "best": asdict(best),
        "controllers": found,
    }
    write_atomically(options.json, json.dumps(content, indent=2) + "\n")


def draw(path: Path, trace: Arrivals, outcomes: dict[str, Outcome], target_s: float) -> None:
    """Draw arrivals, delays and the share of rows that each controller kept."""
    import numpy as np

    from spillway.report.plots import COLOURS, panels, save_as

    edges = np.linspace(0.0, trace.duration_s, 201)
    middle, width = 0.5 * (edges[:-1] + edges[1:]), edges[1]
    with panels(3, 1, width=8.0, height=2.0) as (figure, (rates, delays, kept)):
        arrived = np.diff(trace.count(edges))
        rates.plot(middle, arrived / width, color=COLOURS["target"])
        rates.set(title="arrivals", ylabel="rows/s", ylim=(0.0, None))
        for name, outcome in outcomes.items():
            ends, y = outcome.delay_series_s(width)
            delays.plot(ends, y, color=COLOURS.get(name), label=name)
            rows = np.histogram(outcome.arrival_s[outcome.delivered], edges)[0]
            share = np.divide(rows, arrived, out=np.full(arrived.size, np.nan), where=arrived > 0)
            kept.plot(middle, np.minimum(share, 1.0), color=COLOURS.get(name), label=name)
        delays.axhline(target_s, color=COLOURS["target"], linewidth=0.8, linestyle="--")
        delays.set(title="mean delay by time of arrival", ylabel="s", ylim=(0.0, None))
        kept.set(title="share kept", xlabel="s", ylim=(0.0, 1.05))
        delays.legend()
        save_as(figure, path)
