"""Runs that are declared first and done afterwards, on all cores: figures read their outcome from a table.

A task is a value. Tasks of one group share what they have to prepare (events, what was learned, the truth), so one
process does them one after the other. Several figures may ask for the same task; it is done once.

Processes are started as ``python -m benchmarks.cep.worker`` and spoken to through pipes, so it does not matter
how the program was started that asks for them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Protocol

from spillway.errors import SpillwayError

Told = Callable[[int, int], None]
"""Called with (tasks done, tasks in all)."""


class Task(Protocol):
    """A run that is asked for: a frozen value that can be pickled."""

    @property
    def group(self) -> Hashable:
        """Tasks of one group share what they prepare."""

    def run(self) -> Any:
        """Return what came out."""


def outcomes(tasks: Iterable[Task], told: Told, processes: int | None = None) -> dict[Task, Any]:
    """Do all tasks and return what came out of each."""
    groups: dict[Hashable, list[Task]] = {}
    for task in dict.fromkeys(tasks):
        groups.setdefault(task.group, []).append(task)
    waiting = sorted(groups.values(), key=_weight, reverse=True)
    count = min(len(waiting), processes or min(4, os.cpu_count() or 1))
    if count <= 1:
        return _here(waiting, told)
    return _elsewhere(waiting, told, count)


def _weight(group: Sequence[Task]) -> int:
    """Return how long a group takes, roughly: the longest are begun first, so that none is left alone at the end."""
    return sum(getattr(task, "weight", 1) for task in group)


def _here(groups: Sequence[Sequence[Task]], told: Told) -> dict[Task, Any]:
    found: dict[Task, Any] = {}
    total = sum(len(group) for group in groups)
    for group in groups:
        for task in group:
            found[task] = task.run()
            told(len(found), total)
    return found


def _elsewhere(groups: Sequence[Sequence[Task]], told: Told, count: int) -> dict[Task, Any]:
    found: dict[Task, Any] = {}
    total, lock = sum(len(group) for group in groups), Lock()
    queue: SimpleQueue[Sequence[Task]] = SimpleQueue()
    for group in groups:
        queue.put(group)

    def work() -> None:
        with _Worker() as worker:
            while True:
                try:
                    group = queue.get_nowait()
                except Empty:
                    return
                for task in group:
                    value = worker.ask(task)
                    with lock:
                        found[task] = value
                        told(len(found), total)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work) for _ in range(count)]:
            done.result()
    return found


class _Worker:
    """Another process that does one task after the other."""

    def __enter__(self) -> _Worker:
        run = [sys.executable, "-m", "benchmarks.cep.worker"]
        self._process = subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def ask(self, task: Task) -> Any:
        """Return what came out of a task."""
        given, taken = self._process.stdin, self._process.stdout
        try:
            pickle.dump(task, given)  # type: ignore[arg-type]
            given.flush()  # type: ignore[union-attr]
            value = pickle.load(taken)  # type: ignore[arg-type]  # what this program wrote itself
        except (OSError, EOFError) as error:
            raise SpillwayError(f"a process of the benchmark ended in the middle of {task}.") from error
        if isinstance(value, BaseException):
            raise value
        return value

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait()
