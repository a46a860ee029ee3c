"""The command line: what it prints and writes, and what it says to a wrong request."""

from __future__ import annotations

import json
import sys
import types

import pytest

from spillway.bench import Figure, Results, suites
from spillway.cli import main


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
    monkeypatch.setitem(__import__("spillway.bench.suites").bench.suites.MODULES, "join", "fake_suite")
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
