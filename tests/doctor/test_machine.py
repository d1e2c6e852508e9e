"""Swap, stalls, disk and clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.cgroup import GroupMemory
from homespec.doctor.check import Verdict
from homespec.doctor.machine import (
    Clock,
    Swap,
    check_clock,
    check_disk,
    check_memory,
    read_clock,
    read_disk,
    read_stalled_share,
    read_swap,
)
from homespec.headroom.readings import HostMemory
from homespec.units import GIB

HOST = HostMemory(16 * GIB, 8 * GIB)


@pytest.mark.parametrize(
    ("swap", "stalled", "verdicts"),
    [
        (Swap(0, 0), 0.0, ["ok", "ok"]),
        (None, None, ["ok", "ok"]),
        (Swap(4 * GIB, GIB), 0.01, ["ok", "ok"]),
        (Swap(4 * GIB, 3 * GIB), 0.01, ["ok", "warn"]),
        (Swap(4 * GIB, GIB), 0.2, ["fail", "ok"]),
    ],
)
def test_memory(swap: Swap | None, stalled: float | None, verdicts: list[str]) -> None:
    assert [check.verdict.value for check in check_memory(HOST, swap, stalled)] == verdicts


@pytest.mark.parametrize(("left", "is_told"), [(GIB // 2, True), (9 * GIB, False)])
def test_a_limit_is_told_where_it_leaves_less_than_the_box(left: int, is_told: bool) -> None:
    memory, _ = check_memory(HOST, None, None, GroupMemory(Path("/group"), 10 * GIB, left))
    assert ("within the limit of 10.00 GiB" in memory.text) is is_told


@pytest.mark.parametrize(("free", "verdict"), [(None, "ok"), (100 * GIB, "ok"), (2 * GIB, "warn"), (GIB // 4, "fail")])
def test_disk(free: int | None, verdict: str) -> None:
    assert check_disk("disk", Path("/srv"), free).verdict == verdict


@pytest.mark.parametrize(
    ("clock", "verdict"),
    [
        (Clock(2e9, 1.9e9, True), Verdict.OK),
        (Clock(2e9, 1.9e9, None), Verdict.OK),
        (Clock(2e9, 1.9e9, False), Verdict.WARN),
        (Clock(0.0, 1.9e9, None), Verdict.FAIL),
    ],
)
def test_clock(clock: Clock, verdict: Verdict) -> None:
    assert check_clock(clock).verdict is verdict


def test_stalls_are_those_of_all_tasks_over_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    path.write_text("some avg10=90 avg60=80 avg300=70 total=1\nfull avg10=1.00 avg60=12.50 avg300=3.00 total=1\n")
    assert read_stalled_share(path) == pytest.approx(0.125)
    path.write_text("some avg10=90 avg60=80 avg300=70 total=1\n")
    assert read_stalled_share(path) is None
    assert read_stalled_share(tmp_path / "gone") is None


def test_this_box_can_be_read(tmp_path: Path) -> None:
    assert read_disk(tmp_path / "not" / "yet" / "there") == read_disk(tmp_path)
    assert check_clock(read_clock()).verdict is not Verdict.FAIL
    swap = read_swap()
    assert swap is None or swap.used_bytes <= swap.total_bytes
