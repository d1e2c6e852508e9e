from __future__ import annotations

import pytest

from homespec.client.drafted import progress_in


def test_a_chunk_says_what_was_drafted() -> None:
    chunk = '{"choices": [], "speculative": {"rounds": 12, "accepted": 20, "spans": [[0, 5], [9, 14]]}}'
    progress = progress_in(chunk)
    assert progress is not None
    assert progress.spans == [(0, 5), (9, 14)]
    assert progress.acceptance_length == pytest.approx(1 + 20 / 12)


@pytest.mark.parametrize(
    "chunk",
    [
        '{"choices": []}',
        '{"speculative": {"state": "ready", "rounds": 3, "accepted": 2, "drafted": 4}}',
        '{"speculative": null}',
        "not JSON",
    ],
)
def test_a_chunk_that_says_nothing_of_it(chunk: str) -> None:
    assert progress_in(chunk) is None


def test_before_the_first_round_there_is_no_length() -> None:
    progress = progress_in('{"speculative": {"rounds": 0, "accepted": 0, "spans": []}}')
    assert progress is not None
    assert progress.acceptance_length is None
