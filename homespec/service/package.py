"""`python -m homespec.service.package FOLDER`: the files for distributions, rendered from the same templates."""

from __future__ import annotations

import sys
from pathlib import Path

from homespec.service.installation import SYSTEM_CONFIG, Installation
from homespec.service.launchd import LABEL, render_plist
from homespec.service.systemd import UNIT, render_gpu, render_unit
from homespec.service.template import template

_PROGRAM = ("/usr/bin/homespec",)


def files() -> dict[str, str]:
    """Text by path below the folder. Programs in /usr/bin, configuration in the usual places."""
    machine = Installation(_PROGRAM, SYSTEM_CONFIG, system=True)
    person = Installation(_PROGRAM, SYSTEM_CONFIG, system=False)
    # %E is the configuration folder of whoever the manager belongs to.
    user_unit = render_unit(person, config="%E/homespec/config.toml", environment="%E/homespec/homespec.env")
    mac = Installation(("/opt/homebrew/bin/homespec",), Path("/opt/homebrew/etc/homespec/config.toml"), system=False)
    return {
        f"systemd/system/{UNIT}": render_unit(machine),
        f"systemd/system/{UNIT}.d/gpu.conf.example": render_gpu(("video", "render")),
        f"systemd/user/{UNIT}": user_unit,
        "systemd/homespec.sysusers": template("sysusers.conf"),
        "systemd/homespec.tmpfiles": template("tmpfiles.conf"),
        "systemd/homespec.env": template("environment"),
        f"launchd/{LABEL}.plist": render_plist(mac, log="/opt/homebrew/var/log/homespec.log", user=None),
    }


def main(folder: Path) -> None:
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
