"""One Spark session for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

# Short queries are not worth thorough compilation nor threads for garbage, and small processes start in no time.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores, with nothing open to the outside and nothing left behind."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        # Spark starts the Python it finds in PATH unless told otherwise; that one need not have Spillway.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Modules of the tests (row generators, functions in queries) are there in Spark's Python as well.
        root = str(Path(__file__).resolve().parents[2])
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))
        session = (
            SparkSession.builder.master("local[2]")
            .appName("spillway-tests")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", JVM)
            # Workers of Python are forked with all imports done.
            .config("spark.python.daemon.module", "tests.spark.daemon")
            # Files without checksums beside them: Hadoop starts a `chmod` for each file that it writes.
            .config("spark.hadoop.fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def _no_query_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop what a failed test left running, so that it does not disturb the next."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()
