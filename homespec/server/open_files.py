"""How many files and sockets this process may have open, and how many of them clients may take."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import time
from contextlib import suppress
from typing import Any

_WANTED = 4096
_MAX_CONNECTIONS = 512
_SHARE = 2
"""Of that many files clients take at most one: engines, probes and caches need some too."""
_REMINDER_S = 60.0

logger = logging.getLogger("homespec.server")


def raise_limit() -> None:
    """As many as the system allows this process, up to 4096; a service starts with 1024, a shell on macOS with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def max_connections() -> int:
    """Connections of clients at a time, at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MAX_CONNECTIONS, soft // _SHARE)


class Shortage:
    """asyncio's exception handler: that no connection can be taken is one line a minute. asyncio itself says it with a
    traceback, for each connection that waits, again and again.
    """

    def __init__(self) -> None:
        self._told_at: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        is_shortage = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
        if not (is_shortage and "socket" in context):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if self._told_at is None or now - self._told_at >= _REMINDER_S:
            self._told_at = now
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            logger.error("no connection can be taken, %d files may be open; raise the limit (ulimit -n)", soft)
