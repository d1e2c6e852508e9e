"""Past answers on a disk that has no room."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from homespec.engine.drafters.journal import Journal


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """The system takes what fits and no more, as where a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_answer_that_did_not_fit_does_not_cost_the_later_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "answers"
    journal = Journal(path, "model")
    journal.append("", [1, 2, 3])
    size = path.stat().st_size
    with files_of_at_most(size + 5):
        journal.append("", [4, 5, 6])
    assert "a past answer is not kept" in caplog.text
    assert path.stat().st_size == size
    journal.append("", [7, 8, 9])
    assert list(Journal(path, "model").read()) == [("", [1, 2, 3]), ("", [7, 8, 9])]
