"""Where this installation is: what a service manager must start, and what may be in its way."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from homespec.config.sources import default_config_path
from homespec.errors import ServiceError

SYSTEM_CONFIG = Path("/etc/homespec/config.toml")
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""What `ProtectHome=yes` hides from a service."""
_GPU_NODES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128")
_GPU_GROUPS = ("video", "render")


@dataclass(frozen=True, slots=True)
class Installation:
    """What a unit is made of."""

    command: tuple[str, ...]
    """Program and arguments that come before `serve`."""
    config: Path
    system: bool
    """For the whole machine; else for one user."""
    gpu_groups: tuple[str, ...] = ()
    """Groups that may use the GPU; empty when there is no GPU."""


def detect(*, system: bool, config: Path | None = None) -> Installation:
    """This installation. Raises ServiceError when a system service could not reach it."""
    script = Path(sys.executable).with_name("homespec")
    command = (str(script),) if script.exists() else (sys.executable, "-P", "-m", "homespec")
    default = SYSTEM_CONFIG if system else default_config_path()
    installation = Installation(command, (config or default).absolute(), system, _gpu_groups())
    if system:
        _check_reachable(installation)
    return installation


def _check_reachable(installation: Installation) -> None:
    for path in (Path(installation.command[0]), installation.config):
        home = next((home for home in _HOMES if path.is_relative_to(home)), None)
        if home is not None:
            raise ServiceError(
                f"{path} is below {home}, which a system service must not read; install homespec outside of it "
                f"(python3 -m venv /opt/homespec), or leave out --system for a service of your own user"
            )


def _gpu_groups() -> tuple[str, ...]:
    if not any(os.path.lexists(node) for node in _GPU_NODES):
        return ()
    try:
        import grp
    except ImportError:  # not a Unix
        return ()
    known = {group.gr_name for group in grp.getgrall()}
    return tuple(name for name in _GPU_GROUPS if name in known)
