"""The busy neighbour: when it is on, what it leaves, and that it never outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.demo.neighbour import Neighbour, comes_and_goes, costs_beside, from_second, throughout
from spillway.errors import SpillwayError

OWNER = """
import sys, time
from spillway.demo.neighbour import Neighbour
with Neighbour() as neighbour:
    neighbour.switch(True)
    print(neighbour.pid, flush=True)
    sys.stdin.read()
"""


def eventually(look: Callable[[], bool]) -> bool:
    """Look until it is so, for as long as a loaded machine may take."""
    give_up = time.monotonic() + 60.0
    while not look():
        if time.monotonic() > give_up:
            return False
    return True


def lives(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_schedules_say_when_it_is_on() -> None:
    assert [throughout().busy(at_s) for at_s in (-1.0, 0.0, 99.0)] == [True] * 3
    assert [from_second(7.0).busy(at_s) for at_s in (-1.0, 6.9, 7.0, 99.0)] == [False, False, True, True]


@given(st.integers(0, 1000))
def test_a_seed_is_a_pattern_of_short_spells(seed: int) -> None:
    switches = comes_and_goes(seed, 60.0).switches_s
    assert switches == comes_and_goes(seed, 60.0).switches_s
    gaps = [late - early for early, late in pairwise(switches)]
    assert all(1.99 <= gap <= 8.01 for gap in gaps)
    assert not comes_and_goes(seed, 60.0).busy(-1.0)
    assert 52.0 - 8.0 <= switches[-1] < 60.0


@given(
    st.lists(st.floats(0.0, 20.0, allow_nan=False), max_size=6).map(sorted),
    st.floats(1.0, 100.0),
    st.floats(1.0, 100.0),
)
def test_costs_serve_what_both_capacities_would(switches: list[float], quiet: float, busy: float) -> None:
    spans = list(zip(switches[::2], switches[1::2], strict=False))
    costs = costs_beside(spans, quiet_rows_per_s=quiet, busy_rows_per_s=busy, until_s=20.0)
    served = sum(costs.step_s / cost for cost in costs.costs_s)
    busy_s = sum(end - start for start, end in spans)
    assert served == pytest.approx(busy * busy_s + quiet * (20.0 - busy_s), rel=1e-6)


def test_it_uses_a_core_while_it_is_on_and_is_gone_afterwards() -> None:
    with Neighbour() as neighbour:
        pid = neighbour.pid
        neighbour.switch(True)
        neighbour.switch(True)  # it is on already
        before = ticks(pid)
        assert eventually(lambda: ticks(pid) >= before + 3)
        neighbour.switch(False)
        assert not neighbour.busy
        neighbour.switch(True)
        first, last = neighbour.spans(0.0, 1e12)
        assert first[0] <= first[1] <= last[0] < last[1] == 1e12
        assert neighbour.spans(first[1], last[0] - first[1]) == ()
    assert not lives(pid)


def test_it_is_gone_after_an_error() -> None:
    neighbour = Neighbour()

    def fail() -> None:
        with neighbour:
            neighbour.switch(True)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not lives(neighbour.pid)


def test_one_that_has_died_is_reported() -> None:
    with Neighbour() as neighbour:
        os.kill(neighbour.pid, signal.SIGKILL)
        assert eventually(lambda: not lives(neighbour.pid))
        with pytest.raises(SpillwayError, match="has ended"):
            neighbour.switch(True)


def test_it_ends_when_its_owner_is_killed() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert lives(pid)
    finally:
        owner.kill()
        owner.communicate()
    assert eventually(lambda: not lives(pid))
