from __future__ import annotations

from typing import Any

import pytest

from homespec.doctor.divergence import ROUNDING_MARGIN, _compared


def answer(tokens: list[str], margin: float = 1.0) -> dict[str, Any]:
    content = [{"token": token, "top_logprobs": [{"logprob": -0.1}, {"logprob": -0.1 - margin}]} for token in tokens]
    return {"choices": [{"logprobs": {"content": content}}], "speculative": {"acceptance_length": 1.5}}


def test_equal_answers_are_the_same() -> None:
    comparison = _compared("q", answer(["a", "b"]), answer(["a", "b"]))
    assert comparison.is_same
    assert str(comparison).startswith("same")
    assert comparison.num_tokens == 2


@pytest.mark.parametrize(("margin", "is_rounding"), [(ROUNDING_MARGIN / 2, True), (ROUNDING_MARGIN * 2, False)])
def test_a_difference_is_judged_by_the_margin_where_it_starts(margin: float, is_rounding: bool) -> None:
    comparison = _compared("q", answer(["a", "b", "c"], margin), answer(["a", "x", "y"]))
    assert (comparison.position, comparison.plain_token, comparison.drafted_token) == (1, "b", "x")
    assert comparison.is_rounding is is_rounding
    assert ("DIFFERENT" in str(comparison)) is not is_rounding


def test_an_answer_that_stops_early_differs_where_it_stops() -> None:
    comparison = _compared("q", answer(["a", "b"], 1.0), answer(["a"]))
    assert (comparison.position, comparison.drafted_token) == (1, "(end)")
    longer = _compared("q", answer(["a"]), answer(["a", "b"]))
    assert (longer.position, longer.plain_token, longer.is_rounding) == (1, "(end)", False)
