"""What to shed: events and partial matches of a pattern, where they cost most and bring least."""

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.operator import Patterns
from spillway.core.cep.run import run
from spillway.core.cep.work import Size, Work

__all__ = ["PatternConfig", "Patterns", "Size", "Work", "run"]
