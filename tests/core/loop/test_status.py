"""What the status says of a pattern: units of work, matches, and what was let go of."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

from spillway.core.control import Decision
from spillway.loop.history import Entry
from spillway.loop.status import Status


def entry(**given: Any) -> Entry:
    """A batch of a thousand rows, all taken in."""
    rest: dict[str, Any] = {field.name: 0 for field in fields(Entry) if field.default is MISSING}
    return Entry(**(rest | {"arrived_rows": 1_000, "kept_rows": 1_000, "worst_delay_s": None} | given))


def test_a_pattern_takes_in_rows_and_tells_of_partial_matches() -> None:
    last = entry(work_demanded=400.0, work_spent=100.0, matches=7, shed_runs=30, sampled_out_rows=2)
    shown = Status(name="n", mode="enforce", running=True, decision=Decision(), last=last, problems=())
    assert "took in 1,000 rows" in str(shown)
    assert "did 100 of about 400 units of work (25%), 7 matches" in str(shown)
    assert "left out: 2 dropped for lack of time, 30 partial matches" in str(shown)
    assert "kept" not in str(shown)
    observed = replace(shown, mode="observe", last=replace(last, work_budget=50.0))
    assert "enforcing would have done 50" in str(observed)
    assert "enforcing would have dropped" not in str(observed)


def test_a_pattern_without_a_match_compares_no_pairs() -> None:
    last = entry(work_demanded=400.0, work_spent=400.0, runs=3)
    shown = Status(name="n", mode="enforce", running=True, decision=Decision(), last=last, problems=())
    assert "did 400 of about 400 units of work (100%), 0 matches" in str(shown)


def test_where_rows_are_shed_as_well_both_are_told() -> None:
    last = entry(kept_rows=600, work_demanded=400.0, work_spent=400.0, matches=7)
    shown = Status(name="n", mode="enforce", running=True, decision=Decision(), last=last, problems=())
    assert "kept 600 of 1,000 rows" in str(shown)
    assert "7 matches" in str(shown)


def test_a_batch_without_rows_does_not_hide_what_was_let_go_of_in_the_one_before() -> None:
    busy = entry(batch=6, work_demanded=400.0, work_spent=100.0, matches=7, shed_runs=30)
    idle = entry(batch=7, arrived_rows=0, kept_rows=0)
    shown = Status(
        name="n",
        mode="enforce",
        running=True,
        decision=Decision(),
        last=idle,
        last_with_rows=busy,
        problems=(),
    )
    lines = str(shown).splitlines()
    assert "batch 6: took in 1,000 rows" in lines[1]
    assert "(25%)" in lines[2]
    assert "30 partial matches" in lines[2]
    assert "batch 7: kept 0 of 0 rows" in lines[3]
    assert str(replace(shown, last=busy)).count("batch 6") == 1
