"""A local Spark session for the demo and the benchmark: quiet, private to this machine, gone when done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.demo.interrupts import held_interrupts, hold_again, raise_if_interrupted
from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAST_JAVA = 17
_PATIENCE_S = 20.0


@contextmanager
def session(name: str, *, fast_start: bool = False) -> Iterator[tuple[SparkSession, Path]]:
    """Give a session on this machine's cores and a folder for checkpoints; both are gone afterwards.

    Spark starts the Python that it finds in PATH unless told otherwise, which need not have Spillway, so it is
    told. Nothing listens on an outside address. What the JVM and its Python processes print goes to a file
    in the folder, so that the console stays free; its end is part of the error if no session comes up.

    A fresh JVM needs half a minute at full load until its optimising compiler has done its work.
    ``fast_start`` leaves that compiler out: the JVM is at its speed after seconds, at half of what it could be.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    check_java()
    folder = Path(tempfile.mkdtemp(prefix="spillway-"))
    try:
        with held_interrupts():
            spark = _start(name, folder, fast_start=fast_start)
            try:
                hold_again()  # Spark has just put its own handler in place
                raise_if_interrupted()
                yield spark, folder
            finally:
                _stop(spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(name: str, folder: Path, *, fast_start: bool) -> SparkSession:
    from pyspark.sql import SparkSession  # slow, so not before it is needed

    log = folder / "spark.log"
    cores = os.cpu_count() or 1
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1" if fast_start else "")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
    )
    try:
        with _output_to(log):
            spark = builder.getOrCreate()
    except Exception as error:
        said = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
        raise SpillwayError(f"no Spark session came up: {error}\n{said}") from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _stop(spark: SparkSession) -> None:
    """Stop the session and then its JVM, which would otherwise stay for as long as this process."""
    context = type(spark.sparkContext)
    gateway = context._gateway
    spark.stop()
    jvm = getattr(gateway, "proc", None)
    if gateway is None or jvm is None:
        return
    gateway.shutdown()
    context._gateway = context._jvm = None
    jvm.stdin.close()  # its end is what the JVM waits for
    try:
        jvm.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait(_PATIENCE_S)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send what processes started meanwhile print to a file: they inherit the two descriptors."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        yield
    finally:
        for number, former in enumerate(kept, start=1):
            os.dup2(former, number)
            os.close(former)


def check_java() -> None:
    """Raise :class:`SpillwayError` where Spark would not find a Java that it can run on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        where = f"JAVA_HOME is {home}, where no java runs" if home else "there is no java in PATH"
        raise SpillwayError(
            f"Spark needs Java {_LEAST_JAVA} or newer: {where}.",
            hint="install one, as with `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME",
        ) from None
    version = (ran.stderr + ran.stdout).partition('version "')[2].partition(".")[0]
    if version.isdigit() and int(version) < _LEAST_JAVA:
        raise SpillwayError(
            f"Spark needs Java {_LEAST_JAVA} or newer, found Java {version}.",
            hint="set JAVA_HOME to a newer one",
        )
