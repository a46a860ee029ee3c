"""The arithmetic of what Spillway adds to a batch; no JVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.spark.added_time import added_ms, batch_seconds, measure_added_ms
from spillway.errors import SpillwayError


def test_blocks_are_compared_with_the_one_beside_them() -> None:
    # The machine is twice as slow in the second pair and three times in the third: only neighbours compare.
    plain = [[0.10] * 5, [0.20] * 5, [0.30] * 5]
    spillway = [[0.12] * 5, [0.24] * 5, [0.36] * 5]
    assert added_ms(plain, spillway) == pytest.approx(40.0)


def test_a_slow_batch_and_a_slow_block_do_not_count() -> None:
    plain = [[0.10, 0.10, 5.0], [0.10, 0.10, 0.10], [0.10, 0.10, 0.10]]
    spillway = [[0.12, 0.12, 0.12], [0.12, 9.0, 0.12], [3.0, 3.0, 3.0]]
    assert added_ms(plain, spillway) == pytest.approx(20.0)


def test_every_block_has_a_neighbour() -> None:
    with pytest.raises(ValueError, match="zip"):
        added_ms([[0.1]], [[0.1], [0.1]])


def test_batches_are_timed_from_commit_to_commit_without_the_start(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    commits.mkdir()
    for number, at_s in enumerate([0.0, 7.0, 9.0, 9.25, 9.75]):
        (commits / str(number)).touch()
        os.utime(commits / str(number), (at_s, at_s))
    assert batch_seconds(tmp_path, 2) == [0.25, 0.5]


@pytest.mark.parametrize(("blocks", "batches"), [(0, 10), (1, 0), (1, 91)])
def test_what_cannot_be_measured_is_refused(tmp_path: Path, blocks: int, batches: int) -> None:
    with pytest.raises(SpillwayError, match="is not allowed"):
        measure_added_ms(cast(Any, None), tmp_path, blocks=blocks, batches=batches)
