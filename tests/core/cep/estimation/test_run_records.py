"""What recorded runs brought and took, against a slow count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.estimation.run_records import history_of
from spillway.errors import SpillwayError

WITHIN, SLICES = 100, 4
NAMES = ("serial", "state", "parent", "row", "first_us", "at_us", "complete")


def record(rows: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return dict(zip(NAMES, np.array(rows, np.int64).reshape(-1, len(NAMES)).T, strict=True))


def test_a_match_counts_for_all_runs_that_it_was_made_from() -> None:
    #              serial state parent row first at complete
    rows = record(
        [
            (0, 0, -1, 0, 0, 0, 0),
            (1, 1, 0, 1, 0, 30, 0),
            (2, 2, 1, 2, 0, 60, 1),
            (3, 2, 1, 3, 0, 99, 1),
            (4, 0, -1, 4, 200, 200, 0),
        ]
    )
    h = history_of(
        rows, np.zeros((5, 0)), within_us=WITHIN, slices=SLICES, work_per_slice=np.array([1.0, 10.0, 0.0])
    )
    assert h.gain[:2].tolist() == [[0, 0, 1, 1]] * 2
    assert h.cost[1].tolist() == pytest.approx([0, 8, 10, 10]), "made at the age of 1.2 slices"
    assert h.cost[0].tolist() == pytest.approx([1, 9, 11, 11]), "its own and that of its offspring"
    assert h.whole.tolist() == [True, True, False, False, False], "runs whose window has ended"


@st.composite
def records(draw: st.DrawFn) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    serial = 0
    for at in range(0, 300, 20):
        serial += draw(st.integers(1, 3))
        open_runs = [row for row in rows if not row[6] and row[1] < 2 and at - row[4] < WITHIN]
        if open_runs and draw(st.booleans()):
            parent = draw(st.sampled_from(open_runs))
            state = parent[1] + 1
            rows.append((serial, state, parent[0], at, parent[4], at, int(state == 2)))
        else:
            rows.append((serial, 0, -1, at, at, at, 0))
    return rows


@given(records())
def test_gains_and_costs_are_those_of_a_slow_count(rows: list[tuple[int, ...]]) -> None:
    kappa = np.array([1.0, 3.0, 0.0])
    table = record(rows)
    h = history_of(table, np.zeros((len(rows), 1)), within_us=WITHIN, slices=SLICES, work_per_slice=kappa)
    place = {row[0]: n for n, row in enumerate(rows)}
    gain, cost = np.zeros((len(rows), SLICES)), np.zeros((len(rows), SLICES))
    for n, (_, state, _, _, first, at, complete) in enumerate(rows):
        chain = [n]
        while rows[chain[-1]][2] >= 0:
            chain.append(place[rows[chain[-1]][2]])
        for up in chain[1:] if complete else []:
            gain[up, (at - first) * SLICES // WITHIN] += 1
        for z in range(SLICES):
            stay = min(1.0, max(0.0, (z + 1) - (at - first) / WITHIN * SLICES))
            for up in [] if complete else chain:
                cost[up, z] += stay * kappa[state]
    assert np.allclose(h.gain, gain)
    assert np.allclose(h.cost[table["complete"] == 0], cost[table["complete"] == 0])


def test_features_have_to_belong_to_the_record() -> None:
    with pytest.raises(SpillwayError, match="features"):
        history_of(
            record([(0, 0, -1, 0, 0, 0, 0)]),
            np.zeros((2, 1)),
            within_us=1,
            slices=1,
            work_per_slice=np.ones(1),
        )


def test_by_length_a_run_costs_as_often_as_it_has_rows() -> None:
    rows = record(
        [(0, 0, -1, 0, 0, 0, 0), (1, 0, 0, 1, 0, 25, 0), (2, 0, 1, 2, 0, 50, 0), (3, 0, -1, 3, 200, 200, 0)]
    )
    h = history_of(
        rows,
        np.zeros((4, 0)),
        within_us=WITHIN,
        slices=SLICES,
        work_per_slice=np.array([2.0]),
        by_length=True,
    )
    assert h.cost[2].tolist() == [0, 0, 6, 6], "three rows"
    assert h.cost[0].tolist() == [2, 2 + 4, 2 + 4 + 6, 2 + 4 + 6]
