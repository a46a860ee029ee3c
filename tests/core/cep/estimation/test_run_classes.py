"""Clusters, trees and classes: what is there is found, the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.core.cep.estimation.classifier import classifier
from spillway.core.cep.estimation.clusters import clustered, gap_number
from spillway.core.cep.estimation.run_classes import EstimationConfig, estimate
from spillway.core.cep.shedding.draws import draws
from spillway.errors import SpillwayError


def blobs(kinds: int, each: int = 60) -> np.ndarray:
    """Points around a few corners of a square."""
    corners = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 20]], float)[:kinds]
    noise = draws(np.arange(kinds * each * 2), 5).reshape(-1, 2)
    return np.repeat(corners, each, axis=0) + noise


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_the_gap_statistic_finds_how_many_clusters_there_are(kinds: int) -> None:
    assert gap_number(blobs(kinds), 6) == kinds


def test_clusters_are_those_of_the_points_and_the_same_each_time() -> None:
    points = blobs(3)
    labels = clustered(points, None)
    assert np.array_equal(labels, clustered(points, None))
    assert [len(set(labels[n : n + 60])) for n in (0, 60, 120)] == [1, 1, 1]
    assert len(set(labels)) == 3
    assert len(set(clustered(points, 2))) == 2


def test_what_does_not_vary_is_one_cluster() -> None:
    assert set(clustered(np.ones((20, 3)), 10)) == {0}
    assert len(set(clustered(np.repeat([[0.0], [1.0]], 10, axis=0), 10))) == 2


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Runs of SEQ(A a, B b, C c) WHERE a.V + b.V = c.V with c.V at most 10: features, and which of them matter."""
    a, b = np.meshgrid(np.arange(1, 11), np.arange(1, 11))
    features = np.stack([a.ravel(), b.ravel(), (a + b).ravel()], axis=1).astype(float)
    features = np.repeat(features, 20, axis=0)
    return features, features[:, 2] <= 10


def test_a_tree_tells_useful_runs_by_their_attributes() -> None:
    features, useful = pairs()
    kinds = np.where(useful, features[:, 0] % 5, 5).astype(
        np.int64
    )  # the depth is bounded by how many there are
    for columns in ([0, 1], [0, 1, 2]):
        tree = classifier(features[:, columns], kinds)
        classes = tree.classify(features[:, columns])
        mixed = [kind for kind in range(tree.classes) if len(set(useful[classes == kind])) > 1]
        assert np.isin(classes, mixed).mean() <= 0.25


def test_large_leaves_are_cut_where_later_steps_compare() -> None:
    features, useful = pairs()
    tree = classifier(features, useful.astype(np.int64), compared=[2], largest=0.1)
    classes = tree.classify(features)
    sizes = np.bincount(classes) / len(classes)
    single = [kind for kind in range(tree.classes) if len(set(features[classes == kind, 2])) == 1]
    assert all(size <= 0.1 or kind in single for kind, size in enumerate(sizes))
    assert set(tree.feature[tree.feature >= 0]) == {2}
    assert classifier(features, useful.astype(np.int64), compared=[2], largest=0.001, most=8).classes == 8


def test_large_leaves_are_cut_by_what_runs_bring_where_clusters_tell_costs_only() -> None:
    """Gains depend on the second feature; the third is the name of a key, and half of the keys bring most."""
    rows = np.arange(4_000)
    length, value, key = rows % 3, rows // 3 % 10, rows // 500
    features = np.stack([length, value, key], axis=1).astype(float)
    gain = (value > 6) * (rows % 7 % 3) * (1.0 + 9.0 * (key < 4))
    by_length = classifier(features, length.astype(np.int64))
    assert set(by_length.feature[by_length.feature >= 0]) == {0}
    tree = classifier(features, length.astype(np.int64), gain=gain, names=[2])
    assert set(tree.feature[tree.feature >= 0]) == {0, 1}
    kinds = tree.classify(features)
    poor = [kind for kind in range(tree.classes) if not gain[kinds == kind].any()]
    assert np.isin(kinds, poor).mean() == pytest.approx(0.7, abs=0.01)
    noise = np.random.default_rng(1).poisson(0.05, len(rows)).astype(float)
    assert classifier(features, length.astype(np.int64), gain=noise).classes == by_length.classes


def test_classes_have_the_percentiles_of_their_runs() -> None:
    features, useful = pairs()
    n = len(features)
    gain = np.where(useful, np.arange(n) % 10, 0)[:, None].astype(float)
    cost = np.full((n, 1), 5.0)
    for percentile, expected in ((90.0, np.percentile(np.arange(10), 90)), (None, 4.5)):
        config = EstimationConfig(clusters=2, percentile=percentile, largest=1.0)
        found = estimate(features, gain, cost, config, compared=[2])
        kinds = found.tree.classify(features)
        assert found.gain[kinds[~useful], 0].max() == 0.0
        assert found.gain[kinds[useful], 0].mean() == pytest.approx(expected, abs=0.6)
        assert (found.cost == 5.0).all()
        again = estimate(features, gain, cost, config, compared=[2])
        assert np.array_equal(again.gain, found.gain)


def test_many_runs_are_sampled_and_none_give_one_class() -> None:
    features, useful = pairs()
    gain, cost = useful[:, None].astype(float), np.ones((len(useful), 1))
    found = estimate(features, gain, cost, EstimationConfig(clusters=2, most_runs=500))
    assert set(found.gain.ravel()) <= {0.0, 1.0}
    empty = estimate(features[:0], gain[:0], cost[:0], EstimationConfig())
    assert (empty.tree.classes, empty.gain.shape) == (1, (1, 1))


def test_missing_values_have_a_class() -> None:
    features = np.array([[1.0], [np.nan]] * 30)
    tree = classifier(features, np.array([0, 1] * 30))
    assert tree.classify(features[:2]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "wrong", [{"clusters": 0}, {"percentile": 101.0}, {"largest": 0.0}, {"most_classes": 0}]
)
def test_wrong_values_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        EstimationConfig(**wrong)
