"""Load shedding for patterns: chooses events and runs to shed, by what they bring and what they take."""

from spillway.core.cep.shedding.baselines import BaselineConfig
from spillway.core.cep.shedding.cost_model import CostModel, Counts, resource_costs
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.enforcer import Enforcer
from spillway.core.cep.shedding.event_model import EventModel
from spillway.core.cep.shedding.hybrid import HybridConfig
from spillway.core.cep.shedding.knapsack import exact_set, greedy_set, split_shares
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.monotonicity import may_invent
from spillway.core.cep.shedding.orders import Orders, Seen
from spillway.core.cep.shedding.simulation import Outcome, precision, simulate, strategy_of
from spillway.core.cep.shedding.trigger import TriggerConfig

__all__ = [
    "BaselineConfig",
    "CostModel",
    "Counts",
    "Enforcer",
    "EventModel",
    "HybridConfig",
    "Learned",
    "Orders",
    "Outcome",
    "Seen",
    "Tree",
    "TriggerConfig",
    "WatchConfig",
    "exact_set",
    "greedy_set",
    "may_invent",
    "precision",
    "resource_costs",
    "simulate",
    "split_shares",
    "strategy_of",
]
