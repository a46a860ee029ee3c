"""Spares a small Python task 40 ms of waiting for an acknowledgement.

Spark sends a task's input to its Python worker in several small writes. The JVM's end of the socket holds a
small write back until the one before is acknowledged (Nagle), and the worker's end delays the acknowledgement
in the hope of sending it along with data (40 ms on Linux). A task that reads one row waits that long for nothing.
Sessions with ``spark.python.unix.domain.socket.enabled`` do not have the problem; all others get rid of it here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat

_TCP_QUICKACK = 12  # Linux; the socket module has the name only where the system does


def acknowledge_at_once() -> None:
    """Acknowledge what this process has received so far, on every TCP socket; does nothing except on Linux."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                _acknowledge(int(name))


def _acknowledge(descriptor: int) -> None:
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        found = socket.socket(fileno=descriptor)
        try:
            found.setsockopt(socket.IPPROTO_TCP, _TCP_QUICKACK, 1)
        finally:
            found.detach()  # it stays open: it is the worker's
