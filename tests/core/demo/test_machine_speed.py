"""How fast the machine is, from made-up readings and from real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spillway.demo import machine_speed
from spillway.demo.machine_speed import Reading, SpeedLog, speed


def readings(piece_s: float, others: float | None, seconds: int = 10) -> list[Reading]:
    """One a second, beside others that use so many cores all the time."""
    return [
        Reading(float(second), piece_s, None if others is None else 100.0 + others * second)
        for second in range(seconds)
    ]


def test_what_others_use_is_not_left() -> None:
    quiet = speed(readings(0.004, 0.0), 0.0, 9.0, 2)
    assert quiet is not None
    for others in (0.5, 1.0):
        beside = speed(readings(0.004, others), 0.0, 9.0, 2)
        assert beside is not None
        assert beside / quiet == pytest.approx((2 - others) / 2)


def test_slow_cores_are_slow() -> None:
    quick, slow = (speed(readings(piece_s, None), 0.0, 9.0, 4) for piece_s in (0.004, 0.008))
    assert quick is not None
    assert slow is not None
    assert slow / quick == pytest.approx(0.5)


def test_only_readings_in_between_count() -> None:
    log = [*readings(0.004, 0.0, 5), *(Reading(5.0 + n, 0.004, 100.0 + n) for n in range(5))]
    before, after = speed(log, 0.0, 4.0, 2), speed(log, 5.0, 9.0, 2)
    assert before is not None
    assert after is not None
    assert after / before == pytest.approx(0.5)
    assert speed(log, 4.5, 5.5, 2) is None, "one reading says nothing of what others use"


def test_books_that_go_backwards_are_no_bonus() -> None:
    log = [Reading(0.0, 0.004, 10.0), Reading(1.0, 0.004, 8.0)]
    assert speed(log, 0.0, 1.0, 2) == speed(readings(0.004, 0.0, 2), 0.0, 1.0, 2)


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system keeps no such books")
def test_children_are_part_of_the_family() -> None:
    before = machine_speed._ticks_of_family(machine_speed.os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    assert machine_speed._ticks_of_family(machine_speed.os.getpid()) > before
    others = machine_speed._others_s()
    assert others is not None
    assert others >= 0.0


def test_readings_are_taken_until_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_speed, "PERIOD_S", 0.0)
    with SpeedLog() as log:
        while log.speed(0.0, float("inf")) is None:
            pass
    assert not log._thread.is_alive()
