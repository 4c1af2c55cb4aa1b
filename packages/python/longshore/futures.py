"""Runs as futures of the standard library."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Callable, Deque

from .connection import WAIT_S
from .run import Run

THREADS = 32
FULL_WAIT_S = 2
"""How long a request is held when there are as many threads as there may be, and other runs wait for one."""


class RunFuture(Future[Run]):
    """The end of a run. Its `cancel` returns False, as that of any future which has begun: `Longshore.cancel` cancels the run."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        """The run as it was when the future was made."""
        self.set_running_or_notify_cancel()


class Watch:
    """Waits for the ends of runs by a few threads, however many runs there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Deque[Callable[[int], bool]] = deque()
        self._threads = 0

    def add(self, look: Callable[[int], bool]) -> None:
        """look: settles a future if its run ends within so many seconds, and returns whether it has. It never raises."""
        with self._lock:
            self._open.append(look)
            if self._threads < THREADS:
                threading.Thread(target=self._go_on, daemon=True).start()
                self._threads += 1

    def _go_on(self) -> None:
        while True:
            with self._lock:
                if not self._open:
                    self._threads -= 1
                    return
                look = self._open.popleft()
                wait = WAIT_S if self._threads < THREADS else FULL_WAIT_S
            if not look(wait):
                with self._lock:
                    self._open.append(look)
