"""Make the stored checkpoints and states anew. To be run only when the format on disk changes on purpose.

    python -m tests.data.make_checkpoints [NAME ...]

What lies here was written by an earlier version, and tests hold the present one against it: it must read that state
and go on from it as that version did. So data that no longer fit are a sign of a mistake, as a rule, and not of data
that are too old. Where a format does change, give its new version a name of its own beside what is here.

============================== ===============================================================================
file                           how it was made
============================== ===============================================================================
``checkpoints/KIND``           a query of ``tests/spark/stored_queries.py`` was taken down by an error in its sink in
                               batch 2, which is in the offset log and has its decision, but no commit. The lease,
                               checksums (``.crc``) and half-written files were removed; nothing else was touched
``checkpoints/KIND.json``      what batch 2 and those after it delivered when the same version went on from a copy of
                               that; batch 2 had delivered the same before
``state/NAME.json``            ``state``: made by a case of ``tests/core/stored_states.py``, bytes as text;
                               ``result``: what came out when further rows were fed to what was restored from it
============================== ===============================================================================

Used by ``tests/spark/test_stored_checkpoints.py`` and ``tests/core/test_stored_state.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.core import stored_states
from tests.spark import stored_queries

ROOT = Path(__file__).resolve().parents[2]


def main(names: list[str]) -> None:
    """Make what is named, by default all."""
    kinds = [kind for kind in stored_queries.QUERIES if not names or kind in names]
    for name in stored_states.CASES:
        if not names or name in names:
            make_state(name)
    if kinds:
        spark = a_session()
        for kind in kinds:
            make_checkpoint(spark, kind)
        spark.stop()


def make_state(name: str) -> None:
    """Write down a state and what comes out of it."""
    case = stored_states.CASES[name]
    state = stored_states.plain(stored_states.packed(case.make()))
    result = stored_states.plain(case.go_on(stored_states.unpacked(state)))
    write(stored_states.file_of(name), {"state": state, "result": result})


def make_checkpoint(spark: SparkSession, kind: str) -> None:
    """Take a query down, keep its checkpoint, and write down what a copy of it goes on to deliver."""
    stopped_in, kept = stored_queries.STOPPED_IN, stored_queries.CHECKPOINTS / kind
    # A last event may still be written down while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        checkpoint = Path(folder) / "checkpoint"
        first = stored_queries.run(spark, kind, checkpoint, stop_in=stopped_in)
        assert first.problems == (), first.problems
        tidy(checkpoint)
        require_impersonal(checkpoint)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(checkpoint, kept)
        then = stored_queries.run(spark, kind, checkpoint)
    assert then.problems == (), then.problems
    assert then.rows[stopped_in] == first.rows[stopped_in], "a batch that is done again delivers the same"
    write(kept.with_suffix(".json"), then.rows)


def tidy(checkpoint: Path) -> None:
    """Remove what no restart needs."""
    for file in sorted(checkpoint.rglob("*")):
        if file.is_file() and (file.name == "lease" or file.name.startswith(".")):
            file.unlink()
    for folder in sorted(checkpoint.rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def require_impersonal(checkpoint: Path) -> None:
    """Refuse to keep what tells of this machine and who uses it."""
    told = [str(checkpoint), tempfile.gettempdir(), str(ROOT), str(Path.home())]
    for file in checkpoint.rglob("*"):
        if file.is_file():
            assert not any(text.encode() in file.read_bytes() for text in told), file


def write(file: Path, value: Any) -> None:
    """Write JSON, with one line for each entry."""
    file.parent.mkdir(parents=True, exist_ok=True)
    entries = (f"{json.dumps(str(key))}: {json.dumps(entry)}" for key, entry in value.items())
    file.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


def a_session() -> SparkSession:
    """Return a session like that of the tests."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    main(sys.argv[1:])
