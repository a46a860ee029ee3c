"""Spark's daemon for Python workers, with everything imported that a worker of the tests imports anyway.

Spark forks a worker for each query that plans a source, and for each task that runs beside another; each imports
pandas, Arrow and Spillway anew, which takes longer than most tests let it work. Forked from here they find it done.

Spark itself imports nothing before it forks, because some libraries start threads when they are imported, and a
fork does not copy those. That is looked at: with a thread, the daemon makes way for Spark's own. Tests that start a
Spark in a process of its own leave the workers as Spark has them.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading

NEEDED = ("pandas", "pyarrow.compute", "pyarrow.parquet", "spillway.replay", "spillway.spark")


def threads() -> int:
    """Return how many threads this process has: those of native libraries too, where the system tells."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def main() -> None:
    """Import, and be Spark's daemon."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # as many as a task has cores
    os.environ["JE_ARROW_MALLOC_CONF"] = (
        "background_thread:false"  # Arrow gives memory back when it is asked to
    )
    for module in (sys.argv[1], *NEEDED):
        importlib.import_module(module)
    if threads() > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # what is shared with the workers stays shared
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
