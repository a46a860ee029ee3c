"""What runs bring and take, learned from a recorded stretch of the stream."""

from spillway.core.cep.estimation.estimate import Classes, EstimationConfig, estimate
from spillway.core.cep.estimation.learn import learn

__all__ = ["Classes", "EstimationConfig", "estimate", "learn"]
