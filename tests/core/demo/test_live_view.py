"""The terminal view and the command around it, without Spark."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest
from rich.console import Console

from spillway.cli import demo, main
from spillway.core.control import Decision
from spillway.demo import local_session
from spillway.demo.burst_plan import BurstPlan
from spillway.demo.live_view import DemoView
from spillway.demo.playback import Live
from spillway.errors import SpillwayError
from spillway.spark import Status
from tests.core.demo.bursts import CAPACITY, PLAN, burst


def console(*, terminal: bool, width: int = 100) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, legacy_windows=False
    )


def text_of(view: DemoView, on: Console) -> str:
    with on.capture() as capture:
        on.print(view.render())
    return capture.get()


def status(reason: str) -> Status:
    return Status(
        name="demo", mode="enforce", running=True, decision=Decision(reason=reason), last=None, problems=()
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_shows_what_goes_on_at_any_width(width: int) -> None:
    on = console(terminal=True, width=width)
    view = DemoView(on, PLAN)
    assert "starting" in text_of(view, on)
    view.tell("warming up the JVM")
    assert "warming up" in text_of(view, on)
    view.measured(PLAN, CAPACITY)
    view.tell("playing")
    shed = burst().runs["spillway"]
    view.watch(Live(variant="spillway", now_s=-1.0, batches=(), status=status("nothing yet")))
    assert "starting the query" in text_of(view, on)
    view.watch(
        Live(variant="spillway", now_s=8.0, batches=shed.batches[:8], status=status("a row costs 3 µs"))
    )
    shown = text_of(view, on)
    assert "with Spillway" in shown
    assert "a row costs" in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    if width >= 80:
        assert "burst: five times the capacity" in shown
        assert "5,000 rows/s" in shown
        assert "target 3 s" in shown


def test_late_rows_are_measured_by_the_oldest_that_waits() -> None:
    on = console(terminal=True)
    view = DemoView(on, PLAN)
    view.measured(PLAN, CAPACITY)
    plain = burst().runs["plain"]
    view.watch(Live(variant="plain", now_s=12.0, batches=plain.batches[:1], status=None))
    first = float(plain.trace.times(plain.batches[0].last_row, plain.batches[0].last_row + 1)[0])
    assert f"worst {12.0 - first:.1f} s" in text_of(view, on)
    assert "rows" in text_of(view, on)
    view.tell("next")  # a run that is over stays as a line
    assert f"worst {12.0 - first:.1f} s" in text_of(view, on)


def test_without_a_terminal_each_step_is_a_line() -> None:
    on = console(terminal=False)
    with DemoView(on, PLAN) as view:
        view.tell("starting Spark")
        view.measured(PLAN, CAPACITY)
        view.watch(Live(variant="plain", now_s=1.0, batches=(), status=None))
    written = on.file.getvalue()  # type: ignore[attr-defined]
    assert "starting Spark" in written
    assert "capacity: 1,000 rows/s" in written
    assert written.count("\n") == 2


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    demo.add(parser.add_subparsers())
    return parser.parse_args(["demo", *words])


def test_the_options_make_a_plan() -> None:
    assert demo.build_plan(options("--target", "5 seconds", "--seconds", "12")).target_s == 5.0
    assert demo.build_plan(options("--target", "5 seconds", "--seconds", "12")).burst_s == 12.0
    assert demo.build_plan(options("--quick")).burst_s < demo.build_plan(options()).burst_s
    with pytest.raises(SpillwayError, match="target"):
        demo.build_plan(options("--target", "soon"))
    with pytest.raises(SpillwayError, match="burst_s"):
        demo.build_plan(options("--seconds", "-1"))


def test_a_folder_that_cannot_be_written_is_found_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["demo", "--out", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_missing_java_is_said_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["demo", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "Spark needs Java 17 or newer" in said
    assert "Hint" in said
    assert not list((tmp_path / "out").iterdir())


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SpillwayError, match="found Java 11"):
        local_session.check_java()


def test_the_demo_writes_its_files_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spillway.demo.burst_session.run", lambda *_, **__: burst())
    assert main(["demo", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "with Spillway" in said
    assert str(tmp_path / "report.html") in said.replace("\n", "")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["burst.json", "delay.svg", "report.html"]


def test_an_interrupt_is_told_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spillway.demo.burst_session.run", interrupted)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert "Stopped" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_phases_are_named() -> None:
    plan = BurstPlan()
    said = [plan.phase(second) for second in (0.0, 10.0, 20.0, 50.0)]
    assert [phase.split(":")[0] for phase in said] == [
        "warming up at half the capacity",
        "calm",
        "burst",
        "after the burst",
    ]
