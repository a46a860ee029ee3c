"""Controllers that decide when and how much to shed, their queue model, and the estimators of its parameters."""

from spillway.core.control.actuators import keep_ratio_at_entry, shed_from_queue_rows
from spillway.core.control.aurora import Aurora, AuroraConfig
from spillway.core.control.baseline import Baseline, BaselineConfig
from spillway.core.control.cost_meter import CostMeter, CostMeterConfig
from spillway.core.control.cost_model import CostModel, CostModelConfig, Costs
from spillway.core.control.ctrl import Ctrl, CtrlConfig
from spillway.core.control.deadline import DeadlineConfig
from spillway.core.control.deadline_batched import BatchedDeadline
from spillway.core.control.deadline_pipelined import PipelinedDeadline
from spillway.core.control.fixed import Fixed, FixedConfig
from spillway.core.control.headroom import (
    HeadroomFit,
    HeadroomMeter,
    HeadroomMeterConfig,
    compare_headrooms,
    fit_headroom,
)
from spillway.core.control.model import capacity_rows_per_s, delay_of_queue_s, queue_of_delay_rows
from spillway.core.control.none import KeepAll, NoneConfig
from spillway.core.control.period import PeriodChoice, choose_period
from spillway.core.control.pole_placement import Gains, PoleDesign
from spillway.core.control.registry import CONFIGS, ControllerName, make
from spillway.core.control.unit_cost import UnitCost, UnitCostConfig
from spillway.core.control.values import Controller, Decision, Sample

__all__ = [
    "CONFIGS",
    "Aurora",
    "AuroraConfig",
    "Baseline",
    "BaselineConfig",
    "BatchedDeadline",
    "Controller",
    "ControllerName",
    "CostMeter",
    "CostMeterConfig",
    "CostModel",
    "CostModelConfig",
    "Costs",
    "Ctrl",
    "CtrlConfig",
    "DeadlineConfig",
    "Decision",
    "Fixed",
    "FixedConfig",
    "Gains",
    "HeadroomFit",
    "HeadroomMeter",
    "HeadroomMeterConfig",
    "KeepAll",
    "NoneConfig",
    "PeriodChoice",
    "PipelinedDeadline",
    "PoleDesign",
    "Sample",
    "UnitCost",
    "UnitCostConfig",
    "capacity_rows_per_s",
    "choose_period",
    "compare_headrooms",
    "delay_of_queue_s",
    "fit_headroom",
    "keep_ratio_at_entry",
    "make",
    "queue_of_delay_rows",
    "shed_from_queue_rows",
]
