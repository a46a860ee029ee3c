"""Describes the machine that a benchmark ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def describe(spark: str) -> dict[str, Any]:
    """Return cores, processor, system and versions."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "spark": spark,
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
