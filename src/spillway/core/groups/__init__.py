"""Selects which rows of groups to shed, so that every group keeps enough rows for its answer."""

from spillway.core.groups.accuracy import Accuracy, accuracy_of, rate_needed, rows_needed
from spillway.core.groups.aggregates import Aggregate, Quantile, Ratio
from spillway.core.groups.estimate import estimate
from spillway.core.groups.even_sample import evenly
from spillway.core.groups.intervals import Estimates, Prior, Sampled
from spillway.core.groups.join_allocation import (
    JOIN_RULES,
    JoinAllocation,
    JoinRule,
    allocate_join,
    shed_join,
)
from spillway.core.groups.paper.buffers import Buffering, Work
from spillway.core.groups.paper.concepts import (
    Concept,
    Drift,
    Frequencies,
    Moments,
    Sides,
    distance,
    drift,
    overlap,
    result_distance,
    result_drift,
    result_overlap,
    top,
)
from spillway.core.groups.paper.oasrs import Oasrs, OasrsConfig
from spillway.core.groups.paper.reservoir import Reservoir, ReservoirConfig
from spillway.core.groups.paper.uniform import Method, uniform
from spillway.core.groups.paper.window_operator import Fired, OperatorConfig, WindowOperator
from spillway.core.groups.paper.window_shedders import Kept
from spillway.core.groups.pilot import pilot_spread
from spillway.core.groups.random_order import Draw, draws
from spillway.core.groups.rates import RULES, Allocation, Rule, allocate
from spillway.core.groups.run import run
from spillway.core.groups.shed import METADATA, shed
from spillway.core.groups.spread import Spread, SpreadConfig, group_keys
from spillway.core.groups.strata import Strata, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.window_assignment import Session, session

__all__ = [
    "JOIN_RULES",
    "METADATA",
    "RULES",
    "Accuracy",
    "Aggregate",
    "Allocation",
    "Buffering",
    "Concept",
    "Draw",
    "Drift",
    "Estimates",
    "Fired",
    "Frequencies",
    "JoinAllocation",
    "JoinRule",
    "Kept",
    "Method",
    "Moments",
    "Oasrs",
    "OasrsConfig",
    "OperatorConfig",
    "Prior",
    "Quantile",
    "Ratio",
    "Reservoir",
    "ReservoirConfig",
    "Rule",
    "Sampled",
    "Session",
    "Sides",
    "Spread",
    "SpreadConfig",
    "Strata",
    "WindowOperator",
    "Work",
    "accuracy_of",
    "allocate",
    "allocate_join",
    "distance",
    "draws",
    "drift",
    "estimate",
    "evenly",
    "group_keys",
    "overlap",
    "pilot_spread",
    "rate_needed",
    "result_distance",
    "result_drift",
    "result_overlap",
    "rows_needed",
    "run",
    "session",
    "shed",
    "shed_join",
    "strata_of",
    "stratified",
    "top",
    "uniform",
]
