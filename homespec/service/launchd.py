"""launchd: the property list of an agent or a daemon, and the commands that put it to work."""

from __future__ import annotations

import getpass
import os
import plistlib
from pathlib import Path
from typing import Any

from homespec.service.installation import Installation
from homespec.service.plan import MARK, Command, File, Plan, tool
from homespec.service.template import template

LABEL = "org.homespec.homespec"
_NO_LAUNCHD = "this is not macOS"


def render_plist(installation: Installation, *, log: str, user: str | None) -> str:
    """The property list (launchd.plist(5)). `user`: whom a system-wide daemon runs as."""
    properties: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": [*installation.command, "serve", "--config", str(installation.config)],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 20,
        # Background jobs are slowed down, and so would every answer be.
        "ProcessType": "Interactive",
        "Umask": 0o027,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    if user is not None:
        properties["UserName"] = user
    text = plistlib.dumps(properties, sort_keys=False).decode()
    head, _, rest = text.partition("<plist")
    return f"{head}<!-- {MARK}. -->\n<plist{rest}"


class Launchd:
    """The manager of this machine, or of one user."""

    def __init__(self, *, system: bool) -> None:
        self._system = system
        self._domain = "system" if system else f"gui/{os.getuid()}"

    def install(self, installation: Installation, *, start: bool) -> Plan:
        """Files and commands; `start` is False while there is no model to serve."""
        user = os.environ.get("SUDO_USER") or getpass.getuser() if self._system else None
        plist = render_plist(installation, log=str(self._log), user=user)
        return Plan(
            writes=(
                File(self._plist, plist),
                File(installation.config, template("config.toml"), is_yours=True),
            ),
            after=(
                self._launchctl("bootout", f"{self._domain}/{LABEL}", may_fail=True),
                *((self._launchctl("bootstrap", self._domain, str(self._plist)),) if start else ()),
            ),
        )

    def uninstall(self) -> Plan:
        """Configuration, models and logs stay."""
        return Plan(
            before=(self._launchctl("bootout", f"{self._domain}/{LABEL}", may_fail=True),), removes=(self._plist,)
        )

    def status(self) -> tuple[str, ...]:
        return self._launchctl("print", f"{self._domain}/{LABEL}").argv

    def logs(self, *, follow: bool, lines: int) -> tuple[str, ...]:
        return (tool("tail", _NO_LAUNCHD), "-n", str(lines), *(("-F",) if follow else ()), str(self._log))

    @staticmethod
    def is_active(shown: str) -> bool:
        return "state = running" in shown

    def is_missing(self, shown: str) -> bool:
        """launchd knows only what it was told to start, which is nothing while no model is set."""
        return not self._plist.exists()

    def hint(self) -> str | None:
        """What else a person may want."""
        return None

    @property
    def _plist(self) -> Path:
        folder = Path("/Library/LaunchDaemons") if self._system else Path.home() / "Library/LaunchAgents"
        return folder / f"{LABEL}.plist"

    @property
    def _log(self) -> Path:
        folder = Path("/Library/Logs") if self._system else Path.home() / "Library/Logs"
        return folder / "homespec.log"

    def _launchctl(self, *words: str, may_fail: bool = False) -> Command:
        return Command((tool("launchctl", _NO_LAUNCHD), *words), may_fail)
