"""systemd: units rendered for an installation, and the commands that put them to work."""

from __future__ import annotations

import os
import re
from pathlib import Path

from homespec.service.installation import Installation
from homespec.service.plan import Command, File, Plan, tool
from homespec.service.template import template

UNIT = "homespec.service"
_ODD = re.compile(r"[\x00-\x1f\x7f\"'\\$]")
_NO_SYSTEMD = "this machine has no systemd; start 'homespec serve' with what it has instead"
_STATUS_FIELDS = (
    "LoadState,ActiveState,SubState,Result,StatusText,NRestarts,ExecMainStatus,MainPID,ActiveEnterTimestamp"
)


def quote(text: str) -> str:
    """One word of an ExecStart line, with what systemd would expand escaped (systemd.service(5))."""
    text = text.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"' if any(char in text for char in " \t'\"\\;") else text


def command_line(words: tuple[str, ...]) -> str:
    """Program and arguments. systemd takes a program's name as it is, but for some signs; env(1) starts such a one."""
    program, *arguments = words
    line = [quote(word) for word in arguments]
    if _ODD.search(program):
        return " ".join(["/usr/bin/env", quote(program), *line])
    return " ".join([quote(program), *line])


def render_unit(installation: Installation, *, config: str | None = None, environment: str | None = None) -> str:
    """The unit. `config` and `environment`: as they are to stand there, specifiers included."""
    values = {
        "exec": command_line(installation.command),
        "config": config or quote(str(installation.config)),
        "environment": environment or str(installation.config.with_name("homespec.env")).replace("%", "%%"),
    }
    return template("system.service" if installation.system else "user.service", **values)


def render_gpu(groups: tuple[str, ...]) -> str:
    return template("gpu.conf", groups=" ".join(groups))


class Systemd:
    """The manager of this machine, or of one user."""

    def __init__(self, *, system: bool) -> None:
        self._scope = () if system else ("--user",)
        self._system = system

    def install(self, installation: Installation, *, start: bool) -> Plan:
        """Files and commands; `start` is False while there is no model to serve."""
        return Plan(
            writes=self._files(installation),
            after=(
                *(self._machine_setup() if self._system else ()),
                self._systemctl("daemon-reload"),
                self._systemctl("enable", UNIT),
                *(self._start() if start else ()),
            ),
        )

    def uninstall(self) -> Plan:
        """Configuration, models and the service user stay."""
        removes = [self._unit_path, self._gpu_path]
        if self._system:
            removes += [Path("/etc/sysusers.d/homespec.conf"), Path("/etc/tmpfiles.d/homespec.conf")]
        return Plan(
            before=(self._systemctl("disable", "--now", UNIT, may_fail=True),),
            removes=tuple(removes),
            after=(self._systemctl("daemon-reload"),),
        )

    def status(self) -> tuple[str, ...]:
        return self._systemctl("show", UNIT, "--property", _STATUS_FIELDS).argv

    def logs(self, *, follow: bool, lines: int) -> tuple[str, ...]:
        unit = ("--unit",) if self._system else ("--user-unit",)
        journalctl = tool("journalctl", _NO_SYSTEMD)
        return (journalctl, *unit, UNIT, "--lines", str(lines), *(("--follow",) if follow else ("--no-pager",)))

    @staticmethod
    def is_active(shown: str) -> bool:
        return "ActiveState=active" in shown.splitlines()

    @staticmethod
    def is_missing(shown: str) -> bool:
        """systemd shows units that do not exist as well, and calls that a success."""
        return "LoadState=not-found" in shown.splitlines()

    def hint(self) -> str | None:
        """What else a person may want."""
        if self._system:
            return None
        return "to keep it running while you are logged out: loginctl enable-linger"

    @property
    def _unit_path(self) -> Path:
        return self._folder / UNIT

    @property
    def _gpu_path(self) -> Path:
        return self._folder / f"{UNIT}.d" / "gpu.conf"

    @property
    def _folder(self) -> Path:
        if self._system:
            return Path("/etc/systemd/system")
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"

    def _files(self, installation: Installation) -> tuple[File, ...]:
        folder = installation.config.parent
        files = [
            File(self._unit_path, render_unit(installation)),
            File(installation.config, template("config.toml"), is_yours=True),
            File(folder / "homespec.env", template("environment"), is_yours=True, is_secret=True),
        ]
        if self._system:
            files += [
                File(Path("/etc/sysusers.d/homespec.conf"), template("sysusers.conf")),
                File(Path("/etc/tmpfiles.d/homespec.conf"), template("tmpfiles.conf")),
            ]
            if installation.gpu_groups:
                files.append(File(self._gpu_path, render_gpu(installation.gpu_groups)))
        return tuple(files)

    def _start(self) -> tuple[Command, ...]:
        """Starts by hand count against the limit of the unit as well; this one is meant."""
        return self._systemctl("reset-failed", UNIT, may_fail=True), self._systemctl("restart", UNIT)

    @staticmethod
    def _machine_setup() -> tuple[Command, ...]:
        return (
            Command((tool("systemd-sysusers", _NO_SYSTEMD), "homespec.conf")),
            Command((tool("systemd-tmpfiles", _NO_SYSTEMD), "--create", "homespec.conf")),
        )

    def _systemctl(self, *words: str, may_fail: bool = False) -> Command:
        return Command((tool("systemctl", _NO_SYSTEMD), *self._scope, *words), may_fail)
