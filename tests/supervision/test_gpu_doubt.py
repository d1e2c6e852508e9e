from __future__ import annotations

from homespec.supervision.gpu_doubt import GpuDoubt


def open_reasons(*heard: str | None) -> list[str | None]:
    """After each word of the driver; None: an engine starts."""
    doubt, reasons = GpuDoubt(), []
    for reason in heard:
        if reason is None:
            doubt.engine_started()
        else:
            doubt.hear(reason)
        reasons.append(doubt.open_reason)
    return reasons


def test_one_engine_is_started_for_each_time_that_the_driver_begins_to_doubt() -> None:
    assert open_reasons("lost", "lost", None, "lost", None, "lost") == ["lost", "lost", None, None, None, None]
    assert open_reasons("lost", None, "", "lost") == ["lost", None, None, "lost"]


def test_an_engine_that_starts_before_there_is_a_doubt_settles_none() -> None:
    assert open_reasons("", None, "lost") == [None, None, "lost"]


def test_only_the_beginning_of_a_doubt_is_news() -> None:
    doubt = GpuDoubt()
    assert [doubt.hear(reason) for reason in ("", "lost", "lost", "", "lost")] == [False, True, False, False, True]
