"""What to shed: rows of groups, so that every group keeps enough for its answer."""

from spillway.core.groups.aggregates import Aggregate, Quantile, Ratio
from spillway.core.groups.assign import Session, session
from spillway.core.groups.draw import draws
from spillway.core.groups.estimate import estimate
from spillway.core.groups.intervals import Estimates, Prior, Sampled
from spillway.core.groups.oasrs import Oasrs, OasrsConfig
from spillway.core.groups.rates import RULES, Allocation, Rule, allocate
from spillway.core.groups.reservoir import Reservoir, ReservoirConfig
from spillway.core.groups.run import run
from spillway.core.groups.scalar import Accuracy, accuracy_of, rate_needed, rows_needed
from spillway.core.groups.shed import METADATA, shed
from spillway.core.groups.spread import Spread, SpreadConfig, group_keys
from spillway.core.groups.strata import Strata, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.uniform import Method, uniform

__all__ = [
    "METADATA",
    "RULES",
    "Accuracy",
    "Aggregate",
    "Allocation",
    "Estimates",
    "Method",
    "Oasrs",
    "OasrsConfig",
    "Prior",
    "Quantile",
    "Ratio",
    "Reservoir",
    "ReservoirConfig",
    "Rule",
    "Sampled",
    "Session",
    "Spread",
    "SpreadConfig",
    "Strata",
    "accuracy_of",
    "allocate",
    "draws",
    "estimate",
    "group_keys",
    "rate_needed",
    "rows_needed",
    "run",
    "session",
    "shed",
    "strata_of",
    "stratified",
    "uniform",
]
