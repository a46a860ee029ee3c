"""Patterns over a stream: under overload the events and runs are shed that cost most and bring least."""

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.engine.work import Size, Work
from spillway.core.cep.language import QueryError, check, parse
from spillway.core.cep.run import run, run_with_timeouts
from spillway.core.cep.shed import Shed
from spillway.core.cep.shedding.baselines import BaselineConfig
from spillway.core.cep.shedding.hybrid import HybridConfig
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.monotonicity import may_invent
from spillway.core.cep.shedding.trigger import TriggerConfig

__all__ = [
    "BaselineConfig",
    "HybridConfig",
    "PatternConfig",
    "Patterns",
    "QueryError",
    "Shed",
    "Size",
    "TriggerConfig",
    "WatchConfig",
    "Work",
    "check",
    "may_invent",
    "parse",
    "run",
    "run_with_timeouts",
]
