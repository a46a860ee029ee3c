"""Moving ``not`` inwards changes no answer, whatever is unknown: the condition as it was written is the witness."""

from __future__ import annotations

from hypothesis import given

from spillway.core.cep.language import parse
from spillway.core.cep.language.parser import as_written
from spillway.core.cep.language.syntax import Operation
from tests.core.cep.oracle import parts, value
from tests.core.cep.strategies import Row, joined_tests, streams


@given(joined_tests(["a", "b"], [], None, 3), streams())
def test_the_normal_form_says_the_same(condition: str, rows: list[Row]) -> None:
    text = f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 1 s"
    (written,) = as_written(text).conditions
    normal = parse(text).conditions
    assert not any(
        isinstance(part, Operation) and part.operator == "not" for c in normal for part in parts(c)
    )
    for row in rows:
        named = {"a": [row], "b": [rows[0]]}
        assert (value(written, named, {}) is True) == all(value(c, named, {}) is True for c in normal)
