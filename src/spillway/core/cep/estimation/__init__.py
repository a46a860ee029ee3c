"""Learns what runs bring and take from a recorded stretch of the stream."""

from spillway.core.cep.estimation.model import learn
from spillway.core.cep.estimation.run_classes import Classes, EstimationConfig, estimate

__all__ = ["Classes", "EstimationConfig", "estimate", "learn"]
