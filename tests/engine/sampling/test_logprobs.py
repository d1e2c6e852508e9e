from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from homespec.engine.sampling.logprobs import token_logprob

rows = arrays(np.float32, st.integers(2, 60), elements=st.floats(-40, 40, width=32))


@given(rows, st.data())
def test_values_are_the_log_softmax_of_the_raw_row(row: np.ndarray, data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(row) - 1))
    num_top = data.draw(st.integers(0, len(row)))
    result = token_logprob(row, token, num_top)
    wide = row.astype(np.float64)
    expected = wide - np.log(np.exp(wide - wide.max()).sum()) - wide.max()
    assert np.isclose(result.logprob, expected[token])
    assert len(result.top) == num_top
    assert np.allclose([logprob for _, logprob in result.top], np.sort(expected)[::-1][:num_top])
    assert all(np.isclose(logprob, expected[other]) for other, logprob in result.top)


def test_equal_tokens_are_ranked_by_id() -> None:
    result = token_logprob(np.array([1, 3, 3, 0], np.float32), 1, 3)
    assert [token for token, _ in result.top] == [1, 2, 0]
