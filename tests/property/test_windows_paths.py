"""Two ways to the same windows: the reference engine with its marks, and what a plan on Spark looks up.

Both get the same decisions, and both are held against brute force: all windows by their definition, without any
shedding, of which the leaf windows in kept windows of the drop are taken. Rows come in any order, in groups, with
filters before and between the aggregates; times are numbers, numbers in units, or timestamps. Windows that count
rows are in memory only, and have a brute force of their own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.windows import Arrangement, Level, run, sliding
from spillway.core.windows.needs import Kept, allowed, granule_of, open_windows
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Tuple
from spillway.core.windows.paper.plan import Aggregated, Drop, Keep, Plan, Split

Kind = Literal["numbers", "halves", "timestamps"]
Row = tuple[float, str, int]  # time in units, group, number
Stream = list[tuple[float, Any]]  # of one group
Answer = set[tuple[int, str, int, str]]  # leaf, group, window number, value
Passes = Callable[[Any], bool]

LOW, HIGH = -15, 60


def fingerprint(values: list[Any]) -> str:
    return "<" + " ".join(map(str, values)) + ">"


def some(value: Any) -> bool:
    """A filter that refuses a third of whatever it is asked."""
    return zlib.crc32(str(value).encode()) % 3 > 0


def every(_: Any) -> bool:
    return True


def window(kind: Kind, size: int, slide: int) -> Arrangement:
    if kind == "timestamps":
        return sliding(f"{size} us", f"{slide} us")
    return sliding(size / 2, slide / 2, unit=0.5) if kind == "halves" else sliding(size, slide)


def arrangements(kind: Kind) -> st.SearchStrategy[Arrangement]:
    single = st.tuples(st.integers(1, 4), st.integers(0, 4)).map(
        lambda drawn: window(kind, drawn[0] + drawn[1], drawn[0])
    )
    return st.recursive(
        single,
        lambda inner: st.tuples(inner, inner, st.booleans()).map(
            lambda parts: parts[0] >> parts[1] if parts[2] else parts[0] | parts[1]
        ),
        max_leaves=4,
    )


@dataclass
class Case:
    kind: Kind
    arrangement: Arrangement
    rows: list[Row]
    kept: dict[int, bool]
    filtered: bool

    @property
    def slide(self) -> int:
        return self.arrangement.drop_units()[1]

    @property
    def passes(self) -> Passes:
        return some if self.filtered else every

    def streams(self) -> Iterator[tuple[str, Stream]]:
        """The rows of each group in the order of their times, ties as they came."""
        ordered = sorted(self.rows, key=lambda row: row[0])
        for group in sorted({group for _, group, _ in ordered}):
            yield group, [(t, n) for t, of, n in ordered if of == group and self.passes(n)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind: Kind = draw(st.sampled_from(["numbers", "halves", "timestamps"]))
    arrangement = draw(arrangements(kind))
    whole = st.integers(LOW, HIGH).map(float)
    # a quarter of a unit is a number as it is and an eighth in halves: no rounding either way
    times = whole if kind == "timestamps" else whole | st.integers(4 * LOW, 4 * HIGH).map(lambda at: at / 4)
    few = st.lists(st.tuples(times, st.sampled_from("ab")), max_size=40)
    dense = st.permutations([(float(t), "ab"[t % 2]) for t in range(0, 40)])
    rows = draw(few | dense)
    _, slide = arrangement.drop_units()
    reached = max(sum(w.size for w in path) for path in arrangement.paths())
    first, last = (LOW - reached) // slide - 1, (HIGH + reached) // slide + 1
    pattern = draw(
        st.lists(st.booleans(), min_size=1, max_size=9)
    )  # again and again, so that windows are kept anywhere
    kept = {k: pattern[k % len(pattern)] for k in range(first, last + 1)}
    numbered = [(t, group, n) for n, (t, group) in enumerate(rows)]
    return Case(kind, arrangement, numbered, kept, draw(st.booleans()))


def by_definition(levels: tuple[Level, ...], stream: Stream, passes: Passes) -> list[dict[int, str]]:
    """All results of each leaf; the time of a result is the last unit of its window, as on Spark."""
    found: list[dict[int, str]] = []
    for level in levels:
        size, slide = level.window.size, level.window.slide
        times = [t for t, _ in stream]
        numbers = (
            range(math.floor((min(times) - size) / slide), math.floor(max(times) / slide) + 1)
            if times
            else ()
        )
        results = {}
        for k in numbers:
            inside = [value for t, value in stream if k * slide <= t < k * slide + size]
            if inside:
                results[k] = fingerprint(inside)
        kept = {k: value for k, value in results.items() if passes(value)}
        passed: Stream = [(k * slide + size - 1, value) for k, value in sorted(kept.items())]
        found += by_definition(level.below, passed, passes) if level.below else [kept]
    return found


def expected(case: Case) -> Answer:
    """Of the exact answer, the leaf windows that begin in a kept window of the drop."""
    return {
        (leaf, group, k, value)
        for group, stream in case.streams()
        for leaf, results in enumerate(by_definition(case.arrangement.levels(), stream, case.passes))
        for k, value in results.items()
        if case.kept[k * case.arrangement.leaves()[leaf].slide // case.slide]
    }


def looked_up(case: Case) -> Answer:
    """What a plan on Spark does: rows that no window needs are gone, and of the windows only allowed ones fill."""
    first = min(case.kept)
    bits = "".join("1" if case.kept[k] else "0" for k in sorted(case.kept))
    kept, granule = Kept(case.slide, first, bits), granule_of(case.arrangement)

    def is_open(level: Level, t: float) -> int:
        return int(open_windows(level, math.floor(t) // granule, 1, granule, kept)[0])

    def answers(levels: tuple[Level, ...], stream: Stream) -> list[dict[int, str]]:
        found: list[dict[int, str]] = []
        for level in levels:
            size, slide = level.window.size, level.window.slide
            windows: dict[int, list[Any]] = {}
            for t, value in stream:
                holding = [
                    k
                    for k in range(math.floor((t - size) / slide), math.floor(t / slide) + 1)
                    if k * slide <= t < k * slide + size and allowed(level, k, 1, granule, kept)[0]
                ]
                assert is_open(level, t) == len(holding)
                for k in holding:
                    windows.setdefault(k, []).append(value)
            results = {k: fingerprint(inside) for k, inside in windows.items()}
            results = {k: value for k, value in sorted(results.items()) if case.passes(value)}
            passed: Stream = [(k * slide + size - 1, value) for k, value in results.items()]
            found += answers(level.below, passed) if level.below else [results]
        return found

    answer: Answer = set()
    levels = case.arrangement.levels()
    for group, stream in case.streams():
        needed = [(t, value) for t, value in stream if any(is_open(level, t) for level in levels)]
        for leaf, results in enumerate(answers(levels, needed)):
            answer |= {(leaf, group, k, value) for k, value in results.items()}
    return answer


def plan(levels: tuple[Level, ...], passes: Passes) -> Plan:
    if len(levels) > 1:
        return (Split(tuple(plan((level,), passes) for level in levels)),)
    if not levels:
        return ()
    (level,) = levels
    return (Aggregated(level.window, fingerprint), Keep(passes), *plan(level.below, passes))


def by_engine(case: Case) -> Answer:
    drop = Drop(0.5, 1, decided=case.kept)
    engine = Engine((drop, Keep(case.passes), *plan(case.arrangement.levels(), case.passes)), stamp="end")
    ordered = sorted(case.rows, key=lambda row: row[0])
    leaves = case.arrangement.leaves()
    answer: Answer = set()
    for leaf, results in enumerate(engine.run(Tuple(t, n, group) for t, group, n in ordered)):
        for result in results:
            k, rest = divmod(result.time - leaves[leaf].size + 1, leaves[leaf].slide)
            assert rest == 0
            answer.add((leaf, str(result.group), int(k), result.value))
        assert len({(result.group, result.time) for result in results}) == len(results)
    return answer


def by_run(case: Case) -> Answer:
    """The same through tables; only rows are filtered, before they come in."""
    rows = [row for row in case.rows if case.passes(row[2])]
    scale = 0.5 if case.kind == "halves" else 1
    times = [t * scale for t, _, _ in rows]
    column = (
        pa.array([int(t) for t in times], pa.timestamp("us", "UTC"))
        if case.kind == "timestamps"
        else pa.array(times, pa.float64())
    )
    table = pa.table(
        {
            "ts": column,
            "g": pa.array([g for _, g, _ in rows], pa.string()),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
        }
    )
    found = run(
        table, case.arrangement, time="ts", group="g", aggregate=fingerprint, stamp="end", decided=case.kept
    )
    starts = found["start"].cast(pa.int64()) if case.kind == "timestamps" else found["start"]
    leaves = case.arrangement.leaves()
    branches = found["branch"].to_pylist() if len(leaves) > 1 else [0] * found.num_rows
    answer: Answer = set()
    columns = (branches, starts.to_pylist(), found["g"].to_pylist(), found["value"].to_pylist())
    for leaf, start, group, value in zip(*columns, strict=True):
        k, rest = divmod(start / scale, leaves[leaf].slide)
        assert rest == 0
        answer.add((leaf, group, int(k), value))
    return answer


@settings(max_examples=2 * settings().max_examples)
@given(cases())
def test_the_engine_and_the_lookup_give_what_brute_force_gives(case: Case) -> None:
    right = expected(case)
    assert by_engine(case) == right
    assert looked_up(case) == right


@given(cases())
def test_tables_give_what_brute_force_gives(case: Case) -> None:
    """Filters stand before the table here, so the exact answer has none behind."""
    rows = [row for row in case.rows if case.passes(row[2])]
    assert by_run(case) == expected(Case(case.kind, case.arrangement, rows, case.kept, filtered=False))


def counted_by_definition(levels: tuple[Level, ...], values: list[Any], step: int) -> list[dict[int, Any]]:
    """Full windows over rows, then over results; keys are the first row of the input that a result stands for."""
    found: list[dict[int, Any]] = []
    for level in levels:
        size, slide = level.window.size, level.window.slide
        starts = range(0, len(values) - size + 1, slide)
        results = {start * step: fingerprint(values[start : start + size]) for start in starts}
        if level.below:
            found += counted_by_definition(level.below, list(results.values()), step * slide)
        else:
            found.append(results)
    return found


@given(
    arrangements("numbers"),
    st.lists(st.sampled_from("ab"), max_size=30)
    | st.integers(30, 90).map(lambda rows: ["a", "b", "a"] * (rows // 3)),
    st.lists(st.booleans(), min_size=1, max_size=9),
    st.sampled_from(["start", "end"]),
)
def test_windows_that_count_rows(
    arrangement: Arrangement, groups: list[str], pattern: list[bool], stamp: Any
) -> None:
    table = pa.table({"g": pa.array(groups, pa.string()), "n": pa.array(range(len(groups)), pa.int64())})
    slides = [math.prod(w.slide for w in path) for path in arrangement.paths()]
    common = math.lcm(*slides)
    decided = {k: pattern[k % len(pattern)] for k in range(90)}
    found = run(
        table, arrangement, time=None, group="g", aggregate=fingerprint, stamp=stamp, decided=decided
    ).to_pylist()
    right = {
        (leaf, group, start, value)
        for group in set(groups)
        for leaf, results in enumerate(
            counted_by_definition(arrangement.levels(), [n for n, of in enumerate(groups) if of == group], 1)
        )
        for start, value in results.items()
        if decided[start // common]
    }
    assert {(row.get("branch", 0), row["g"], row["start"], row["value"]) for row in found} == right
    assert len(found) == len(right)
