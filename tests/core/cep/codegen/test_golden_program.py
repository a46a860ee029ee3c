"""The generated programs are the ones that were there before, to the letter.

One of them stands on a page, ``docs/algorithms/cep-program.md``, where a reader sees what comes out. Of the others
there are sha256 digests in ``programs.json``, so that a change of the generator's form shows that it changes nothing
else. A change that is meant changes the page and the digests; both are renewed by ::

    .venv/bin/python -m tests.core.cep.codegen.test_golden_program
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spillway.core.cep import PatternConfig
from spillway.core.cep.language.listings import LISTINGS
from tests.core.cep.strategies import SCHEMA
from tests.docs.markdown import ROOT, read

PAGE = ROOT / "docs" / "algorithms" / "cep-program.md"
DIGESTS = Path(__file__).with_name("programs.json")

PAPER = pa.schema(
    [
        *(
            (name, pa.int64())
            for name in ("ts", "ID", "V", "v", "start", "end", "bike", "task_id", "machine")
        ),
        *((name, pa.float64()) for name in ("x", "y")),
        ("type", pa.string()),
    ]
)
THREE = "SEQ(A a, B b, C c) WHERE [id] AND a.v + b.v = c.v WITHIN 8 us"
LOOP = "SEQ(A a, B+ b[], C c) WHERE [id] AND b[i+1].v >= b[i].v WITHIN 8 us"
NEXT, STRICT = " UNDER skip_till_next_match", " UNDER strict_contiguity"
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "one element": ("SEQ(A a) WITHIN 8 us", {}),
    "computed equality": (THREE, {}),
    "computed equality, indexed by attributes": (THREE, {"index": "attributes"}),
    "computed equality, not indexed": (THREE, {"index": "none"}),
    "computed equality, tracked": (THREE, {"tracked": True, "classes": 8}),
    "fractions as keys": ("SEQ(A a, B b) WHERE a.x = b.v AND floor(a.x) = floor(b.x) WITHIN 8 us", {}),
    "alternatives of types": ("SEQ((A|B) a, (B|C) b, (A|C) c) WHERE [tag] WITHIN 8 us INCLUSIVE", {}),
    "alternatives of conditions": (
        "SEQ(A a, B b) WHERE (a.tag = 'p' OR b.tag IN {'q', 'r'}) AND NOT (a.flag AND b.v NOT IN {0, 1}) "
        "WITHIN 8 us",
        {},
    ),
    "functions": (
        "SEQ(A a, B b) WHERE sqrt(a.v^2 + b.v^2) < least(a.x, b.x, 3) AND round(log(a.v)) >= a.v % 3 "
        "AND seconds(a.ts, b.ts) <= 3e-6 AND -a.v * b.v > a.v - b.id WITHIN 8 us",
        {},
    ),
    "repeated": (LOOP, {}),
    "repeated, tracked, one slice": (LOOP, {"tracked": True, "slices": 1}),
    "repeated, next": (LOOP + NEXT, {}),
    "repeated, strict, tracked": (LOOP + STRICT, {"tracked": True}),
    "repeated at the end, bounded": ("SEQ(A a, B{2,3} b[]) WHERE b[i].v != a.v WITHIN 8 us", {}),
    "aggregates": (
        "SEQ(A a, B+ b[], C{1,2} c[]) WHERE sum(b[i].v * a.v) >= avg(c[i].x) AND count(b[]) = a.v + 1 "
        "AND min(b[i].v) < max(c[i].x) AND b[first].v < b[last].v WITHIN 8 us",
        {},
    ),
    "all rows of a chain": ("SEQ(A a, B+ b[], C c) WHERE b[i].v < c.v AND b[i].x < a.x WITHIN 8 us", {}),
    "negation first": ("SEQ(NEG C n, A a, B b) WHERE [id] AND n.v > a.v WITHIN 8 us", {}),
    "negation between": (
        "SEQ(A a, NEG (B|C) n, B+ b[]) WHERE n.id = a.id AND n.v < b[last].v WITHIN 8 us",
        {},
    ),
    "negation last, next": ("SEQ(A a, B b, NEG C n) WHERE [id] WITHIN 8 us" + NEXT, {}),
    "negation last, tracked, timeouts": (
        "SEQ(A a, B+ b[], C c, NEG A n) WHERE [id] WITHIN 8 us",
        {"tracked": True, "timeouts": True, "most_runs": 1000},
    ),
    "listing q2": (LISTINGS["q2"], {}),
    "listing hot_paths, tracked": (LISTINGS["hot_paths"], {"tracked": True}),
}
WRITTEN: dict[str, str] = json.loads(DIGESTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", QUERIES)
def test_a_program_is_as_before(name: str) -> None:
    assert digest(name) == WRITTEN[name]


def test_every_query_has_a_program_of_its_own() -> None:
    assert list(WRITTEN) == list(QUERIES)
    assert len(set(WRITTEN.values())) == len(QUERIES)


def test_the_page_shows_the_program_that_is_generated() -> None:
    shown, generated = on_page()
    assert shown == generated


def digest(name: str) -> str:
    """The sha256 of a query's program."""
    text, options = QUERIES[name]
    query, schema = (text, PAPER) if name.startswith("listing") else (f"PATTERN {text}", SCHEMA)
    patterns = PatternConfig(query, schema, time="ts", compile=False, **options).build()
    return hashlib.sha256(patterns.source.encode()).hexdigest()


def on_page() -> tuple[str, str]:
    """The program that the page shows, and the one that the page's first snippet generates."""
    first, second = (fence for fence in read(PAGE).fences if fence.language == "python")
    names: dict[str, Any] = {}
    exec(first.text, names)
    return second.text, names["program"]


def renew() -> None:
    """Write down what is generated now."""
    shown, generated = on_page()
    PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(shown, generated), encoding="utf-8")
    digests = {name: digest(name) for name in QUERIES}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew()
