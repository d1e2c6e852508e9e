from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.window import NUM_SINKS, WHOLE

SIZE = 256


def test_a_sequence_that_fits_is_seen_as_it_is() -> None:
    text = list(range(SIZE))
    assert WHOLE.slid(SIZE, SIZE, 64) is WHOLE
    assert WHOLE.of(text) is text


@given(st.integers(1, 4000), st.lists(st.integers(1, 40), max_size=30), st.sampled_from([SIZE // 4, SIZE // 2]))
def test_it_sees_the_first_tokens_and_the_last_ones_and_never_too_many(
    start: int, steps: list[int], block: int
) -> None:
    window, length, moves = WHOLE, start, 0
    for step in [0, *steps]:
        length += step
        moved = window.slid(length, SIZE, block)
        moves += moved != window
        window = moved
        text = list(range(length))
        seen = window.of(text)
        assert len(seen) <= SIZE
        assert seen[:NUM_SINKS] == text[:NUM_SINKS]
        assert seen == text or seen[NUM_SINKS:] == text[NUM_SINKS - len(seen) :]
        assert seen == text or len(seen) >= SIZE - block
    assert moves <= 1 + sum(steps) // block + 1
