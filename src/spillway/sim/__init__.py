"""A virtual-time engine: the control paper's experiments in seconds, without Spark."""

from spillway.sim.batched import BatchedEngine
from spillway.sim.engine import Engine, Shed
from spillway.sim.machine import Machine
from spillway.sim.metrics import Metrics, measure
from spillway.sim.minimum import Minimum, least_loss
from spillway.sim.network import Network, Operator, paper_network, single_operator
from spillway.sim.outcome import Outcome
from spillway.sim.targets import Targets

__all__ = [
    "BatchedEngine",
    "Engine",
    "Machine",
    "Metrics",
    "Minimum",
    "Network",
    "Operator",
    "Outcome",
    "Shed",
    "Targets",
    "least_loss",
    "measure",
    "paper_network",
    "single_operator",
]
