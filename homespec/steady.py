"""For tasks that do the same again and again, and must go on whatever one turn of it comes to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Steady:
    """Faults go to the log and no further: one that comes with every turn is told once."""

    def __init__(self, logger: logging.Logger, what: str) -> None:
        """what: the work, as in `reading memory`."""
        self._logger = logger
        self._what = what
        self._told = ""

    @contextmanager
    def turn(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if repr(error) != self._told:
                self._logger.exception("%s failed", self._what)
            self._told = repr(error)
