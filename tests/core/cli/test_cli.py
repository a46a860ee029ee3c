"""The command line: what it prints and writes, and what it says to a wrong request."""

from __future__ import annotations

import json
import sys
import types

import pytest

import spillway
from benchmarks import Figure, Results, suites
from spillway.cli import bench, main, simulate
from spillway.cli.main import parser
from spillway.core.control import CostModelConfig
from spillway.errors import SpillwayError
from spillway.replay.traces import Rates
from spillway.sim.best import best_delivered, thinned


@pytest.fixture
def fake_suite(monkeypatch):
    """A suite that is done at once and notes what it was asked."""
    asked = []

    def run(request):
        asked.append(request)
        request.tell("half way", 1, 2)
        figure = Figure(title="t", paper="205", ours="17", holds=True)
        return Results(
            suite="join",
            metrics={"speed": 12.5, "rows": 23_481_671.0},
            figures={"12": figure},
            config={"recorded": "absent"},
        )

    module = types.ModuleType("fake_suite")
    module.run = run
    module.__spec__ = types.SimpleNamespace(name="fake_suite")
    monkeypatch.setitem(sys.modules, "fake_suite", module)
    monkeypatch.setitem(suites.MODULES, "join", "fake_suite")
    return asked


def test_bench_runs_a_suite_and_writes_its_results(fake_suite, tmp_path, capsys):
    path = tmp_path / "r.json"
    assert main(["bench", "join", "--quick", "--json", str(path), "--out", str(tmp_path / "plots")]) == 0
    (request,) = fake_suite
    assert (request.quick, request.out) == (True, tmp_path / "plots")
    assert json.loads(path.read_text())["metrics"] == {"speed": 12.5, "rows": 23_481_671.0}
    printed = capsys.readouterr().out
    for words in ("speed", "12.5", "23,481,671", "holds", "recorded arrivals: absent"):
        assert words in printed


def test_the_command_line_names_the_suites_that_there_are():
    assert tuple(suites.MODULES) == bench.SUITES
    assert suites.available() == list(bench.SUITES), "each has a folder"


def test_an_installed_package_says_where_the_benchmarks_are(tmp_path, monkeypatch, capsys):
    installed = tmp_path / "lib" / "site-packages" / "spillway" / "__init__.py"
    monkeypatch.setattr(spillway, "__file__", str(installed))
    assert main(["bench", "control"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("spillway bench: the benchmarks are no part of the installed package")
    assert "make bench SUITE=control" in said


def test_a_wrong_request_is_told_in_one_line(capsys):
    assert main(["bench", "contrl"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("spillway bench: suite = 'contrl' is not allowed")
    assert told.count("\n") == 1
    assert main(["simulate", "--target", "2 secnds"]) == 2
    assert "did you mean 'second'" in capsys.readouterr().err
    assert main(["simulate", "dedline"]) == 2
    assert "did you mean 'deadline'" in capsys.readouterr().err
    assert main(["simulate", "--trace", "nowhere.parquet"]) == 2
    assert main(["simulate", "none", "--duration", "5 s", "--plot", "x.bmp"]) == 2


@pytest.mark.parametrize("part", ["neighbours", "restart"])
def test_only_the_suite_that_has_a_part_takes_it(part, fake_suite, capsys):
    assert main(["bench", "join", f"--{part}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"spillway bench: --{part} is not an option of the suite 'join'")
    assert "'spark'" in said
    assert fake_suite == []


def test_parts_are_passed_on(fake_suite, monkeypatch):
    monkeypatch.setitem(suites.PARTS, "join", ("neighbours",))
    assert main(["bench", "join", "--neighbours"]) == 0
    assert fake_suite[0].parts == ("neighbours",)


@pytest.mark.parametrize("arguments", [[], ["fly"], ["bench"]])
def test_a_command_is_needed(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: spillway" in capsys.readouterr().err


@pytest.mark.parametrize("trace", ["step", "sine", "burst", "pareto"])
@pytest.mark.parametrize("engine", ["pipelined", "batched"])
def test_simulate_compares_controllers(trace, engine, tmp_path, capsys):
    path = tmp_path / "s.json"
    arguments = ["simulate", "none", "deadline", "--trace", trace, "--engine", engine, "--cost", "5 ms"]
    arguments += ["--duration", "60 seconds", "--varying", "--fixed", "100 ms", "--json", str(path)]
    assert main(arguments) == 0
    found = json.loads(path.read_text())
    plain, held = found["controllers"]["none"], found["controllers"]["deadline"]
    assert held["acc_violation_s"] < 0.05 * plain["acc_violation_s"]
    assert plain["loss_ratio"] == 0.0 < held["loss_ratio"] < found["least_loss_ratio"] + 0.25
    assert "least possible loss" in capsys.readouterr().out


def test_simulate_plays_files_and_draws(tmp_path, capsys):
    rates = tmp_path / "rates.json"
    rates.write_text('{"rates": [100, 500], "spans_s": [10, 10]}')
    plot = tmp_path / "plot.svg"
    assert main(["simulate", "deadline", "--trace", str(rates), "--rate", "50", "--plot", str(plot)]) == 0
    assert "1,000 rows in 20 s (50/s)" in capsys.readouterr().out
    assert plot.stat().st_size > 1000


def simulated(tmp_path, *arguments):
    """What `spillway simulate --engine batched` writes, at 1 ms a row: about 1,000 rows/s."""
    path = tmp_path / "s.json"
    command = ["simulate", *arguments, "--engine", "batched", "--cost", "1 ms", "--json", str(path)]
    assert main(command) == 0
    return json.loads(path.read_text())


@pytest.fixture
def steady(tmp_path):
    """A trace of rates that never change; --rate says how high."""
    path = tmp_path / "rates.json"
    path.write_text('{"rates": [100], "spans_s": [120]}')
    return str(path)


@pytest.mark.parametrize("estimate", ["--estimate", "--no-estimate"])
@pytest.mark.parametrize("lag", ["0", "1", "3"])
@pytest.mark.parametrize(("trigger", "load"), [("5 seconds", 0.1), ("10 seconds", 0.3)])
def test_deadline_loses_nothing_where_only_the_trigger_is_too_long(
    trigger, load, lag, estimate, steady, tmp_path
):
    """Capacity is 970 rows/s: each batch takes less than its trigger, but rows wait longer than the target."""
    arguments = ["deadline", "--trace", steady, "--rate", str(970 * load), "--target", "3 seconds"]
    found = simulated(tmp_path, *arguments, "--trigger", trigger, "--lag", lag, estimate)
    held = found["controllers"]["deadline"]
    assert held["loss_ratio"] == 0.0
    assert held["late_rows"] > 0.4 * held["rows"]


@pytest.mark.parametrize(
    ("options", "field", "setting"),
    [
        (["--trigger", "5 seconds"], "trigger_s", 5.0),
        (["--noise", "0.06"], "noise", 0.06),
        (["--skip", "0.5 us"], "skip_s", 0.5e-6),
        (["--cold", "4"], "machine.cold_factor", 4.0),
        (["--stalls", "0.1:500ms"], "machine.stall_chance", 0.1),
        (["--stalls", "0.1:500ms"], "machine.stall_s", 0.5),
        (["--killed-at", "50 seconds"], "machine.killed_at_s", 50.0),
        (["--killed-at", "50 seconds", "--down", "20 seconds"], "machine.down_s", 20.0),
        (["--neighbour", "steady:2"], "machine.slowdown.costs_s", (2.0,)),
        (["--neighbour", "1-3:2.5"], "machine.slowdown.costs_s", (1.0, 2.5, 2.5, 1.0)),
        (["--neighbour", "0-1:2"], "machine.slowdown.costs_s", (2.0, 1.0)),
        (["--no-estimate"], "estimate", None),
    ],
)
def test_each_option_of_the_machine_sets_its_field(options, field, setting):
    assert attribute(built(*options), field) == setting
    assert attribute(built(), field) != setting or field == "estimate"


def built(*options):
    """The batched engine that options stand for."""
    return simulate.build_engine(parser().parse_args(["simulate", "--engine", "batched", *options]))


def attribute(value, path):
    """The value of a dotted field."""
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_costs_are_estimated_by_default():
    assert built().estimate == built("--estimate").estimate == CostModelConfig()


def test_bursts_of_a_neighbour_are_drawn_by_the_seed():
    one, again, other = (
        built("--neighbour", "bursts:3", "--seed", seed).machine.slowdown for seed in ("1", "1", "2")
    )
    assert one == again != other
    slow = one.array == 3.0
    assert set(one.costs_s) == {1.0, 3.0}
    assert one.costs_s[-1] == 1.0
    assert 0.1 < slow.mean() < 0.4, "3 s of every 13 s on average"
    assert one.step_s * len(one.costs_s) >= 1200.0


MALFORMED = {
    "--trigger": ["5", "0 seconds", "soon"],
    "--noise": ["6", "-0.1", "nan", "much"],
    "--skip": ["0.5", "1 second"],
    "--neighbour": [
        "2",
        "steady",
        "steady:0.5",
        "bursts:inf",
        "bursts:",
        "80-20:2",
        "20-20:2",
        "20-:2",
        "x:2",
    ],
    "--cold": ["0.5", "inf", "yes"],
    "--stalls": ["0.1", "500ms", "2:500ms", "0.1:500", "-0.1:5ms", ":5ms"],
    "--killed-at": ["50", "never"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in MALFORMED.items() for value in values]
)
def test_a_malformed_option_of_the_machine_is_told_with_what_is_allowed(option, value):
    with pytest.raises(SpillwayError) as error:
        built(f"{option}={value}")
    assert str(error.value).startswith(f"{option} = {value!r} is not allowed: expected ")


def test_no_downtime_without_a_crash():
    with pytest.raises(SpillwayError, match="--down = '5 s' is not allowed without --killed-at"):
        built("--down", "5 s")
    with pytest.raises(SpillwayError, match="--down = '5' is not allowed: expected a positive duration"):
        built("--killed-at", "5 s", "--down", "5")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((option, "x") for option in [*MALFORMED, "--down"]),
        ("--estimate", None),
        ("--no-estimate", None),
    ],
)
def test_the_pipelined_engine_has_no_machine(option, value, capsys):
    assert main(["simulate", "none", option, *([] if value is None else [value])]) == 2
    told = capsys.readouterr()
    given = "'x'" if value else str(option == "--estimate")
    assert told.err.startswith(
        f"spillway simulate: {option.replace('no-', '')} = {given} is not allowed with "
    )
    assert "--engine pipelined: leave it out, or choose --engine batched." in told.err
    assert told.out == ""


def test_a_batched_engine_says_what_the_best_is(tmp_path, capsys):
    """The least possible loss leaves out that batches have a fixed time, which here is a third of the target."""
    found = simulated(tmp_path, "deadline", "--fixed", "700 ms", "--lag", "1", "--noise", "0.03")
    held = found["controllers"]["deadline"]
    in_time = held["delivered_rows"] - held["late_rows"]
    assert held["delivered_over_best"] == pytest.approx(in_time / found["best"]["rows"])
    assert 0.9 < held["delivered_over_best"] < 1.1
    assert found["best"]["rows"] < 0.8 * held["rows"] * (1.0 - found["least_loss_ratio"])
    assert "of 13 shedders" in found["best"]["shedder"]
    assert "the best of 13 shedders on this engine" in " ".join(capsys.readouterr().out.split())


def test_a_pipelined_engine_says_what_the_best_is(capsys):
    assert main(["simulate", "deadline", "--duration", "30 seconds"]) == 0
    assert "best: a shedder that knows all arrivals and costs beforehand." in capsys.readouterr().out


def test_the_best_is_the_same_in_fewer_rows():
    engine, trace = built("--cost", "100 us", "--skip", "2 us", "--no-estimate"), Rates((20_000.0,), (40.0,))
    coarse, rows = thinned(engine, trace, 200_000)
    assert rows.total == 200_000
    assert (coarse.cost.costs_s[0], coarse.skip_s) == (pytest.approx(400e-6), pytest.approx(8e-6))
    share = best_delivered(coarse, rows, 2.0) / rows.total
    assert share == pytest.approx(best_delivered(engine, trace, 2.0) / trace.total, rel=0.01)
    assert thinned(engine, trace, trace.total)[0] == engine


def test_machines_make_batches_longer(steady, tmp_path):
    arguments = ["none", "--trace", steady, "--rate", "300", "--target", "3 seconds"]
    quiet = simulated(tmp_path, *arguments)["controllers"]["none"]["mean_delay_s"]
    for options in (
        ["--neighbour", "steady:2"],
        ["--neighbour", "bursts:3"],
        ["--neighbour", "20-80:2"],
        ["--cold", "4"],
        ["--stalls", "0.2:500ms"],
        ["--trigger", "2 seconds"],
        ["--killed-at", "50 seconds", "--down", "10 seconds"],
    ):
        found = simulated(tmp_path, *arguments, *options)
        assert found["controllers"]["none"]["mean_delay_s"] > 1.05 * quiet, options
        assert found["options"][options[0][2:].replace("-", "_")] == options[1]


def test_a_query_that_waits_does_not_die_and_the_output_says_so(steady, tmp_path, capsys):
    """Batches of 0.5 s are cut every 10 s: one runs at second 60.2, none at second 65."""
    arguments = ["none", "--trace", steady, "--rate", "20", "--trigger", "10 seconds", "--down", "7 seconds"]
    dead = simulated(tmp_path, *arguments, "--killed-at", "60200 ms")["controllers"]["none"]
    assert "not killed" not in capsys.readouterr().out
    alive = simulated(tmp_path, *arguments, "--killed-at", "65 seconds")["controllers"]["none"]
    assert "none: not killed, no batch was running at 65 s" in capsys.readouterr().out
    assert dead["mean_delay_s"] > alive["mean_delay_s"]
    simulated(tmp_path, *arguments, "--killed-at", "1 hour")
    assert "none: not killed" in capsys.readouterr().out
