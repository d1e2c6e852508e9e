"""The service as its manager tells of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from homespec.doctor.check import Verdict
from homespec.doctor.unit import Unit, check_unit, parse, read_units

SHOWN = """\
ExecStart={ path=/opt/homespec/bin/homespec ; argv[]=/opt/homespec/bin/homespec serve ; ignore_errors=no ; pid=7 }
Result=exit-code
NRestarts=5
ExecMainStatus=4
LoadState=loaded
ActiveState=failed
SubState=failed
UnitFileState=enabled
"""
RUNNING = Unit(
    is_system=False,
    active="active",
    sub="running",
    result="success",
    exit_status=0,
    restarts=0,
    program="/opt/homespec",
    is_enabled=True,
    lingers=True,
)


def verdicts(unit: Unit, *, there: bool = True) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in check_unit(unit, lambda _: there)}


def test_what_systemd_prints_is_read() -> None:
    unit = parse(SHOWN, is_system=True)
    assert unit == Unit(True, "failed", "failed", "exit-code", 4, 5, "/opt/homespec/bin/homespec", True)
    assert parse("LoadState=not-found\nActiveState=inactive\n", is_system=True) is None
    assert parse("", is_system=True) is None


def test_a_failed_unit_says_how_and_what_then() -> None:
    unit = parse(SHOWN, is_system=True)
    assert unit is not None
    [check] = check_unit(unit, lambda _: True)
    assert "exit code 4 (MODEL" in check.text
    assert check.remedy == "homespec service logs --system has the reason; then: sudo systemctl restart homespec"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (RUNNING, {"service": Verdict.OK}),
        (replace(RUNNING, restarts=2), {"service": Verdict.WARN}),
        (replace(RUNNING, lingers=False), {"service": Verdict.OK, "boot": Verdict.WARN}),
        (replace(RUNNING, lingers=None), {"service": Verdict.OK}),
        (replace(RUNNING, is_enabled=False), {"service": Verdict.OK, "boot": Verdict.WARN}),
        (replace(RUNNING, active="inactive", sub="dead"), {"service": Verdict.WARN}),
        (replace(RUNNING, active="failed", exit_status=None), {"service": Verdict.FAIL}),
    ],
)
def test_verdicts(unit: Unit, expected: dict[str, Verdict]) -> None:
    assert verdicts(unit) == expected


def test_a_program_that_moved_away_is_found_out_while_the_old_one_still_runs() -> None:
    [check] = check_unit(RUNNING, lambda path: path != Path("/opt/homespec"))
    assert check.verdict is Verdict.FAIL
    assert check.remedy == "install it again: homespec service install"


def test_both_managers_are_asked() -> None:
    def run(command: tuple[str, ...]) -> str | None:
        if command[0] == "loginctl":
            return "no\n"
        return SHOWN if "--user" in command else "LoadState=not-found\n"

    [unit] = read_units(run)
    assert (unit.is_system, unit.lingers) == (False, False)
    assert read_units(lambda _: None) == []
