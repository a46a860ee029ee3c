"""Joins of two streams over windows: under overload they skip the comparisons that are least likely to match."""

from spillway.core.join.adaptations import Shedding
from spillway.core.join.config import JoinConfig
from spillway.core.join.operator import Join
from spillway.core.join.predicates import Predicate, equality, inner_product, overlap, subset, superset
from spillway.core.join.run import run
from spillway.core.join.selection.rate import RateConfig
from spillway.core.join.selection.utility import Utility
from spillway.core.join.warm_up import warm_up
from spillway.core.join.work import Work

__all__ = [
    "Join",
    "JoinConfig",
    "Predicate",
    "RateConfig",
    "Shedding",
    "Utility",
    "Work",
    "equality",
    "inner_product",
    "overlap",
    "run",
    "subset",
    "superset",
    "warm_up",
]
