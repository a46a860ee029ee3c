"""When and how much to shed: the queue model, its estimation, and the controllers."""

from spillway.core.control.aurora import Aurora, AuroraConfig
from spillway.core.control.baseline import Baseline, BaselineConfig
from spillway.core.control.ctrl import Ctrl, CtrlConfig
from spillway.core.control.deadline import DeadlineConfig
from spillway.core.control.deadline_batched import BatchedDeadline
from spillway.core.control.deadline_pipelined import PipelinedDeadline
from spillway.core.control.fixed import Fixed, FixedConfig
from spillway.core.control.none import KeepAll, NoneConfig
from spillway.core.control.poles import Gains, PoleDesign
from spillway.core.control.registry import ControllerName, make
from spillway.core.control.values import Controller, Decision, Sample

__all__ = [
    "Aurora",
    "AuroraConfig",
    "Baseline",
    "BaselineConfig",
    "BatchedDeadline",
    "Controller",
    "ControllerName",
    "Ctrl",
    "CtrlConfig",
    "DeadlineConfig",
    "Decision",
    "Fixed",
    "FixedConfig",
    "Gains",
    "KeepAll",
    "NoneConfig",
    "PipelinedDeadline",
    "PoleDesign",
    "Sample",
    "make",
]
