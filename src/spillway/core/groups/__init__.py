"""What to shed: rows of groups, so that every group keeps enough for its answer."""

from spillway.core.groups.draw import draws
from spillway.core.groups.oasrs import Oasrs, OasrsConfig
from spillway.core.groups.rates import RULES, Allocation, Rule, allocate
from spillway.core.groups.shed import shed
from spillway.core.groups.spread import Spread, SpreadConfig, group_keys
from spillway.core.groups.strata import Strata, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.uniform import Method, uniform

__all__ = [
    "RULES",
    "Allocation",
    "Method",
    "Oasrs",
    "OasrsConfig",
    "Rule",
    "Spread",
    "SpreadConfig",
    "Strata",
    "allocate",
    "draws",
    "group_keys",
    "shed",
    "strata_of",
    "stratified",
    "uniform",
]
