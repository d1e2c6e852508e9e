"""How many threads to decode with on a box that does other work too: the cores that others use are left to them.

Threads of one pass wait for the slowest of them, and one that shares its core with other work is slow: beside it, fewer
threads lose little, and the other work gets a core of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.library import library
from homespec.engine.threads import usable_cpus
from homespec.frames import EngineSettings
from homespec.status import DECODING_WITH

INTERVAL_S = 1.0
GIVE_UP, TAKE_BACK = 2, 10
"""Looks in a row that must agree before a thread is given up, and before one is taken back."""
_ROOM, _CLEAR_ROOM = 0.5, 0.75
"""Of a core: with less than the first left for it a thread goes, with the second it may come back."""
_SPLIT_BY_THREADS = ("f16", "f32")
"""With these keys, attention of one row sums in as many parts as there are threads, so their number moves last bits
(ggml-cpu/ops.cpp, ggml_compute_forward_flash_attn_ext)."""


def may_vary(settings: EngineSettings, target: ContextParams, *, on_cpu: bool) -> bool:
    """Whether the number of threads may change while answers run: never one that was set, nor where it moves a bit."""
    return settings.threads is None and on_cpu and target.n_threads > 1 and target.kv_type not in _SPLIT_BY_THREADS


@dataclass(slots=True)
class ThreadCount:
    """The number of threads at the moment, `most` at first."""

    most: int
    num_cpus: int
    """That this process may run on."""
    current: int = 0
    _wish: int = 0
    _num_agreed: int = 0

    def __post_init__(self) -> None:
        self.current = self._wish = self.most

    def update(self, others: float) -> bool:
        """others: how many CPUs' time somebody else has taken since the last look. Whether the number has changed."""
        wish = self._wanted(others)
        self._num_agreed = self._num_agreed + 1 if wish == self._wish else 1
        self._wish = wish
        if wish == self.current or self._num_agreed < (GIVE_UP if wish < self.current else TAKE_BACK):
            return False
        self.current = wish
        return True

    def _wanted(self, others: float) -> int:
        left, wanted = self.num_cpus - others, self.current
        while wanted > 1 and left < wanted - 1 + _ROOM:
            wanted -= 1
        while wanted < self.most and left >= wanted + _CLEAR_ROOM:
            wanted += 1
        return wanted


class CrowdWatch:
    """Looks at the box now and then, and tells the engine's contexts how many threads to use."""

    def __init__(self, settings: EngineSettings, target: Context) -> None:
        self._crew = target.crew
        self._meter = OthersMeter()
        on_cpu = not settings.n_gpu_layers or not library().offload_devices()
        may = may_vary(settings, target.params, on_cpu=on_cpu)
        self._count = ThreadCount(target.params.n_threads, self._meter.num_cpus) if may else None
        self._looked_at_s = float("-inf")

    def look(self, now_s: float) -> str:
        """What has changed, for people; empty when nothing has. Cheap when called too often."""
        if self._count is None or now_s - self._looked_at_s < INTERVAL_S:
            return ""
        self._looked_at_s = now_s
        others = self._meter.read(now_s)
        if others is None or not self._count.update(others):
            return ""
        self._crew.size = self._count.current if self._count.current < self._count.most else None
        return (
            f"{DECODING_WITH} {self._count.current} of {self._count.most} threads: other work takes {others:.1f} of "
            f"{self._count.num_cpus} CPUs"
        )


class OthersMeter:
    """CPU time that everybody but this process takes, on the CPUs that it may run on."""

    def __init__(self) -> None:
        self._cpus = usable_cpus()
        self._before: tuple[float, float] | None = None

    @property
    def num_cpus(self) -> int:
        return len(self._cpus)

    def read(self, now_s: float) -> float | None:
        """CPUs' worth of time since the last call; None at the first, and where the system does not tell."""
        try:
            times = psutil.cpu_times(percpu=True)
            own = psutil.Process().cpu_times()
            busy_s = sum(_busy_s(times[cpu]) for cpu in self._cpus) - own.user - own.system
        except (psutil.Error, OSError, IndexError):
            return None
        before, self._before = self._before, (now_s, busy_s)
        if before is None or now_s <= before[0]:
            return None
        return max(0.0, (busy_s - before[1]) / (now_s - before[0]))


def _busy_s(times: object) -> float:
    """Time at work; what guests take is part of `user`."""
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(float(getattr(times, name, 0.0)) for name in names)
