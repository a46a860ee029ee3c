"""The measures of the noisy machines: that they can fail, and what the reference scores by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.control import noisy_machines as noisy
from benchmarks.control.plants import Plant, machines, plant
from spillway.core.control import Controller, make
from spillway.sim import Machine


def controller(name: str, **options: float):
    def made(one: Plant) -> Controller:
        return make(name, target_delay_s=one.target_s, **options)

    return made


def test_a_query_that_keeps_everything_fails_by_its_share_within_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noisy, "deadline", controller("none"))
    found = noisy.compare(plant(1), "quiet", Machine())
    assert found.reference_within - found.within > 0.3
    assert found.in_time < 0.7


def test_a_query_that_sheds_without_need_fails_by_idle_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy, "deadline", controller("fixed", keep_ratio=0.9))
    assert noisy._idle_loss(plant(1), trigger_s=5.0)[0] == pytest.approx(0.1, abs=0.01)


def test_a_query_that_keeps_everything_after_a_restart_fails_by_its_share_within_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noisy, "deadline", controller("none"))
    one = plant(1)
    found = noisy.compare(one, "restart", machines(one.seed)["restart"])
    assert found.restart_gap is not None
    assert found.restart_gap > 0.3


def test_a_query_that_sheds_cheap_rows_fails_by_idle_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy, "deadline", controller("fixed", keep_ratio=0.9))
    assert noisy._cheap_rows_loss(plant(1)) == pytest.approx(0.1, abs=0.01)


def test_a_query_that_sheds_too_much_fails_by_the_rows_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy, "deadline", controller("fixed", keep_ratio=0.1))
    one = replace(plant(1), load=2.0)
    assert noisy.compare(one, "quiet", Machine()).kept < 0.3
    assert noisy._over_best(one, 1.5, lag=1)[0] < 0.3


def test_each_kind_of_machine_is_another_one_and_the_same_for_the_same_seed() -> None:
    kinds = machines(7)
    assert len(kinds) == 11
    assert kinds == machines(7)
    assert kinds["every second"] != machines(8)["every second"]
    assert plant(7) == plant(7) != plant(8)


@pytest.mark.parametrize("trigger_s", [2.3, 5.0, 10.0])
@pytest.mark.parametrize("load", [1.5, 3.0])
def test_an_overload_is_bounded_however_long_the_trigger_is(trigger_s: float, load: float) -> None:
    """Where no shedding meets the target the delay still does not grow as long as the overload lasts."""
    one = Plant(target_s=3.0, fixed_s=0.3, cost_s=100e-6, skip_s=2e-6, noise=0.05, load=load, seed=3)
    engine = one.engine(Machine(), estimate=True, trigger_s=trigger_s)
    outcome = engine.run(one.steady(load, 120.0), noisy.deadline(one), one.target_s)
    late = outcome.delay_s[outcome.arrival_s > 40.0]
    assert float(late[late == late].max()) < 3.5 * trigger_s  # noqa: PLR0124  NaN: a row that was shed
    assert outcome.delivered[outcome.arrival_s > 40.0].mean() > 0.5 / load
