"""Work that other threads leave for the scheduler's."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

Task = Callable[[], None]

_IDLE_WAIT_S = 0.5


class Inbox:
    """`post` may be used by any thread, `run` by the scheduler's only."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Task] = SimpleQueue()

    def post(self, task: Task) -> None:
        self._tasks.put(task)

    def run(self, *, wait: bool) -> None:
        """Do all that was posted; with `wait`, wait a moment for the first of it."""
        try:
            task = self._tasks.get(timeout=_IDLE_WAIT_S) if wait else self._tasks.get_nowait()
            while True:
                task()
                task = self._tasks.get_nowait()
        except Empty:
            return
