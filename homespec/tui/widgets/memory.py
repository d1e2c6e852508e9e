"""What the target, the drafter and the engine hold, and what the box has left."""

from __future__ import annotations

from homespec.status import MemoryStatus, ModelMemory, Status
from homespec.tui.glyphs import TRACK, bar_cells, share_cells
from homespec.tui.text import UNKNOWN, percent
from homespec.tui.widgets.panel import FAINT, MUTED, Line, Panel, line
from homespec.units import GIB, MIB, format_bytes

LABEL_WIDTH = 15
SHORT_LABEL_WIDTH = 8
DETAILED_HEIGHT = 8
"""From this many lines on, every part of the target has a line of its own."""
PARTS = (("━", "$primary"), ("═", "$success"), ("╍", "$accent"))
"""Weights, KV cache, compute: told apart by the line first, by colour second."""
VALUE_WIDTH = 19


class MemoryPanel(Panel):
    """Bars of the models share one scale, what target and drafter hold together; KV and host have their own."""

    def __init__(self) -> None:
        super().__init__("memory")

    def title(self, status: Status) -> str:
        engine = format_bytes(status.memory.engine_rss_bytes) if status.memory else UNKNOWN
        return f"memory · engine RSS {engine}"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        memory = status.memory
        if memory is None:
            return [line(("not known before the model is loaded", MUTED))]
        if height >= DETAILED_HEIGHT:
            return _detailed(memory, width)
        return _compact(memory, width)


def _compact(memory: MemoryStatus, width: int) -> list[Line]:
    whole = memory.target.total_bytes + memory.drafter.total_bytes
    return [
        _model("target", memory.target, whole, width),
        _model("drafter", memory.drafter, whole, width),
        _meter("KV", *_kv(memory), SHORT_LABEL_WIDTH, width),
        _meter("host", *_host(memory), SHORT_LABEL_WIDTH, width),
    ]


def _detailed(memory: MemoryStatus, width: int) -> list[Line]:
    whole = memory.target.total_bytes + memory.drafter.total_bytes
    parts = (
        ("target weights", memory.target.weights_bytes, 0),
        ("target KV", memory.target.kv_bytes, 1),
        ("target compute", memory.target.compute_bytes, 2),
        ("drafter weights", memory.drafter.weights_bytes, 0),
        ("drafter context", memory.drafter.kv_bytes + memory.drafter.compute_bytes, 1),
    )
    rows = [
        _meter(label, size / whole if whole else 0.0, format_bytes(size), LABEL_WIDTH, width, PARTS[part])
        for label, size, part in parts
    ]
    engine = _share(memory.engine_rss_bytes, memory.host_total_bytes)
    return [
        *rows,
        _meter("engine RSS", engine, format_bytes(memory.engine_rss_bytes), LABEL_WIDTH, width),
        _meter("KV cache used", *_kv(memory), LABEL_WIDTH, width),
        _meter("host", *_host(memory), LABEL_WIDTH, width),
    ]


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
    return 1 - _share(free, total), f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"


def _share(part: int | None, whole: int | None) -> float:
    return part / whole if part is not None and whole else 0.0
