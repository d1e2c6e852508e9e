"""The daemon's log, on stderr: the service manager keeps it."""

from __future__ import annotations

import logging
import sys

from homespec.units import one_line

_LOUD = ("uvicorn", "sse_starlette")
"""Libraries that tell every step."""


class _LineFormatter(logging.Formatter):
    """One line per record, whatever is in the names that it mentions; a traceback follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))


def log_to_stderr(level: str) -> None:
    """level: as in the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)
