"""The service manager of this machine, and the four things that people ask of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from homespec.config import load
from homespec.errors import ExitCode, ServiceError
from homespec.service.installation import Installation, detect
from homespec.service.launchd import Launchd
from homespec.service.plan import Plan
from homespec.service.systemd import Systemd

ASK_TIMEOUT_S = 10
_NOT_INSTALLED = {
    False: "no service is installed for your user; 'homespec service install' does it, --system is about the machine's",
    True: "no service is installed for this machine; 'sudo homespec service install --system' does it, "
    "without --system it is about your user's",
}
"""By whether the machine's is meant."""


class Manager(Protocol):
    def install(self, installation: Installation, *, start: bool) -> Plan: ...

    def uninstall(self) -> Plan: ...

    def status(self) -> tuple[str, ...]: ...

    def logs(self, *, follow: bool, lines: int) -> tuple[str, ...]: ...

    def is_active(self, shown: str) -> bool: ...

    def is_missing(self, shown: str) -> bool: ...

    def hint(self) -> str | None: ...


def manager(*, system: bool) -> Manager:
    return Launchd(system=system) if sys.platform == "darwin" else Systemd(system=system)


def install(*, system: bool, config: Path | None, dry_run: bool) -> ExitCode:
    """Write the files for this installation and start the service if there is a model to serve."""
    installation = detect(system=system, config=config)
    here = manager(system=system)
    start = _has_model(installation.config)
    _carry_out(here.install(installation, start=start), dry_run=dry_run)
    if not start:
        _say(f"not started: no model is set; set 'model' in {installation.config}, then install again")
    if hint := here.hint():
        _say(hint)
    return ExitCode.OK


def uninstall(*, system: bool, dry_run: bool) -> ExitCode:
    """Stop the service and take its files away."""
    _carry_out(manager(system=system).uninstall(), dry_run=dry_run)
    return ExitCode.OK


def status(*, system: bool) -> ExitCode:
    """Print what the manager says. FAILURE unless the service runs. Raises ServiceError when there is none."""
    here = manager(system=system)
    shown = _ask(here, system=system)
    print(shown, end="")
    return ExitCode.OK if here.is_active(shown) else ExitCode.FAILURE


def logs(*, system: bool, follow: bool, lines: int) -> None:
    """Become the program that shows the log. Raises ServiceError when there is no service."""
    here = manager(system=system)
    _ask(here, system=system)
    argv = here.logs(follow=follow, lines=lines)
    os.execv(argv[0], argv)


def _ask(here: Manager, *, system: bool) -> str:
    """What the manager says of the service. Raises ServiceError when it does not know it, or cannot be asked."""
    argv = here.status()
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"{' '.join(argv)}: {error}; see whether the service manager itself runs") from error
    if here.is_missing(done.stdout):
        raise ServiceError(_NOT_INSTALLED[system])
    if done.returncode:
        raise ServiceError(f"{' '.join(argv)}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return done.stdout


def _has_model(config: Path) -> bool:
    if not config.exists():
        return False
    settings = load({}, config)
    return settings.model is not None or settings.demo


def _carry_out(plan: Plan, *, dry_run: bool) -> None:
    if dry_run:
        print(plan.describe())
        return
    for line in plan.apply():
        _say(line)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
