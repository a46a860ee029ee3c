"""Ctrl-C at a moment of our choosing.

Spark is driven over a socket. A KeyboardInterrupt in the middle of a call leaves an answer unread, which the
next call takes for its own, and then nothing can be stopped in good order any more. So an interrupt is held
back until the next place that asks for it; who waits in a loop asks ten times a second. A second interrupt is
raised at once.

>>> import os
>>> with held_interrupts():
...     os.kill(os.getpid(), signal.SIGINT)
...     print("still here")
...     try:
...         raise_if_interrupted()
...     except KeyboardInterrupt:
...         print("now")
still here
now
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pending = threading.Event()


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold interrupts back within this block, and raise one that is still held back at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # the signal is not ours to handle
        return
    before = signal.signal(signal.SIGINT, _hold)
    try:
        yield
        raise_if_interrupted()
    finally:
        _pending.clear()
        signal.signal(signal.SIGINT, before)


def hold_again() -> None:
    """Hold interrupts back again after something else has put its own handler in place."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _hold)


def raise_if_interrupted() -> None:
    """Raise the interrupt that was held back, if there is one."""
    if _pending.is_set():
        _pending.clear()
        raise KeyboardInterrupt


def _hold(_number: int, _frame: FrameType | None) -> None:
    if _pending.is_set():
        raise KeyboardInterrupt
    _pending.set()
