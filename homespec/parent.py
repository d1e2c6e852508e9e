"""What a child does for the process that started it: end with it, and answer on a stdout of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux: SIGKILL when the parent dies. Elsewhere the end of a pipe or socket has to tell."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def reserve_stdout() -> BinaryIO:
    """Stdout for answers alone: whatever else this process writes there, libraries included, goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
