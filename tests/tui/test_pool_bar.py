from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from homespec.status import ModelMemory, PoolStatus
from homespec.tui.pool_bar import legend, pool_bar

POOL = PoolStatus("host", "", 100, 40, "", ModelMemory(20, 10), ModelMemory(10), 20, 10, 20)

sizes = st.integers(0, 2**42)
memories = st.builds(ModelMemory, sizes, sizes, sizes)
pools = st.builds(
    PoolStatus, st.just("host"), st.just(""), st.one_of(st.none(), sizes), st.one_of(st.none(), sizes), st.just(""),
    memories, memories, *[st.one_of(st.none(), sizes)] * 3, sizes
)  # fmt: skip


def text_of(pool: PoolStatus, width: int) -> str:
    return "".join(sign for sign, _ in pool_bar(pool, width))


def test_used_memory_is_on_the_left_and_marks_are_counted_from_the_right() -> None:
    assert text_of(POOL, 20) == "━━━━══╍╍╌╌╌╌────┆┈┃┈"


def test_what_residents_hold_is_shown_beside_the_others_and_named_only_where_there_are_some() -> None:
    shared = replace(POOL, residents_bytes=10)
    assert text_of(shared, 20) == "━━━━══╍╍≡≡╌╌────┆┈┃┈"
    assert "≡ residents" in legend([POOL, shared])
    assert "residents" not in legend([POOL])


def test_a_mark_that_is_passed_shows_on_top_of_what_is_used() -> None:
    assert text_of(replace(POOL, free_bytes=5), 20)[-4:] == "┆╌┃┈"


def test_unknown_memory_is_an_empty_track() -> None:
    assert pool_bar(replace(POOL, free_bytes=None), 10) == [("─" * 10, "$foreground 20%")]
    assert text_of(replace(POOL, total_bytes=0), 10) == "─" * 10


@given(pools, st.integers(0, 120))
def test_a_bar_fills_its_width_exactly(pool: PoolStatus, width: int) -> None:
    assert len(text_of(pool, width)) == width
