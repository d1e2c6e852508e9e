"""One pool of memory as a stacked bar. Pure: a pool in, styled text of an exact width out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from homespec.status import PoolStatus
from homespec.tui.glyphs import TRACK, share_cells
from homespec.tui.line import FAINT, MUTED

Cell = tuple[str, str]
"""A sign and its style."""

TARGET, KV, DRAFTER = ("━", "$primary"), ("═", "$success"), ("╍", "$accent")
RESIDENTS, OTHERS = ("≡", "$secondary"), ("╌", MUTED)
"""Told apart by the line first, by colour second."""
FREE, RESERVE = (TRACK, FAINT), ("┈", FAINT)
HIGH, LOW = ("┆", MUTED), ("┃", "$warning")
_MIN_WIDTH_FOR_MARKS = 8


def legend(pools: Iterable[PoolStatus]) -> str:
    """What the signs mean; residents are named where there are some."""
    residents = "≡ residents " if any(pool.residents_bytes for pool in pools) else ""
    return f"━ target ═ KV ╍ drafter {residents}╌ others ┈ reserve ┃ low ┆ high"


def pool_bar(pool: PoolStatus, width: int) -> list[Cell]:
    """What is used from the left, what is free on the right; free memory is short where it does not reach a mark."""
    total = pool.total_bytes
    if not total or pool.others_bytes is None:
        return [(TRACK * width, FAINT)]
    target = pool.target
    kv = target.kv_bytes
    used = (target.total_bytes - kv, kv, pool.drafter.total_bytes, pool.residents_bytes, pool.others_bytes)
    sizes = share_cells(used, total, width)
    signs = (TARGET, KV, DRAFTER, RESIDENTS, OTHERS)
    cells = [cell for cell, size in zip(signs, sizes, strict=True) for _ in range(size)]
    start_of_reserve = _place(pool.reserve_bytes or 0, total, width)
    cells += [RESERVE if place >= start_of_reserve else FREE for place in range(len(cells), width)]
    if width >= _MIN_WIDTH_FOR_MARKS:
        for mark, sign in ((pool.high_bytes, HIGH), (pool.low_bytes, LOW)):
            if mark and mark < total:
                cells[min(_place(mark, total, width), width - 1)] = sign
    return [("".join(sign for sign, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1])]


def _place(free: int, total: int, width: int) -> int:
    """The cell at which so much is free."""
    return width - round(min(free / total, 1.0) * width)
