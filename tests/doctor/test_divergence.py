from __future__ import annotations

from typing import Any

import pytest

from homespec.doctor.divergence import ROUNDING_MARGIN, _compared

RUNNER_UP = b"second"


def answer(tokens: list[str | bytes], margin: float = 1.0, *, runner_up: bytes = RUNNER_UP) -> dict[str, Any]:
    """One in which every token beats `runner_up` by `margin`."""
    pieces = [token.encode() if isinstance(token, str) else token for token in tokens]
    content = [
        {
            **entry(piece, -0.1),
            "top_logprobs": [entry(piece, -0.1), entry(runner_up, -0.1 - margin), entry(b"third", -9.0)],
        }
        for piece in pieces
    ]
    report = {"drafted": 3, "reason": "draft is ready"}
    return {"choices": [{"logprobs": {"content": content}}], "speculative": report}


def entry(piece: bytes, logprob: float) -> dict[str, Any]:
    return {"token": piece.decode(errors="replace"), "bytes": list(piece), "logprob": logprob}


def test_equal_answers_are_the_same() -> None:
    comparison = _compared("q", answer(["a", "b"]), answer(["a", "b"]))
    assert comparison.is_same
    assert str(comparison).startswith("same")
    assert (comparison.num_tokens, comparison.num_drafted) == (2, 3)


@pytest.mark.parametrize(("margin", "is_rounding"), [(ROUNDING_MARGIN / 2, True), (ROUNDING_MARGIN * 2, False)])
def test_a_difference_is_judged_by_the_margin_where_it_starts(margin: float, is_rounding: bool) -> None:
    comparison = _compared("q", answer(["a", "b", "c"], margin, runner_up=b"x"), answer(["a", "x", "y"]))
    assert (comparison.position, comparison.plain_token, comparison.drafted_token) == (1, "b", "x")
    assert comparison.margin == pytest.approx(margin)
    assert comparison.is_rounding is is_rounding
    assert ("DIFFERENT" in str(comparison)) is not is_rounding


def test_a_near_tie_of_others_does_not_excuse_a_token_that_was_far_behind() -> None:
    comparison = _compared("q", answer(["a"], ROUNDING_MARGIN / 2), answer(["unheard of"]))
    assert comparison.margin == pytest.approx(8.9)
    assert not comparison.is_rounding


def test_parts_of_characters_that_read_alike_are_told_apart() -> None:
    first, second = "😀".encode()[2:3], "🚀".encode()[2:3]
    assert _compared("q", answer(["a", first]), answer(["a", second])).position == 1


@pytest.mark.parametrize(("margin", "is_rounding"), [(ROUNDING_MARGIN / 2, True), (1.0, False)])
def test_an_answer_that_stops_early_differs_where_it_stops(margin: float, is_rounding: bool) -> None:
    shorter = _compared("q", answer(["a", "b"], margin), answer(["a"]))
    assert (shorter.position, shorter.drafted_token, shorter.is_rounding) == (1, "(end)", is_rounding)
    longer = _compared("q", answer(["a"]), answer(["a", "b"], margin))
    assert (longer.position, longer.plain_token, longer.is_rounding) == (1, "(end)", is_rounding)
