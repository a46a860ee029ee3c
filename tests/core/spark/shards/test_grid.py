"""How a join is shared out: each pair meets once, rows are counted once, and the layout is for good."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from spillway.errors import SpillwayError
from spillway.loop.checkpoint_store import Folder
from spillway.spark.shards.grid import Grid, check_shards, lasting_grid, require_same, sides_of, spread


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 6, 7, 16, 17])
def test_each_pair_meets_in_one_cell_and_each_row_is_counted_in_one(shards: int) -> None:
    left, right = sides_of(shards)
    assert left * right <= shards
    assert shards < 4 or (left * right > shards / 2 and right <= 2 * left)
    grid = Grid(left, right, False, tuple(range(100, 100 + left * right)))
    meetings = Counter(
        key for mine in grid.targets(0) for key in mine for other in grid.targets(1) if key in other
    )
    assert set(meetings) == set(grid.keys)
    for mine in grid.targets(0):
        assert sum(grid.counts(key)[0] for key in mine) == 1
        assert all(len(set(mine) & set(other)) == 1 for other in grid.targets(1))
    for other in grid.targets(1):
        assert sum(grid.counts(key)[1] for key in other) == 1


def test_keys_of_a_hash_are_not_copied() -> None:
    grid = Grid(3, 3, True, (5, 7, 9))
    assert grid.targets(0) == grid.targets(1) == ((5,), (7,), (9,))
    assert grid.counts(7) == (True, True)


def test_keys_are_spread_over_the_places() -> None:
    places = [(key, key // 50) for key in range(200)]
    assert Counter(key // 50 for key in spread(places, 8)) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_what_is_joined_is_for_good(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    require_same(folder, 0, "this")
    require_same(folder, 0, "this")
    require_same(folder, 1, "that")
    with pytest.raises(SpillwayError, match="another join: there it has 'this"):
        require_same(folder, 0, "that")


@pytest.mark.parametrize("shards", [0, 1001, 2.0, True, "two"])
def test_a_number_of_shards(shards: object) -> None:
    with pytest.raises(SpillwayError, match="shards"):
        check_shards(shards)  # type: ignore[arg-type]


def test_another_number_of_shards_than_in_the_checkpoint_is_refused(tmp_path: Path) -> None:
    """Five cells of a grid would be two by two, and so are the sides of two shards of a hash: not the same."""
    folder = Folder(tmp_path)
    folder.write_once("joins/0.json", json.dumps(asdict(Grid(2, 2, True, (10, 11)))))
    for shards in (2, None):
        assert lasting_grid(None, folder, 0, shards, hashed=True).keys == (10, 11)  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match=r"shards = 5 .* 2, as in this checkpoint"):
        lasting_grid(None, folder, 0, 5, hashed=True)  # type: ignore[arg-type]
