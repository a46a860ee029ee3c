"""What to shed: events and partial matches of a pattern, where they cost most and bring least."""

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.operator import Patterns, Size, Work
from spillway.core.cep.run import run

__all__ = ["PatternConfig", "Patterns", "Size", "Work", "run"]
