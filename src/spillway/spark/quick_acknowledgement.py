"""Saves a small Python task a wait of 40 ms for a TCP acknowledgement.

Spark sends a task's input to its Python worker in several small writes. The JVM's end of the socket holds a small
write back until the one before is acknowledged (Nagle), and the worker's end delays the acknowledgement so that it
can be sent along with data (40 ms on Linux). So a task that reads one row waits 40 ms for nothing. Sessions with
``spark.python.unix.domain.socket.enabled`` do not have the problem; this module solves it for all others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat

_TCP_QUICKACK = 12  # Linux; the socket module has this name only on systems that have the option


def acknowledge_at_once() -> None:
    """Acknowledge all data received so far, on every TCP socket of this process; does nothing except on Linux."""
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
            found.detach()  # the descriptor stays open: it belongs to the worker
