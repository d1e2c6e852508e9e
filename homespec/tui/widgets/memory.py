"""What the target, the drafter, residents and the others hold, pool by pool, and what memory pressure did."""

from __future__ import annotations

from homespec.status import MemoryStatus, ModelMemory, PoolStatus, Status, Transition, Watch
from homespec.tui.glyphs import TRACK, bar_cells, share_cells
from homespec.tui.line import FAINT, MUTED, Line, line, wrapped
from homespec.tui.pool_bar import legend, pool_bar
from homespec.tui.text import UNKNOWN, percent
from homespec.tui.widgets.events import moment
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import GIB, MIB, clean, format_bytes

LABEL_WIDTH = 15
SHORT_LABEL_WIDTH = 8
DETAILED_HEIGHT = 8
DETAILED_WIDTH = 44
"""From this many lines and columns on, pools come with their numbers and the legend."""
PARTS = (("━", "$primary"), ("═", "$success"), ("╍", "$accent"))
"""Weights, KV cache, compute: told apart by the line first, by colour second."""
VALUE_WIDTH = 19


class MemoryPanel(Panel):
    """Pools have a bar each, over all they hold; target and drafter share one scale; the KV cache has its own."""

    def __init__(self) -> None:
        super().__init__("memory")

    def title(self, status: Status) -> str:
        return memory_title(status)

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        memory = status.memory
        if memory is None:
            return [line((NOT_LOADED, MUTED))]
        if height >= DETAILED_HEIGHT and width >= DETAILED_WIDTH:
            return _detailed(memory, width, status.time_unix)
        return _compact(memory, width, height, status.time_unix)


def memory_title(status: Status) -> str:
    """What the engine holds, and whether pressure keeps a drafter out."""
    memory = status.memory
    engine = format_bytes(memory.engine_rss_bytes) if memory else UNKNOWN
    withdrawn = memory and memory.monitor and memory.monitor.watch is Watch.WITHDRAWN
    # A narrow panel cuts the end of its title.
    return "memory · " + ("drafter withdrawn · " if withdrawn else "") + f"engine RSS {engine}"


def _compact(memory: MemoryStatus, width: int, height: int, now_unix: float) -> list[Line]:
    """Models and KV cache give way to pools; the last transition is shown where there is a line to spare."""
    pools = _pools(memory, SHORT_LABEL_WIDTH, width)
    whole = memory.target.total_bytes + memory.drafter.total_bytes
    models = [
        _model("target", memory.target, whole, width),
        _model("drafter", memory.drafter, whole, width),
        _meter("KV", *_kv(memory), SHORT_LABEL_WIDTH, width),
    ]
    return [*models[: max(height - len(pools), 0)], *pools, *_transitions(memory, width, now_unix)]


def _detailed(memory: MemoryStatus, width: int, now_unix: float) -> list[Line]:
    whole = memory.target.total_bytes + memory.drafter.total_bytes
    target = memory.target
    parts = (
        ("target weights", target.weights_bytes, 0),
        ("target context", target.kv_bytes + target.compute_bytes, 1),
        ("drafter", memory.drafter.total_bytes, 2),
    )
    rows = [
        _meter(label, size / whole if whole else 0.0, format_bytes(size), LABEL_WIDTH, width, PARTS[part])
        for label, size, part in parts
    ]
    return [
        *_pools(memory, LABEL_WIDTH, width),
        *(row for pool in memory.pools for row in wrapped(_numbers(pool), width, MUTED)),
        *wrapped(legend(memory.pools), width, MUTED),
        *rows,
        _meter("KV cache used", *_kv(memory), LABEL_WIDTH, width),
        *_transitions(memory, width, now_unix),
    ]


def _pools(memory: MemoryStatus, label_width: int, width: int) -> list[Line]:
    """`host     ━━━═╍╌╌──┆─┃  5.0 of 8.0 GiB free`."""
    if not memory.pools:
        return [_meter("host", *_host(memory), label_width, width)]
    return [_pool(pool, label_width, width) for pool in memory.pools]


def _pool(pool: PoolStatus, label_width: int, width: int) -> Line:
    text = clean(pool.source)
    if pool.total_bytes is not None and pool.free_bytes is not None:
        text = f"{pool.free_bytes / GIB:.1f} of {pool.total_bytes / GIB:.1f} GiB free"
    room = _bar_width(text, label_width, width)
    return line((f"{clean(pool.name):<{label_width}} ", MUTED), *pool_bar(pool, room), f" {text:>{VALUE_WIDTH}}")


def _numbers(pool: PoolStatus) -> str:
    """`host: others 2.70 GiB, low 205, high 411 MiB`, with what residents hold before the others."""
    low, high = (UNKNOWN if mark is None else f"{mark / MIB:.0f}" for mark in (pool.low_bytes, pool.high_bytes))
    residents = f"residents {format_bytes(pool.residents_bytes)}, " if pool.residents_bytes else ""
    return f"{clean(pool.name)}: {residents}others {format_bytes(pool.others_bytes)}, low {low}, high {high} MiB"


def _transitions(memory: MemoryStatus, width: int, now_unix: float) -> list[Line]:
    """Newest first."""
    transitions = memory.monitor.transitions if memory.monitor else ()
    return [row for each in reversed(transitions) for row in _transition(each, now_unix).wrap(max(width, 1))]


def _transition(transition: Transition, now_unix: float) -> Line:
    return line((f"{moment(transition.time_unix, now_unix)} ", MUTED), clean(transition.reason))


def _model(label: str, memory: ModelMemory, whole: int, width: int) -> Line:
    """`target   ━━━━━━══╍──  80.1+11.2+2.5 MiB`: weights, KV cache and compute."""
    parts = (memory.weights_bytes, memory.kv_bytes, memory.compute_bytes)
    text = sizes(parts)
    room = _bar_width(text, SHORT_LABEL_WIDTH, width)
    cells = share_cells(parts, whole, room)
    filled = [(sign * size, style) for (sign, style), size in zip(PARTS, cells, strict=True)]
    track = (TRACK * (room - sum(cells)), FAINT)
    return line((f"{label:<{SHORT_LABEL_WIDTH}} ", MUTED), *filled, track, f" {text:>{VALUE_WIDTH}}")


def _meter(label: str, share: float, text: str, label_width: int, width: int, part: tuple[str, str] = PARTS[0]) -> Line:
    room = _bar_width(text, label_width, width)
    filled = bar_cells(share, room).replace(PARTS[0][0], part[0])
    track = (TRACK * (room - len(filled)), FAINT)
    return line((f"{label:<{label_width}} ", MUTED), (filled, part[1]), track, f" {text:>{VALUE_WIDTH}}")


def _bar_width(text: str, label_width: int, width: int) -> int:
    return max(width - label_width - max(len(text), VALUE_WIDTH) - 2, 0)


def sizes(parts: tuple[int, ...]) -> str:
    """Several sizes in the unit of their sum: `80.1+11.2+2.5 MiB`."""
    size, name = (GIB, "GiB") if sum(parts) >= GIB else (MIB, "MiB")
    return "+".join(f"{part / size:.1f}" for part in parts) + f" {name}"


def _kv(memory: MemoryStatus) -> tuple[float, str]:
    used, total = memory.kv_used_tokens, memory.kv_total_tokens
    share = used / total if total else 0.0
    return share, f"{percent(share)} {used} of {total}"


def _host(memory: MemoryStatus) -> tuple[float, str]:
    total, free = memory.host_total_bytes, memory.host_available_bytes
    if total is None or free is None:
        return 0.0, UNKNOWN
    return 1 - free / total, f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
