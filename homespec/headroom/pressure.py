"""Signs that memory is short: time stalled on it (PSI), and pages read back from disk."""

from __future__ import annotations

from collections import deque
from pathlib import Path

_MAJOR_FAULTS_FIELD = 9
"""majflt in /proc/PID/stat, counted from the state (proc(5): field 12; the name before it may hold spaces)."""


def stalled_us(path: Path) -> int | None:
    """Microseconds since boot in which every task waited for memory; None where the kernel does not count them."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "full":
            return int(dict(part.split("=") for part in rest.split())["total"])
    return None


def major_faults(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Pages that a process had to read from disk so far; None when it is gone or the system does not tell."""
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[_MAJOR_FAULTS_FIELD])


class Rate:
    """How fast a counter grows, over about the last `window_s` seconds."""

    def __init__(self, window_s: float = 1.0) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, count: int | None, now_s: float) -> float | None:
        """Units per second; None until two samples span half the window, and after the counter is lost or restarts."""
        if count is None or (self._samples and count < self._samples[-1][1]):
            self._samples.clear()
        if count is None:
            return None
        self._samples.append((now_s, count))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - self._window_s:
            self._samples.popleft()
        started_s, before = self._samples[0]
        return (count - before) / (now_s - started_s) if now_s - started_s >= self._window_s / 2 else None
