"""Builds controllers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

from spillway.core.control.aurora import AuroraConfig
from spillway.core.control.base import ControllerConfig
from spillway.core.control.baseline import BaselineConfig
from spillway.core.control.ctrl import CtrlConfig
from spillway.core.control.deadline import DeadlineConfig
from spillway.core.control.fixed import FixedConfig
from spillway.core.control.none import NoneConfig
from spillway.core.control.values import Controller
from spillway.errors import unknown

ControllerName = Literal["ctrl", "baseline", "aurora", "deadline", "fixed", "none"]

CONFIGS: Mapping[str, type[ControllerConfig]] = {
    config.kind: config
    for config in (CtrlConfig, BaselineConfig, AuroraConfig, DeadlineConfig, FixedConfig, NoneConfig)
}


def make(
    name: ControllerName | str,
    *,
    target_delay_s: float,
    period_s: float = 1.0,
    headroom: float = 0.97,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Controller:
    """Build a controller by name: a new one, or one restored from a snapshot.

    ``options`` are the fields of that controller's config; an option that it does not have raises an error.

    >>> make("deadline", target_delay_s=2.0).step
    <bound method PipelinedDeadline.step of ...>
    >>> make("fixed", target_delay_s=2.0, keep_ratoi=0.2)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: fixed option = 'keep_ratoi' is not allowed: ... did you mean 'keep_ratio'?
    """
    if name not in CONFIGS:
        raise unknown("controller", name, CONFIGS)
    config = CONFIGS[name]
    common = {field.name for field in fields(ControllerConfig)}
    known = [field.name for field in fields(config) if field.name not in common]
    for option in options:
        if option not in known:
            raise unknown(f"{name} option", option, known)
    return config(target_delay_s=target_delay_s, period_s=period_s, headroom=headroom, **options).build(state)
