from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.headroom.pressure import Rate, major_faults, stalled_us


def test_stalls_are_those_of_everyone_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    path.write_text(
        "some avg10=1.00 avg60=0.50 avg300=0.10 total=900\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=77\n"
    )
    assert stalled_us(path) == 77


def test_a_kernel_that_does_not_count_stalls(tmp_path: Path) -> None:
    assert stalled_us(tmp_path / "memory") is None
    (tmp_path / "memory").write_text("some avg10=1.00 avg60=0.50 avg300=0.10 total=900\n")
    assert stalled_us(tmp_path / "memory") is None


def test_a_process_name_may_look_like_anything(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) b ) (c) S 1 2 3 4 5 6 70 80 99 100\n")
    assert major_faults(7, tmp_path) == 99


def test_this_process() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc on this system")
    faults = major_faults(os.getpid())
    assert faults is not None
    assert faults >= 0


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert major_faults(process.pid) is None


def test_a_rate_is_per_second_over_the_window() -> None:
    rate = Rate()
    assert rate.update(100, 10.0) is None
    assert rate.update(110, 10.2) is None
    assert rate.update(150, 11.0) == 50
    assert rate.update(150, 12.0) == pytest.approx(0.0, abs=1e-9)


def test_a_rate_does_not_survive_a_counter_that_starts_again_or_is_lost() -> None:
    rate = Rate()
    rate.update(100, 0.0)
    assert rate.update(200, 1.0) == 100
    assert rate.update(5, 2.0) is None
    assert rate.update(None, 3.0) is None
    assert rate.update(6, 4.0) is None
    assert rate.update(8, 5.0) == 2


@given(st.lists(st.tuples(st.floats(0.01, 3), st.integers(0, 1000)), min_size=1))
def test_a_rate_is_never_negative_and_never_above_the_fastest_step(steps: list[tuple[float, int]]) -> None:
    rate, now_s, count, fastest = Rate(), 0.0, 0, 0.0
    rate.update(0, 0.0)
    for step_s, grown in steps:
        now_s, count, fastest = now_s + step_s, count + grown, max(fastest, grown / step_s)
        value = rate.update(count, now_s)
        assert value is None or 0 <= value <= fastest * 1.000001
