"""Standing back for other work on the box."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/proc/self/autogroup")


def step_back(nice: int) -> None:
    """Add `nice` to this thread's nice level, which threads and processes that it starts inherit.

    Where the kernel groups processes by session (sched(7), autogroup) a level counts within the session only, and the
    engine is alone in its own: there the group gets the level too.
    """
    if nice:
        level = os.nice(nice)
        with suppress(OSError):  # no such thing on this system
            _GROUP.write_text(str(level))
