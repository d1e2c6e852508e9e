"""The service: is it installed, does it run, how did it end, does it start what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from homespec.doctor.check import Check, fail, ok, warn
from homespec.errors import ExitCode, ServiceError
from homespec.service.launchd import Launchd
from homespec.service.systemd import UNIT

_TIMEOUT_S = 10
_FIELDS = "LoadState,ActiveState,SubState,Result,ExecMainStatus,NRestarts,ExecStart,UnitFileState"
_PROGRAM = re.compile(r"path=([^;]+?) ;")

Run = Callable[[tuple[str, ...]], str | None]


@dataclass(frozen=True, slots=True)
class Unit:
    """What systemd says of one unit."""

    is_system: bool
    active: str
    sub: str
    result: str
    exit_status: int | None
    restarts: int
    program: str | None
    """What it starts; None when systemd does not say."""
    is_enabled: bool
    lingers: bool | None = None
    """A user's unit goes on after logout; None where it is not known."""

    @property
    def scope(self) -> str:
        return "system" if self.is_system else "user"

    @property
    def systemctl(self) -> str:
        return "sudo systemctl" if self.is_system else "systemctl --user"


def run(command: tuple[str, ...]) -> str | None:
    """What it prints; None when it is not there or fails."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


def read_units(run: Run = run) -> list[Unit]:
    """Of the machine and of this user; those that are installed."""
    found = []
    for is_system in (True, False):
        shown = run(("systemctl", *(() if is_system else ("--user",)), "show", UNIT, f"--property={_FIELDS}"))
        unit = parse(shown, is_system=is_system) if shown else None
        if unit is not None:
            found.append(unit if is_system else _with_linger(unit, run))
    return found


def parse(shown: str, *, is_system: bool) -> Unit | None:
    """From `systemctl show`; None when there is no such unit."""
    fields: Mapping[str, str] = dict(line.partition("=")[::2] for line in shown.splitlines())
    if fields.get("LoadState") in (None, "not-found"):
        return None
    program = _PROGRAM.search(fields.get("ExecStart", ""))
    return Unit(
        is_system=is_system,
        active=fields.get("ActiveState", "unknown"),
        sub=fields.get("SubState", "unknown"),
        result=fields.get("Result", "unknown"),
        exit_status=_number(fields.get("ExecMainStatus")),
        restarts=_number(fields.get("NRestarts")) or 0,
        program=program[1] if program else None,
        is_enabled=fields.get("UnitFileState") == "enabled",
    )


def check_unit(unit: Unit, exists: Callable[[Path], bool] = Path.exists) -> Iterator[Check]:
    """What is wrong with it, or that nothing is."""
    again = f"homespec service install{' --system' if unit.is_system else ''}"
    if unit.program is not None and not exists(Path(unit.program)):
        yield fail(
            "service", f"the {unit.scope} unit starts {unit.program}, which is not there", f"install it again: {again}"
        )
    elif unit.active == "failed":
        text = f"the {unit.scope} unit has failed: {unit.result}, {_meaning(unit.exit_status)}"
        logs = f"homespec service logs{' --system' if unit.is_system else ''}"
        yield fail("service", text, f"{logs} has the reason; then: {unit.systemctl} restart homespec")
    elif unit.active != "active":
        text = f"the {unit.scope} unit is {unit.active} ({unit.sub})"
        yield warn("service", text, f"{unit.systemctl} start homespec")
    elif unit.restarts:
        text = f"the {unit.scope} unit runs, started again {unit.restarts} times"
        yield warn("service", text, "homespec service logs has the reasons")
    else:
        yield ok("service", f"the {unit.scope} unit runs")
    if not unit.is_enabled:
        yield warn(
            "boot",
            f"the {unit.scope} unit is not enabled: it does not start at boot",
            f"{unit.systemctl} enable homespec",
        )
    elif unit.lingers is False:
        yield warn("boot", "the user unit starts at login and ends at logout", "loginctl enable-linger")


def examine_service() -> Iterator[Check]:
    """On macOS launchd's view, elsewhere systemd's."""
    if sys.platform == "darwin":
        yield _launchd()
        return
    units = read_units()
    if not units:
        yield ok("service", "not installed; 'homespec service install' does it")
    for unit in units:
        yield from check_unit(unit)


def _launchd() -> Check:
    try:
        shown = run(Launchd(system=False).status())
    except ServiceError as error:
        return ok("service", str(error))
    if shown is None:
        return ok("service", "not installed; 'homespec service install' does it")
    if Launchd.is_active(shown):
        return ok("service", "the agent runs")
    return fail("service", "the agent is installed and does not run", "homespec service logs has the reason")


def _with_linger(unit: Unit, run: Run) -> Unit:
    shown = run(("loginctl", "show-user", "--property=Linger", "--value"))
    return replace(unit, lingers={"yes": True, "no": False}.get((shown or "").strip()))


def _meaning(status: int | None) -> str:
    if status is None:
        return "exit code unknown"
    with suppress(ValueError):
        return f"exit code {status} ({ExitCode(status).name}, see docs/commands.md)"
    return f"exit code {status}"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
