"""Checks how a pattern sheds: a name or a ``Shed``, which stays the same for the life of a checkpoint.

``spillway.core.cep.Shed`` says for a table in memory how to shed, and to which bound. On Spark the bound is the
budget that the controller gives each batch, so only the fields that say *how* to shed are used:

=============  ===========================================================================================
field          meaning
=============  ===========================================================================================
strategy       what is shed: partial matches, rows, or both
select         how the shedding set is chosen
resource       Ω, the cost of examining a partial match
slices         number of time slices of a window; the value of a partial match may differ between them
clusters       number of classes of partial matches that are distinguished in each state
delay_events   number of rows that have to pass before partial matches are shed again
=============  ===========================================================================================

Any other field that differs from its default is refused, and the error says which option replaces it.

**Fixed choice.** The values that a strategy has learned are part of the state of a shard, and a batch that is run
again has to shed in the same way. So the choice is stored at the first start, and another choice on the same
checkpoint is refused.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from spillway.core.cep.shed import Shed
from spillway.core.cep.shedding.simulation import StrategyName
from spillway.errors import invalid, unknown
from spillway.loop.checkpoint_store import Folder

_BUDGET = "its default: on Spark the bound is the budget of a batch"
_ELSEWHERE = {
    "history": ("None", "give it to match(history=...)"),
    "bound_s": (_BUDGET, "Spillway(target_delay=...) says how long a row may take"),
    "bound_ratio": (_BUDGET, "Spillway(target_delay=...) says how long a row may take"),
    "over": (_BUDGET, "leave it out: the latency of matches by themselves has no bound on Spark"),
    "percentile": (_BUDGET, "leave it out: history() tells the delays of rows"),
    "smooth_events": (_BUDGET, "leave it out"),
    "check_events": ("its default: on Spark a batch is cut into pieces by its budget", "leave it out"),
    "index": ("its default", "give it to match(index=...)"),
    "unit_s": ("its default: on Spark a unit is priced by the time that it takes", "leave it out"),
    "salt": ("its default: on Spark the name of the Spillway is the salt", "leave it out"),
}


@dataclass(frozen=True)
class SheddingSpec:
    """How shards shed. Picklable, because it is sent to the task."""

    strategy: str = "hybrid"
    select: Any = "split"
    resource: Any = "none"
    slices: int = 4
    clusters: int | None = 10
    delay_events: int = 0

    @property
    def learns(self) -> bool:
        """Whether the strategy needs learned values."""
        return self.strategy != "none"


def spec_of(shedding: Any) -> SheddingSpec:
    """Return how shards shed: None, a name, or a ``Shed`` without a bound.

    >>> spec_of(None).strategy, spec_of("state").strategy
    ('none', 'state')
    """
    if isinstance(shedding, Shed):
        return _of_shed(shedding)
    if shedding is Shed:
        raise invalid("shedding", "Shed", "a Shed, not the class", hint="write Shed() with its options")
    strategy = "none" if shedding is None else shedding
    if strategy not in get_args(StrategyName):
        raise unknown("shedding", shedding, get_args(StrategyName))
    return SheddingSpec(strategy)


def _of_shed(shed: Shed) -> SheddingSpec:
    taken = [field.name for field in fields(SheddingSpec)]
    for field in fields(Shed):
        value = getattr(shed, field.name)
        if field.name not in taken and (
            value is not None if field.default is None else value != field.default
        ):
            allowed, hint = _ELSEWHERE.get(
                field.name, ("its default: on Spark it has no meaning", "leave it out")
            )
            told = type(value).__name__ if field.name == "history" else value
            raise invalid(f"shedding, {field.name}", told, allowed, hint=hint)
    return SheddingSpec(**{name: getattr(shed, name) for name in taken})


def keep_choice(folder: Folder, stage: int, spec: SheddingSpec) -> None:
    """Store how a stage sheds, or refuse if the checkpoint began with another choice.

    A checkpoint with a layout but no choice is older than this rule: its choice is not known, so any is accepted.
    """
    name = f"joins/{stage}.shedding.json"
    if folder.read(name) is None and folder.read(f"joins/{stage}.json") is not None:
        return
    folder.write_once(name, json.dumps(asdict(spec)))
    kept = {**asdict(SheddingSpec()), **json.loads(folder.read(name) or "{}")}
    for field, value in json.loads(json.dumps(asdict(spec))).items():
        if value != kept[field]:
            strategy = field == "strategy"
            here, there = (None if strategy and part == "none" else part for part in (value, kept[field]))
            raise invalid(
                "shedding" if strategy else f"shedding, {field}",
                here,
                f"{there!r}, with which this checkpoint began",
                hint="go on with that, or start with a new checkpoint",
            )
