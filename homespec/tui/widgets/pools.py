"""Every pool of memory as a bar with its water marks, the numbers it is drawn from, and which models stay loaded."""

from __future__ import annotations

from itertools import chain

from homespec.status import MemoryStatus, PoolStatus, ResidentStatus, Status
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.pool_bar import DRAFTER, HIGH, KV, LOW, OTHERS, RESERVE, RESIDENTS, TARGET, legend, pool_bar
from homespec.tui.text import UNKNOWN, fit
from homespec.tui.widgets.memory import memory_title
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import MIB, clean, format_bytes, format_duration

LABEL_WIDTH = 8


class PoolsPanel(Panel):
    """Two lines a pool, the legend and the residents under them; numbers of pools give way where there is no room."""

    def __init__(self) -> None:
        super().__init__("pools")

    def title(self, status: Status) -> str:
        memory = status.memory
        kv = f" · KV cache {memory.kv_used_tokens} of {memory.kv_total_tokens} tokens" if memory else ""
        return memory_title(status) + kv

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        memory = status.memory
        if memory is None:
            return [line((NOT_LOADED, MUTED))]
        tail = [line((legend(memory.pools), MUTED)), *_residents(memory, width)]
        room = max(height - len(tail) - len(memory.pools), 0)
        rows = chain.from_iterable(_pool(pool, width)[: 2 if at < room else 1] for at, pool in enumerate(memory.pools))
        return [*rows, *tail]


def pool_numbers(pool: PoolStatus, width: int) -> str:
    """What each share and each mark comes to; the sum of the shares and what is free is the pool.

    They go by the signs of the legend where their names leave too little room.
    """
    residents = ((RESIDENTS, "residents", pool.residents_bytes),) if pool.residents_bytes else ()
    shares = (
        (TARGET, "target", pool.target.total_bytes - pool.target.kv_bytes),
        (KV, "KV", pool.target.kv_bytes),
        (DRAFTER, "drafter", pool.drafter.total_bytes),
        *residents,
        (OTHERS, "others", pool.others_bytes),
        (RESERVE, "reserve", pool.reserve_bytes),
        (LOW, "low", pool.low_bytes),
        (HIGH, "high", pool.high_bytes),
    )
    sizes = [UNKNOWN if size is None else f"{size / MIB:.0f}" for _, _, size in shares]
    named, signed = (
        "  ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True)) + " MiB"
        for names in ([name for _, name, _ in shares], [sign for (sign, _), _, _ in shares])
    )
    return named if len(named) <= width else signed


def _pool(pool: PoolStatus, width: int) -> list[Line]:
    text = clean(pool.source)
    if pool.total_bytes is not None and pool.free_bytes is not None:
        text = f"{format_bytes(pool.free_bytes)} of {format_bytes(pool.total_bytes)} free"
    room = max(width - LABEL_WIDTH - len(text) - 2, 0)
    label = f"{fit(pool.name, LABEL_WIDTH)} "
    return [line((label, "bold"), *pool_bar(pool, room), f" {text}"), line((pool_numbers(pool, width), MUTED))]


def _residents(memory: MemoryStatus, width: int) -> list[Line]:
    """`also loaded: digits 4.81 GiB, idle 3.2m`; the one that was used last comes first."""
    if not memory.residents:
        return []
    return wrapped(f"also loaded: {' · '.join(map(_resident, reversed(memory.residents)))}", width)


def _resident(resident: ResidentStatus) -> str:
    return f"{resident.id} {format_bytes(resident.memory.total_bytes)}, idle {format_duration(resident.idle_s)}"
