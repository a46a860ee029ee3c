"""The batched engine of ``spillway simulate``: options for its machine, and what they are made into."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING

from spillway.errors import SpillwayError, invalid

if TYPE_CHECKING:
    from spillway.replay.costs import CostTrace
    from spillway.sim import BatchedEngine, Machine, Outcome

_OPTIONS = ("trigger", "noise", "skip", "neighbour", "cold", "stalls", "killed_at", "down", "estimate")
_FACTOR = "with FACTOR a number from 1 on"
_NEIGHBOUR = f"'steady:FACTOR', 'bursts:FACTOR' or 'FROM-TO:FACTOR' between two whole seconds, {_FACTOR}"
_STALLS = "'CHANCE:TIME' with a chance from 0 to 1, such as '0.1:500ms'"
_BURST_STEP_S = 0.5  # of a neighbour that comes and goes: short beside its shortest burst
_BURST_S, _BETWEEN_S = (1.0, 5.0), 10.0  # how long bursts are, and the mean between two: as in the benchmarks
_BURSTS_LAST = 10.0  # times the trace: so long may a query without shedding still have rows to work on
_BURSTS_STREAM = 1  # the engine draws from the seed itself, bursts from a stream of their own


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options. None is set by default, so that one with another engine can be refused."""
    machine = parser.add_argument_group("machine (batched only)")
    machine.add_argument("--trigger", metavar="TIME", help="trigger interval (default: batch after batch)")
    machine.add_argument(
        "--noise", metavar="SHARE", help="standard deviation of a batch's time, as 0.06 (default: 0)"
    )
    machine.add_argument("--skip", metavar="TIME", help="processor time per dropped row (default: none)")
    machine.add_argument(
        "--neighbour",
        metavar="WHEN:FACTOR",
        help="another program makes batches so many times slower: all the time (steady:2), for 1 to 5 s now and "
        "then, drawn by the seed (bursts:3), or between two seconds (20-80:2)",
    )
    machine.add_argument(
        "--cold",
        metavar="FACTOR",
        help="the first batch takes so many times its time, a few more batches less",
    )
    machine.add_argument(
        "--stalls", metavar="CHANCE:TIME", help="so many batches take this much longer on average: 0.1:500ms"
    )
    machine.add_argument(
        "--killed-at", metavar="TIME", help="the query dies in the batch that runs at this second"
    )
    machine.add_argument(
        "--down", metavar="TIME", help="how long it then takes to come back (default: no time)"
    )
    machine.add_argument(
        "--estimate",
        action=argparse.BooleanOptionalAction,
        help="controllers see costs estimated from batches, as on Spark (the default), or the true ones",
    )


def refuse(options: argparse.Namespace) -> None:
    """Raise if an option is given that only the batched engine has."""
    for name in _OPTIONS:
        value = getattr(options, name)
        if value is not None:
            raise SpillwayError(
                f"{_flag(name)} = {value!r} is not allowed with --engine {options.engine}: leave it out, or choose "
                "--engine batched."
            )


def build(options: argparse.Namespace, *, cost: CostTrace, duration_s: float) -> BatchedEngine:
    """Return the engine that the options describe, for a trace of a given length."""
    from spillway.core.control import CostModelConfig
    from spillway.durations import seconds
    from spillway.sim import BatchedEngine

    noise = "0" if options.noise is None else options.noise
    skip_s = _duration("skip", options.skip)
    if skip_s > cost.array.min():
        least = f"a time up to that of a kept row, {cost.array.min() * 1e6:g} us"
        raise invalid("--skip", options.skip, least, hint="a larger --cost makes room for it")
    return BatchedEngine(
        cost=cost,
        fixed_s=seconds("fixed", options.fixed),
        skip_s=skip_s,
        headroom=options.headroom,
        trigger_s=_duration("trigger", options.trigger),
        lag_batches=options.lag,
        noise=_number("noise", noise, noise, "a share from 0 to 1, such as '0.06'", 0.0, 1.0),
        machine=machine(options, duration_s=duration_s),
        estimate=None if options.estimate is False else CostModelConfig(),
        seed=options.seed,
    )


def machine(options: argparse.Namespace, *, duration_s: float) -> Machine:
    """Return the machine that the options describe."""
    from spillway.replay.costs import constant
    from spillway.sim import Machine

    if options.down is not None and options.killed_at is None:
        raise SpillwayError(
            f"--down = {options.down!r} is not allowed without --killed-at: leave it out, or say when the query dies."
        )
    slowdown = constant(1.0)
    if options.neighbour is not None:
        slowdown = _slowdown(options.neighbour, seed=options.seed, duration_s=duration_s)
    cold = "1" if options.cold is None else options.cold
    stall_chance, stall_s = (0.0, 0.0) if options.stalls is None else _stalls(options.stalls)
    return Machine(
        slowdown=slowdown,
        cold_factor=_number("cold", cold, cold, "a number from 1 on, such as '4'", 1.0),
        stall_chance=stall_chance,
        stall_s=stall_s,
        killed_at_s=_duration("killed_at", options.killed_at) or None,
        down_s=_duration("down", options.down),
    )


def was_killed(outcome: Outcome, killed_at_s: float) -> bool:
    """Return whether a batch ran at that second: a query that waits for its trigger, or has ended, does not die."""
    done_s = 0.0
    for sample in outcome.samples:
        if sample.at_s > killed_at_s:
            return done_s + (sample.idle_s or 0.0) <= killed_at_s
        done_s = sample.at_s
    return False


def _slowdown(value: str, *, seed: int, duration_s: float) -> CostTrace:
    """Return by how much a neighbour makes the machine slower, over time."""
    from spillway.replay.costs import CostTrace, constant

    parts = re.fullmatch(r"(?:steady|(bursts)|([0-9]{1,6})-([0-9]{1,6})):(.+)", value)
    if parts is None:
        raise invalid("--neighbour", value, _NEIGHBOUR)
    bursts, begin, end, number = parts.groups()
    factor = _number("neighbour", value, number, _NEIGHBOUR, 1.0)
    if bursts:
        return _bursts(factor, seed=seed, lasts_s=_BURSTS_LAST * duration_s)
    if begin is None:
        return constant(factor)
    if int(begin) >= int(end):
        raise invalid("--neighbour", value, _NEIGHBOUR, hint="FROM comes before TO")
    return CostTrace([1.0] * int(begin) + [factor] * (int(end) - int(begin)) + [1.0])


def _bursts(factor: float, *, seed: int, lasts_s: float) -> CostTrace:
    """Return a machine that is slow for a few seconds now and then, and its own again at the end."""
    import numpy as np

    from spillway.replay.costs import CostTrace

    draw = np.random.default_rng((seed, _BURSTS_STREAM))
    factors = np.ones(math.ceil(lasts_s / _BURST_STEP_S) + 1)
    at_s = 0.0
    while at_s < lasts_s:
        at_s += float(draw.exponential(_BETWEEN_S))
        begin_s, at_s = at_s, at_s + float(draw.uniform(*_BURST_S))
        factors[round(begin_s / _BURST_STEP_S) : round(at_s / _BURST_STEP_S)] = factor
    factors[-1] = 1.0
    return CostTrace(factors.tolist(), _BURST_STEP_S)


def _stalls(value: str) -> tuple[float, float]:
    """Return the chance of a stall, and how long one is on average."""
    from spillway.durations import seconds

    chance, _, length = value.partition(":")
    try:
        stall_s = seconds("--stalls", length)
    except SpillwayError as error:
        raise invalid("--stalls", value, _STALLS, hint=error.hint) from error
    return _number("stalls", value, chance, _STALLS, 0.0, 1.0), stall_s


def _duration(name: str, value: str | None) -> float:
    """Return a duration in seconds, 0 if the option is not given."""
    from spillway.durations import seconds

    return 0.0 if value is None else seconds(_flag(name), value)


def _number(name: str, value: str, number: str, allowed: str, least: float, most: float = math.inf) -> float:
    """Return the number that is all or part of an option's value."""
    try:
        found = float(number)
    except ValueError:
        raise invalid(_flag(name), value, allowed) from None
    if not (math.isfinite(found) and least <= found <= most):
        raise invalid(_flag(name), value, allowed)
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
