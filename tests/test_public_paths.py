"""Names that others call can be imported from where they were promised, wherever they are defined."""

from __future__ import annotations

from importlib import import_module

import pytest

PUBLIC = {
    "spillway": (
        *("Spillway", "SpillwayError", "Status", "__version__", "estimate", "tumbling", "sliding"),
        *("equality", "inner_product", "overlap", "subset", "superset"),
    ),
    "spillway.estimate": (
        *("Shared", "check", "clustered", "count", "joined", "mean", "quantile", "ratio", "sum"),
    ),
    "spillway.core.control": (
        *("CONFIGS", "Controller", "ControllerName", "Decision", "Sample", "make"),
        *("Aurora", "AuroraConfig", "Baseline", "BaselineConfig", "BatchedDeadline", "CostMeter"),
        *("CostMeterConfig", "CostModel", "CostModelConfig", "Costs", "Ctrl", "CtrlConfig", "DeadlineConfig"),
        *("Fixed", "FixedConfig", "Gains", "HeadroomFit", "HeadroomMeter", "HeadroomMeterConfig", "KeepAll"),
        *("NoneConfig", "PeriodChoice", "PipelinedDeadline", "PoleDesign", "UnitCost", "UnitCostConfig"),
        *("capacity_rows_per_s", "choose_period", "compare_headrooms", "delay_of_queue_s", "fit_headroom"),
        *("keep_ratio_at_entry", "queue_of_delay_rows", "shed_from_queue_rows"),
    ),
    "spillway.core.control.model": ("capacity_rows_per_s", "delay_of_queue_s", "queue_of_delay_rows"),
    "spillway.core.tuples": ("GRID", "KEEP_ALL", "Cut", "Ranks", "Values", "apply", "cut_for", "shed"),
    "spillway.core.groups": (
        *("JOIN_RULES", "METADATA", "RULES", "Accuracy", "Aggregate", "Allocation", "Buffering", "Concept"),
        *("Draw", "Drift", "Estimates", "Fired", "Frequencies", "JoinAllocation", "JoinRule", "Kept"),
        *("Method", "Moments", "Oasrs", "OasrsConfig", "OperatorConfig", "Prior", "Quantile", "Ratio"),
        *("Reservoir", "ReservoirConfig", "Rule", "Sampled", "Session", "Sides", "Spread", "SpreadConfig"),
        *("Strata", "WindowOperator", "Work", "accuracy_of", "allocate", "allocate_join", "distance"),
        *("draws", "drift", "estimate", "evenly", "group_keys", "overlap", "pilot_spread", "rate_needed"),
        *("result_distance", "result_drift", "result_overlap", "rows_needed", "run", "session", "shed"),
        *("shed_join", "strata_of", "stratified", "top", "uniform"),
    ),
    "spillway.core.windows": (
        *("Arrangement", "DropConfig", "DropLog", "DropState", "Drops", "FanOut", "Level", "Path"),
        *("Pipeline", "Reach", "Stamp", "Window", "reach", "reach_of", "run", "sliding", "tumbling"),
    ),
    "spillway.core.windows.placement": ("Box", "Query", "load_of", "place"),
    "spillway.core.join": (
        *("Join", "JoinConfig", "Predicate", "RateConfig", "Shedding", "Utility", "Work", "equality"),
        *("inner_product", "overlap", "run", "subset", "superset", "warm_up"),
    ),
    "spillway.core.cep": (
        *("BaselineConfig", "HybridConfig", "PatternConfig", "Patterns", "QueryError", "Shed", "Size"),
        *("TriggerConfig", "WatchConfig", "Work", "check", "may_invent", "parse", "run", "run_with_timeouts"),
    ),
    "spillway.core.cep.config": ("PatternConfig",),
    "spillway.core.cep.estimation": ("learn",),
    "spillway.core.cep.language.listings": ("HOT_PATHS",),
    "spillway.core.cep.shedding": ("TriggerConfig", "WatchConfig", "simulate", "strategy_of"),
    "spillway.core.cep.shedding.draws": ("draws",),
    "spillway.core.control.batch_time": ("best_batch_s",),
    "spillway.errors": ("SpillwayError",),
    "spillway.replay": ("GENERATORS", "Rates", "ReplayOptions", "ReplaySource", "Times", "stream"),
    "spillway.replay.recorded": ("recorded",),
    "spillway.report": ("history_page",),
    "spillway.cli": ("main",),
}
MADE_BY_NAME = ("ctrl", "baseline", "aurora", "deadline", "fixed", "none")
CALLED = ("core.control.make", "core.groups.shed", "core.windows.run", "core.join.run", "core.cep.run")
METHODS = ("tuples", "groups", "windows", "join", "match", "status", "history", "close")


@pytest.mark.parametrize("module", PUBLIC)
def test_names_are_where_they_were_promised(module: str) -> None:
    found = import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("path", CALLED)
def test_what_is_called_is_a_function_and_no_module(path: str) -> None:
    module, _, name = f"spillway.{path}".rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_all_that_modules_name_is_there() -> None:
    for module in PUBLIC:
        found = import_module(module)
        assert [name for name in getattr(found, "__all__", ()) if not hasattr(found, name)] == [], module


@pytest.mark.parametrize("name", MADE_BY_NAME)
def test_controllers_are_made_by_name(name: str) -> None:
    made = import_module("spillway.core.control").make(name, target_delay_s=2.0, period_s=1.0, headroom=0.9)
    assert callable(made.step)


def test_the_facade_has_its_methods() -> None:
    facade = import_module("spillway").Spillway
    assert [name for name in METHODS if not callable(getattr(facade, name, None))] == []
    options = {"checkpoint": None, "controller": "deadline", "arrival": None, "mode": "observe"}
    with facade("rides", target_delay="2 seconds", **options) as shed:
        assert shed.status().problems == ()
