"""The plan: which equalities become keys, what is tested, what runs carry."""

from __future__ import annotations

from spillway.core.cep.language import parse
from spillway.core.cep.plan.plan import Plan
from spillway.core.cep.plan.terms import words

KINDS = {"id": "int", "v": "int", "x": "float", "start": "int", "end": "int"}


def plan(text: str, **options: object) -> Plan:
    return Plan(parse(text), KINDS, {}, **options)  # type: ignore[arg-type]


def keys(made: Plan) -> list[list[str]]:
    return [[f"{words(key.run)}={key.row.name}" for key in index.keys] for index in made.indexes]  # type: ignore[union-attr]


def test_computed_equalities_are_keys() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id AND c.id = a.id AND a.v + b.v = c.v WITHIN 1 s"
    made = plan(text)
    assert keys(made) == [["a.id=id"], ["a.id=id", "a.v+b.v=v"]]
    assert [step.tests for step in made.steps] == [[], [], []]
    assert [words(leaf) for leaf in made.indexes[1].leaves] == ["a[row].", "b[row]."], "keys are not carried"
    assert keys(plan(text, index_by="attributes")) == [["a.id=id"], ["a.id=id"]]
    carried = plan(text, index_by="attributes").indexes[1].leaves
    assert "a.v+b.v" in [words(leaf) for leaf in carried], "computed once, when the run is made"
    assert keys(plan(text, index_by="none")) == [[], []]


def test_each_step_has_its_own_index_where_runs_go_on() -> None:
    text = (
        "PATTERN SEQ(T+ a[], T b) WHERE a[i+1].id = a[i].id AND a[last].id = b.id "
        "AND a[i+1].start = a[i].end WITHIN 1 h"
    )
    assert keys(plan(text)) == [["a[last].id=id", "a[last].end=start"], ["a[last].id=id"]]
    assert keys(plan(text + " UNDER skip_till_next_match")) == [["a[last].id=id"]], "what they have in common"
    assert keys(plan(text + " UNDER strict_contiguity")) == [[]]


def test_a_condition_on_all_rows_implies_one_on_the_last() -> None:
    made = plan("PATTERN SEQ(A+ a[], B b) WHERE a[i].id = b.id WITHIN 1 s")
    assert keys(made) == [[], ["a[last].id=id"]]
    assert made.indexes[1].steps[0].tests[0].walk == "a"
