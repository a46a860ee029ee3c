"""``spillway bench windows``: the window paper's figures in counted work, and its promises.

=================================== ==========================================================================
metric                              meaning
=================================== ==========================================================================
``subset_violations``               windows delivered with a value that is not the exact one
``gap_violations``                  runs of missing results that are longer than ``max_gap``
``drop_rate.rdrop_over_windrop``    results that a random drop after the aggregates has to drop over those that a
                                    window drop at the input does; geometric mean over the excess loads of Figures
                                    10 and 11 at which both can shed enough
``drop_rate.rdrop_over_windrop.N``  the same in Figure 10 alone, at an excess of N percent
``formula_error``                   mean absolute difference of the drop rates, analysis and simulation
``wrong_results.tuple_drop``        share of windows whose value changes when tuples are dropped at random
``throughput_ratio_p0``             Spark at saturation: throughput with the stage and p = 0 over that without
``delivered_share.``                Spark at twice the load: windows delivered within the target, dropped at the
``windrop_over_postdrop``           input over dropped behind the aggregate
=================================== ==========================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.control.runs import geometric_mean
from benchmarks.results import Figure, Results, commit_id
from benchmarks.suites import Request
from benchmarks.windows import counted_work, parameters, placements
from benchmarks.windows.on_spark import FULL, QUICK, Measured, figure_of, measure
from benchmarks.windows.overhead import table_4
from benchmarks.windows.parameters import figure_12, figure_13
from benchmarks.windows.placements import figure_10, figure_11
from benchmarks.windows.promises import Found, changed_by_tuple_drop, random_cases
from benchmarks.windows.recorded import recorded
from spillway.demo.local_session import check_java
from spillway.errors import SpillwayError
from spillway.replay.loaders import data_dir

CASES = 3_000
CASES_QUICK = 1_000
TUPLE_DROP = 0.2
"""The share that a window drop at the input has to drop at an excess of 25 % (Figures 10 and 12)."""


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    quick, out = request.quick, request.out
    more = 1 if quick else 8
    drawings: dict[str, Callable[[], Figure]] = {
        "10": lambda: figure_10(out, rows=6_000 * more),
        "11": lambda: figure_11(out, rows=4_000 * more),
        "12": lambda: figure_12(out, windows=50 * more),
        "13": lambda: figure_13(out, windows=50 * more),
        "table 4": lambda: table_4(rows=10_000 * more),
    }
    total = len(drawings) + 4
    figures: dict[str, Figure] = {}
    for number, (name, draw) in enumerate(drawings.items()):
        request.tell(name if name.startswith("table") else f"figure {name}", number, total)
        figures[name] = draw()
    request.tell("random cases", len(drawings), total)
    tried = random_cases(CASES_QUICK if quick else CASES, seed=2006)
    request.tell("recorded timestamps", len(drawings) + 1, total)
    files, unusable = recorded(2_000 if quick else 40_000)
    request.tell("random drop of tuples", len(drawings) + 2, total)
    changed = changed_by_tuple_drop(TUPLE_DROP, rows=10_000 * more, seed=1)
    measured = on_spark(request, total - 1, total)
    found = sum(files.values(), tried)
    if isinstance(measured, Measured):
        figures["spark"] = figure_of(QUICK if quick else FULL, measured)
        found = sum(measured.promises.values(), found)
    request.tell("done", total, total)
    return Results(
        suite="windows",
        metrics=metrics(figures, found, changed),
        figures=figures,
        config={
            **_config(quick, tried, files, unusable, changed),
            "spark": measured if isinstance(measured, str) else "measured",
        },
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )


def metrics(figures: Mapping[str, Figure], found: Found, changed: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of the module's table."""
    by_load = [figures[name].numbers["rdrop_over_windrop"] for name in ("10", "11")]
    differences = [
        each for name in ("10", "11", "12", "13") for each in figures[name].numbers["formula_errors"]
    ]
    return {
        "subset_violations": found.subset_violations,
        "gap_violations": found.gap_violations,
        "drop_rate.rdrop_over_windrop": geometric_mean(each for of in by_load for each in of.values()),
        **{
            f"drop_rate.rdrop_over_windrop.{100 * float(load):g}": value for load, value in by_load[0].items()
        },
        "formula_error": sum(differences) / len(differences),
        "wrong_results.tuple_drop": sum(changed.values()) / len(changed),
        **(figures["spark"].numbers["metrics"] if "spark" in figures else {}),
    }


def on_spark(request: Request, done: int, total: int) -> Measured | str:
    """Measure on real Spark, or say why that cannot be."""
    try:
        check_java()
    except SpillwayError as error:
        return f"absent: {error}"
    return measure(QUICK if request.quick else FULL, lambda what: request.tell(what, done, total))


def _config(
    quick: bool,
    tried: Found,
    files: Mapping[str, Found],
    unusable: Mapping[str, str],
    changed: Mapping[str, float],
) -> dict[str, Any]:
    return {
        "quick": quick,
        "max_gap": placements.MAX_GAP,
        "delay_cost": parameters.COST,
        "overhead_cost": counted_work.OVERHEAD,
        "random_cases": asdict(tried),
        "recorded": f"{len(files)} files" if files else _absent(unusable),
        "recorded_cases": {name: asdict(found) for name, found in files.items()},
        "unusable_files": dict(unusable),
        "tuple_drop": {"drop_rate": TUPLE_DROP, "changed": dict(changed)},
    }


def _absent(unusable: Mapping[str, str]) -> str:
    if unusable:
        return "absent: no file in the data folder has times that could be used"
    where = "no data folder" if data_dir() is None else "no Parquet files in the data folder"
    return f"absent: {where}; set SPILLWAY_DATA to include recorded timestamps"
