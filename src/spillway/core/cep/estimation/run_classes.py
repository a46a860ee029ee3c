"""Learns the cost model from a recorded stretch: classes of runs, what they bring and take (Section V-B).

Each state is handled separately, so that states can be processed in parallel:

1. cluster its runs by gain and cost per time slice (see clusters);
2. learn a tree that predicts the cluster from the attributes in the query's conditions (see classifier);
3. take, per class and slice, the 90th percentile of gain and cost over the runs of the class, or their mean where
   it is larger: if less than a tenth of them bring a match, the percentile would be 0.

Step 3 gives the initial model; from then on it follows the counts of the stream. Because it follows their mean, a
percentile of None, which takes the mean here too, makes the initial model agree with the later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.estimation.classifier import classifier, without_gaps
from spillway.core.cep.estimation.clusters import clustered
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.checks import require_number, require_whole
from spillway.core.random import mix


@dataclass(frozen=True, kw_only=True)
class EstimationConfig:
    """How classes are learned.

    - ``clusters``: how many per state; None leaves it to the gap statistic, up to ``most_clusters``.
    - ``percentile``: of gain and cost within a class; None for the mean.
    - ``largest``: the largest share of a state's runs in one class, where there is a feature to cut by.
    - ``most_classes``: per state. ``most_runs``: how many runs are clustered; of more runs a sample is taken.
    """

    clusters: int | None = 10
    most_clusters: int = 10
    percentile: float | None = 90.0
    largest: float = 1 / 32
    most_classes: int = 32
    most_runs: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clusters is not None:
            require_whole("clusters", self.clusters, 1, 1000)
        require_whole("most_clusters", self.most_clusters, 1, 1000)
        if self.percentile is not None:
            require_number("percentile", self.percentile, 0.0, 100.0)
        require_number("largest", self.largest, 0.0, 1.0, above=True)
        require_whole("most_classes", self.most_classes, 1, 4096)
        require_whole("most_runs", self.most_runs, 10, 10**7)


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a state, or of a kind of event: a tree, and gain and cost by [class, slice]."""

    tree: Tree
    gain: Floats
    cost: Floats


class Recorded(NamedTuple):
    """The recorded data of the runs of a state, or of events: the arguments of ``estimate``."""

    features: Floats
    gain: Floats
    cost: Floats
    config: EstimationConfig
    compared: Sequence[int] = ()
    names: Sequence[int] = ()


def estimate_recorded(recorded: Recorded) -> Classes:
    """Return the classes of recorded runs: ``estimate`` with one argument, for a map."""
    return estimate(*recorded)


def estimate(
    features: Floats,
    gain: Floats,
    cost: Floats,
    config: EstimationConfig,
    compared: Sequence[int] = (),
    names: Sequence[int] = (),
) -> Classes:
    """Return the classes of runs, or events, from their features, gain and cost, with one row each.

    Some features are ``compared`` with future rows, and some are ``names``: identifiers of what a row belongs to.
    """
    slices = gain.shape[1]
    if not len(features):
        return Classes(Tree.single(), np.zeros((1, slices)), np.zeros((1, slices)))
    at = _sample(len(features), config)
    labels = clustered(
        np.hstack([gain[at], cost[at]]), config.clusters, most=config.most_clusters, seed=config.seed
    )
    tree = classifier(
        features[at],
        labels,
        gain=gain[at].sum(axis=1),
        names=names,
        compared=compared,
        largest=config.largest,
        most=config.most_classes,
        seed=config.seed,
    )
    classes = tree.classify(without_gaps(features))
    return Classes(
        tree, *(_typical(table, classes, tree.classes, config.percentile) for table in (gain, cost))
    )


def _sample(rows: int, config: EstimationConfig) -> Ints:
    """Return which rows are clustered: all, or a sample that is spread over the stretch."""
    if rows <= config.most_runs:
        return np.arange(rows)
    start = mix(config.seed, rows) % 1000 / 1000
    places = (np.arange(config.most_runs) + start) * (rows / config.most_runs)
    return np.minimum(places.astype(np.int64), rows - 1)


def _typical(table: Floats, classes: Ints, count: int, percentile: float | None) -> Floats:
    found = np.zeros((count, table.shape[1]))
    for kind in range(count):
        rows = table[classes == kind]
        if len(rows):
            found[kind] = rows.mean(axis=0)
            if percentile is not None:
                found[kind] = np.maximum(found[kind], np.percentile(rows, percentile, axis=0))
    return found
