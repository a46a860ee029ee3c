"""The pages: whole, self-contained, in both modes, and saying what was measured."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from benchmarks.results import Figure, Results
from benchmarks.results_page import results_page
from spillway.demo.burst import Burst
from spillway.demo.page import burst_page, speed_warnings, summary, verdict, whereabouts
from spillway.demo.page_plots import delay_picture
from spillway.errors import SpillwayError
from spillway.report import history_page
from spillway.report.decisions import dropped_by_reason
from tests.core.demo.bursts import PLAN, burst

VOID = {"meta", "br", "img", "path", "use", "rect", "circle", "line"}


class Balanced(HTMLParser):
    """Notes elements that are not closed in order, and everything that a page would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href"} and not (value or "").startswith(("#", "data:")):
                self.fetched.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.problems.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def played() -> Burst:
    return burst()


@pytest.fixture(scope="module")
def pages(played: Burst) -> dict[str, str]:
    history = pa.Table.from_pylist(list(played.runs["spillway"].history))
    figure = Figure(title="a <title>", paper="rises", ours="rises & falls", holds=True, files=("none.png",))
    results = Results(suite="spark", metrics={"a.b": 0.5}, figures={"1": figure}, config={"cores": 2})
    return {
        "burst": burst_page(played),
        "history": history_page("rides & <more>", history),
        "results": results_page(results, Path("/nowhere")),
    }


@pytest.mark.parametrize("name", ["burst", "history", "results"])
def test_a_page_is_whole_and_fetches_nothing(pages: dict[str, str], name: str) -> None:
    found = Balanced(pages[name])
    assert found.problems == []
    assert found.open == []
    assert found.fetched == []
    assert "<script" not in pages[name]
    assert "@import" not in pages[name]
    assert not re.search(r"url\(\s*['\"]?(?!#)", pages[name])


def test_text_is_escaped(pages: dict[str, str]) -> None:
    assert "rides & <more>" in Balanced(pages["history"]).text
    assert "<more>" not in pages["history"]
    assert "<a & b>" in Balanced(pages["burst"]).text


def test_plots_follow_the_mode_of_the_page(pages: dict[str, str]) -> None:
    for name in ("burst", "history"):
        plots = "".join(re.findall(r"<svg.*?</svg>", pages[name], flags=re.DOTALL))
        assert plots
        assert re.findall(r"#[0-9a-fA-F]{6}\b", plots) == []
        used = set(re.findall(r"var\(--([a-z]+)\)", plots))
        declared = re.findall(r"--([a-z]+): #", pages[name])
        assert used <= {variable for variable in declared if declared.count(variable) >= 2}  # light and dark


def test_ids_do_not_repeat_except_for_equal_shapes(pages: dict[str, str]) -> None:
    ids = re.findall(r' id="([^"]+)"', pages["burst"])
    assert not [name for name in ids if re.fullmatch(r"(figure|axes|text|patch|line2d)_\d+", name)]


def test_the_picture_is_an_svg_with_both_modes(played: Burst) -> None:
    text = delay_picture(played)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    assert "target" in root.attrib["aria-label"]
    assert delay_picture(played) == text


def test_the_summary_is_what_was_recorded(played: Burst) -> None:
    plain, shed = played.runs["plain"], played.runs["spillway"]
    found = {what: cells for what, *cells in summary(played)}
    assert found["delivered rows within the target of 3 s"] == [
        f"{plain.within_target:.1%}",
        f"{shed.within_target:.1%}",
    ]
    assert found["99 of 100 rows took at most"][0].startswith("> ")  # rows still wait
    assert not found["99 of 100 rows took at most"][1].startswith("> ")
    assert found["rows dropped on purpose"][0] == "0"
    assert "more than" in verdict(played)


def test_what_was_delivered_stands_beside_what_was_lost(played: Burst, pages: dict[str, str]) -> None:
    shed = played.runs["spillway"]
    best = shed.arrived_rows - played.least_lost_rows
    share = shed.in_time_rows / best
    assert played.delivered_over_best("spillway") == pytest.approx(share)
    assert played.delivered_over_best("plain") < share
    found = {what: cells for what, *cells in summary(played)}
    assert found["delivered in time, of the most possible"][1] == f"{share:.1%}"
    assert f"{share:.0%}of the rows that any shedder could have delivered" in Balanced(pages["burst"]).text
    assert f"it delivered {share:.0%}" in verdict(played)


def test_a_machine_that_changed_its_speed_is_no_secret(played: Burst) -> None:
    assert speed_warnings(played) == []
    assert speed_warnings(replace(played, speeds={"plain": 0.95, "spillway": 1.05})) == []
    slower = replace(played, speeds={"plain": 1.3, "spillway": 0.7})
    plain, shed = speed_warnings(slower)
    assert plain.startswith("Without Spillway, this machine was 30% faster")
    assert "30% slower in the burst than when its capacity was measured" in shed
    run = slower.runs["spillway"]
    least = run.least_lost_rows(0.7 * slower.capacity.rows_per_s)
    assert f"at least {least / run.arrived_rows:.0%} of the rows had to go" in shed
    assert shed in Balanced(burst_page(slower)).text


def test_the_least_loss_follows_a_neighbour(played: Burst) -> None:
    run = played.runs["spillway"]
    busy = replace(run, busy=((0.0, run.until_s),))
    beside = replace(
        played, runs={**played.runs, "spillway": busy}, busy_rows_per_s=played.capacity.rows_per_s / 2
    )
    assert beside.least_lost_rows == pytest.approx(run.least_lost_rows(500.0), abs=2)
    away = replace(beside, runs=played.runs)
    assert away.least_lost_rows == pytest.approx(played.least_lost_rows, abs=2)
    assert "500 while the busy process was on" in Balanced(burst_page(beside)).text
    assert Burst.from_json(beside.to_json()) == beside


def test_every_row_has_a_place(played: Burst) -> None:
    shed = played.runs["spillway"]
    shares = [float(share.rstrip("%")) for _, _, share in whereabouts(shed)]
    assert sum(shares) == pytest.approx(100.0, abs=0.3)


def test_drops_are_told_by_the_reason_that_was_in_force() -> None:
    entries = [
        {"dropped_rows": 5, "reason": "a row costs 1 µs"},
        {"dropped_rows": 7, "reason": "x, no more than the recent batches allow; y"},
        {"dropped_rows": 11, "reason": "cut to 40% because rows still come late"},
        {"dropped_rows": 13, "reason": "the target cannot be met"},
        {"dropped_rows": 17, "reason": "a row costs 1 µs"},
    ]
    assert list(dropped_by_reason(entries).values()) == [17, 13, 11, 7, 5]
    assert len(dropped_by_reason(entries)) == 5


def test_a_record_can_be_read_back(played: Burst) -> None:
    again = Burst.from_json(played.to_json())
    assert again.plan == PLAN
    assert again.runs == dict(played.runs)
    assert again.capacity == played.capacity
    with pytest.raises(SpillwayError, match="not the record of a burst"):
        Burst.from_json("{}")


def test_rows_that_a_pattern_dropped_show_also_if_they_had_waited(played: Burst) -> None:
    first, second = (dict(entry) for entry in played.runs["spillway"].history[:2])
    work = {"work_demanded": 400.0, "work_spent": 100.0, "matches": 7, "shed_runs": 5, "pairs": 0}
    first |= work | {"arrived_rows": 1000, "kept_rows": 750, "dropped_rows": 250, "sampled_out_rows": 250}
    second |= work | {"arrived_rows": 0, "kept_rows": 0, "dropped_rows": 50, "sampled_out_rows": 50}
    shown = Balanced(history_page("rides", pa.Table.from_pylist([first, second]))).text
    for words in (
        "70.0%",
        "Where the work went",
        "matches that came out14",
        "for lack of time, in each shard300",
    ):
        assert words in shown
    assert "pairs" not in shown


def test_a_history_without_rows_is_refused() -> None:
    empty = pa.table({"arrived_rows": pa.array([], pa.int64())})
    with pytest.raises(SpillwayError, match="no batch with rows"):
        history_page("rides", empty)


def test_pictures_of_results_are_part_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(b"\x89PNG")
    figure = Figure(title="one", paper="", ours="", holds=False, files=("one.png", "one.svg"))
    page = results_page(Results(suite="spark", metrics={"m": 1.0}, figures={"1": figure}), tmp_path)
    assert "data:image/png;base64,iVBORw==" in page
    assert "differs" in page
