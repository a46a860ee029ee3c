"""``spillway bench groups``: the concept-driven paper's figures, and what a stratified sample is worth.

For each data set NAME, at 98 % shedding and the same number of processed rows for all methods (see
:mod:`~benchmarks.groups.methods` for what that is where a row a group is more than 2 %):

=============================================== ==================================================================
metric                                          meaning
=============================================== ==================================================================
``error.uniform_over_cod.NAME``                 uniform's mean relative error over that of concept-driven shedding
``error.oasrs_over_cod.NAME``                   the same of reservoirs of one size for all groups
``missing_groups.cod.NAME``                     groups without a row, mean over windows
``data_for_same_error.uniform_over_cod.NAME``   rows that uniform processes to have cod's error, over cod's rows
``coverage95.NAME``                             share of the 95 % intervals that contain the truth, over all groups
``processed.cod.NAME``                          share of the rows that all methods processed, 0.02 or a row a group
``accuracy_met.packets``                        share of windows within "1 % at 95 %" by the scalar rule
``p95_latency.plain_over_cod``                  95th percentile of the time of a window on Spark, 97 % shed
``stream.….NAME``, ``batch.….NAME``             errors and coverage on Spark (:mod:`~benchmarks.groups.streamed`)
``shed_cost.cod_over_uniform``                  time of the window operator for a row, on ``debs``, both designs
``shed_cost.cod_over_uniform.reservoir``        the same with a reservoir of rows for each open window (``pilot``)
=============================================== ==================================================================

The data sets are those of :mod:`spillway.replay.recorded` and ``debs``, which is made up. One that is absent is named
in the configuration, and has no metrics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.groups import on_spark as spark
from benchmarks.groups import streamed
from benchmarks.groups.accuracy import KEEP_RATIO, LIMIT, Compared, compared, figure_9
from benchmarks.groups.cost import KEEP_RATIO_7, KEEP_RATIO_8, WORKERS, Cost, alternating, figure_7, figure_8
from benchmarks.groups.drift import figure_2
from benchmarks.groups.operator_clock import feed
from benchmarks.groups.scalar_rule import ACCURACIES, Met, met
from benchmarks.groups.volume import MORE_SHARES, PAPER_SHARES, Volume, figure_10, volume
from benchmarks.groups.windows import Limits, Stream, windows_of
from benchmarks.results import Figure, Results, commit_id
from benchmarks.suites import Request
from spillway.demo.local_session import check_java
from spillway.errors import SpillwayError
from spillway.replay.loaders import data_dir
from spillway.replay.recorded import SOURCES, DataSet, recorded
from spillway.replay.rides import rides


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is done: seconds of rides, windows per data set, salts, and streams, rows and passes on the clock.

    A stream has ``salts``, or as many up to ``most_salts`` as it takes to have so many ``answers`` of groups.
    """

    rides_s: float
    limits: Limits
    salts: int
    most_salts: int
    answers: int
    curve_salts: int
    more_shares: tuple[float, ...]
    timed: tuple[str, ...]
    timed_rows: int
    timed_windows: int
    repeats: int

    def salts_of(self, stream: Stream) -> range:
        """Return the salts for a stream: more where its windows have few groups, whose errors say little."""
        answers = sum(len(window.groups) for window in stream.windows)
        return range(min(max(self.salts, -(-self.answers // answers)), self.most_salts))

    def curve_salts_of(self, stream: Stream) -> range:
        """Return the salts for curves and for other rules: a quarter of them, as these have many points."""
        return range(max(self.curve_salts, len(self.salts_of(stream)) // 4))


FULL = Plan(
    rides_s=10_800,
    limits=Limits(rows=4_000_000),
    salts=6,
    most_salts=48,
    answers=4_000,
    curve_salts=2,
    more_shares=MORE_SHARES,
    timed=("packets", "google_class", "debs"),  # for the paper's DEC, GCM and DEBS
    timed_rows=200_000,
    timed_windows=5,
    repeats=3,
)
QUICK = Plan(
    rides_s=5_400,
    limits=Limits(rows=500_000, windows=40),
    salts=2,
    most_salts=24,
    answers=440,
    curve_salts=1,
    more_shares=(0.75, 0.95),
    timed=("packets", "debs"),
    timed_rows=20_000,
    timed_windows=2,
    repeats=3,
)


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    plan = QUICK if request.quick else FULL
    request.tell("data sets", 0, 1)
    data, absent = data_sets(plan)
    streams, limit_stream = cut(data, plan, absent)
    names = [stream.name for stream in streams]
    steps = [
        *(f"errors on {name}" for name in names),
        *(f"data for the same error on {name}" for name in names),
    ]
    steps += [
        "errors on " + LIMIT,
        "accuracy rule",
        "window times by workers",
        "window times",
        "figures",
        "Spark",
        "errors on Spark",
    ]

    def tell(step: str) -> None:
        request.tell(step, steps.index(step), len(steps))

    curve_salts = range(plan.curve_salts)
    errors: dict[str, Compared] = {}
    volumes: dict[str, Volume] = {}
    for stream in streams:
        tell(f"errors on {stream.name}")
        errors[stream.name] = compared(
            stream, salts=plan.salts_of(stream), rule_salts=plan.curve_salts_of(stream)
        )
    for stream in streams:
        tell(f"data for the same error on {stream.name}")
        volumes[stream.name] = volume(stream, salts=plan.curve_salts_of(stream), more=plan.more_shares)
    tell("errors on " + LIMIT)
    limit = (
        compared(limit_stream, salts=curve_salts, rule_salts=curve_salts)
        if limit_stream is not None
        else None
    )
    tell("accuracy rule")
    scalars = [stream for stream in streams if stream.data.scalar]
    accuracies = [
        met(stream, asked, salts=plan.salts_of(stream)) for stream in scalars for asked in ACCURACIES
    ]
    tell("window times by workers")
    by_number = workers(data, plan)
    tell("window times")
    costs = timed(data, plan)
    tell("figures")
    figures: dict[str, Figure] = {
        "2": figure_2(streams, request.out),
        "7": figure_7(by_number, request.out, stream=_scaled(data)),
        "8": figure_8(costs, request.out),
        "9": figure_9(errors, limit, accuracies, request.out),
        "10": figure_10(volumes, request.out),
    }
    latency = on_spark(request, len(steps) - 2, len(steps))
    if not isinstance(latency, str):
        figures["spark"] = spark.figure_of(spark.QUICK if request.quick else spark.FULL, latency)
    played = {}
    if not request.quick and not isinstance(latency, str):
        played = streamed.measure(data, lambda what: request.tell(what, len(steps) - 1, len(steps)))
        figures["streamed"] = streamed.figure_of(played)
    request.tell("done", len(steps), len(steps))
    return Results(
        suite="groups",
        metrics={
            **metrics(errors, volumes, accuracies, costs["debs"]),
            **({} if isinstance(latency, str) else spark.metrics(latency)),
            **streamed.metrics(played),
        },
        figures=figures,
        config={
            **_config(request.quick, plan, streams, absent),
            "spark": latency if isinstance(latency, str) else "measured",
        },
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )


def data_sets(plan: Plan) -> tuple[dict[str, DataSet], dict[str, str]]:
    """Return the data sets that are there, and why others are not."""
    found: dict[str, DataSet] = {}
    absent: dict[str, str] = {}
    for name in SOURCES:
        try:
            found[name] = recorded(name)
        except SpillwayError as error:
            absent[name] = str(error)
    found["debs"] = rides(duration_s=plan.rides_s)
    return found, absent


def cut(data: dict[str, DataSet], plan: Plan, absent: dict[str, str]) -> tuple[list[Stream], Stream | None]:
    """Return the data sets cut into windows, and the one that shows the limit; note what has no window."""
    streams: dict[str, Stream] = {}
    for name, each in list(data.items()):
        try:
            streams[name] = windows_of(each, plan.limits)
        except SpillwayError as error:
            absent[name] = str(error)
            del data[name]
    limit = streams.pop(LIMIT, None)
    return list(streams.values()), limit


def workers(data: dict[str, DataSet], plan: Plan) -> dict[int, Cost]:
    """Time windows with one worker and with several."""
    given = feed(data[_scaled(data)], rows=plan.timed_rows, windows=plan.timed_windows)
    return {
        n: alternating(given, keep_ratio=KEEP_RATIO_7, repeats=plan.repeats, workers=n, designs=["single"])
        for n in WORKERS
    }


def timed(data: dict[str, DataSet], plan: Plan) -> dict[str, Cost]:
    """Time windows of the streams of Figure 8."""
    found = {}
    for name in plan.timed:
        if name in data:
            given = feed(data[name], rows=plan.timed_rows, windows=plan.timed_windows)
            found[name] = alternating(
                given, keep_ratio=KEEP_RATIO_8, repeats=plan.repeats, reservoir=name == "debs"
            )
    return found


def metrics(
    errors: dict[str, Compared], volumes: dict[str, Volume], accuracies: list[Met], cost: Cost
) -> dict[str, float]:
    """Return the metrics of the module's table."""
    found: dict[str, float] = {}
    for name, each in errors.items():
        found[f"error.uniform_over_cod.{name}"] = each.uniform_over_cod
        found[f"error.oasrs_over_cod.{name}"] = each.oasrs_over_cod
        found[f"missing_groups.cod.{name}"] = each.methods.cod.missing_groups
        found[f"data_for_same_error.uniform_over_cod.{name}"] = volumes[name].times_the_data
        found[f"coverage95.{name}"] = each.methods.coverage.share
        found[f"processed.cod.{name}"] = each.methods.cod.kept_share
    for each_met in accuracies[:1]:
        found["accuracy_met.packets"] = each_met.share
    found["shed_cost.cod_over_uniform"] = cost.cod_over_uniform
    found["shed_cost.cod_over_uniform.reservoir"] = cost.reservoir_over_uniform
    return found


def on_spark(request: Request, done: int, total: int) -> dict[str, spark.Latency] | str:
    """Time windows on real Spark, or say why that cannot be."""
    try:
        check_java()
    except SpillwayError as error:
        return f"absent: {error}"
    plan = spark.QUICK if request.quick else spark.FULL
    return spark.measure(plan, lambda what: request.tell(what, done, total))


def _scaled(data: dict[str, DataSet]) -> str:
    return "packets" if "packets" in data else "debs"


def _config(quick: bool, plan: Plan, streams: list[Stream], absent: dict[str, str]) -> dict[str, Any]:
    recorded_ = [stream for stream in streams if stream.name != "debs"]
    return {
        "quick": quick,
        "keep_ratio": KEEP_RATIO,
        "keep_ratio_window_times": {"figure 7": KEEP_RATIO_7, "figure 8": KEEP_RATIO_8},
        "shares": sorted({*PAPER_SHARES, *plan.more_shares}),
        "rule": "variance",
        "salts": {stream.name: len(plan.salts_of(stream)) for stream in streams},
        "recorded": f"{len(recorded_)} data sets" if recorded_ else _absent(),
        "unusable_files": absent,
        "streams": {
            stream.name: {
                "query": stream.data.query,
                "spans": len(stream.spans),
                "windows": len(stream.windows),
                "rows_per_window": sum(window.rows for window in stream.windows) / len(stream.windows),
                "groups_per_window": sum(len(window.groups) for window in stream.windows)
                / len(stream.windows),
            }
            for stream in streams
        },
    }


def _absent() -> str:
    where = "no data folder" if data_dir() is None else "no data set in the data folder"
    return f"absent: {where}; set SPILLWAY_DATA to include recorded streams"
