"""The tree that is booted: Debian by debootstrap, this program with what it needs, a small model, the unit."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
import uuid
from pathlib import Path

from tests.kits.models import Models

REPOSITORY = Path(__file__).parents[2]
PROGRAM = "/opt/homespec"
MODEL = "/srv/models/letters.gguf"
_PACKAGES = "systemd,systemd-sysv,dbus,python3,libgomp1,libstdc++6"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_BASE_PYTHON = "/opt/python"
_DEPENDENCIES = "/opt/dependencies"
_UNIT = """\
[Unit]
Description=boot test
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart={program}/bin/python /opt/inside.py
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
"""
# A minute of silence is too long to wait for, and so are five starts.
_IMPATIENT = "[Unit]\nStartLimitBurst=2\n[Service]\nWatchdogSec=10\n"


class NoTree(Exception):
    """The tree cannot be made here, with the reason."""


def prepare(folder: Path) -> Path:
    """The tree, fetched if it is not there yet, with this state of the program in it. Raises NoTree."""
    tree = folder / _suite()
    if not tree.exists():
        _fetch(tree)
    _install_program(tree)
    _install_unit(tree)
    _check_program(tree)
    return tree


def binds() -> list[str]:
    """Flags of nspawn for what is not copied: the interpreter and the installed packages."""
    dependencies = sysconfig.get_paths()["purelib"]
    flags = [f"--bind-ro={dependencies}:{_DEPENDENCIES}"]
    return flags if _is_system_python() else [*flags, f"--bind-ro={sys.base_prefix}:{_BASE_PYTHON}"]


def _suite() -> str:
    """The release of this machine, so that its interpreter finds the libraries it was built with."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "stable"
    return release.get("VERSION_CODENAME", "stable") if release.get("ID") == "debian" else "stable"


def _fetch(tree: Path) -> None:
    part = tree.with_name(f"{tree.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching Debian {tree.name} into {tree}", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", tree.name, str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise NoTree(f"debootstrap failed: {lines[-1] if lines else done.returncode}")
    part.rename(tree)


def _is_system_python() -> bool:
    return sys.base_prefix == "/usr"


def _install_program(tree: Path) -> None:
    """A virtual environment by hand: its parts lie elsewhere here than they will there."""
    root = tree / PROGRAM.lstrip("/")
    shutil.rmtree(root, ignore_errors=True)
    packages = root / "lib" / _VERSION / "site-packages"
    packages.mkdir(parents=True)
    shutil.copytree(REPOSITORY / "homespec", packages / "homespec", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "dependencies.pth").write_text(f"{_DEPENDENCIES}\n")
    base = "/usr/bin" if _is_system_python() else f"{_BASE_PYTHON}/bin"
    (root / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
    (root / "bin").mkdir()
    (root / "bin/python").symlink_to(f"{base}/{_VERSION}")
    script = root / "bin/homespec"
    script.write_text(f"#!{PROGRAM}/bin/python -P\nfrom homespec.cli import main\nmain()\n")
    script.chmod(0o755)
    for mount in (_DEPENDENCIES, _BASE_PYTHON, "/results"):
        (tree / mount.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _link(tree / "usr/bin/homespec", f"{PROGRAM}/bin/homespec")


def _install_unit(tree: Path) -> None:
    """The files of packaging/ where a distribution puts them, a configuration, a model, and what looks at it all."""
    shipped = REPOSITORY / "packaging" / "systemd"
    for source, target in (
        (shipped / "system/homespec.service", "usr/lib/systemd/system/homespec.service"),
        (shipped / "homespec.sysusers", "usr/lib/sysusers.d/homespec.conf"),
        (shipped / "homespec.tmpfiles", "usr/lib/tmpfiles.d/homespec.conf"),
        (Path(__file__).with_name("inside.py"), "opt/inside.py"),
    ):
        shutil.copy(source, tree / target)
    models = (tree / MODEL.lstrip("/")).parent
    models.mkdir(parents=True, exist_ok=True)
    Models(models).letters.chmod(0o644)
    _write(tree / "etc/ld.so.conf.d/python.conf", f"{_BASE_PYTHON}/lib\n")
    # Without one this were a first boot, which asks questions.
    _write(tree / "etc/machine-id", f"{uuid.uuid4().hex}\n")
    _write(tree / "etc/homespec/config.toml", f'model = "{MODEL}"\nexactness = "fast"\n')
    _write(tree / "etc/systemd/system/homespec.service.d/test.conf", _IMPATIENT)
    _write(tree / "etc/systemd/system/boot-test.service", _UNIT.format(program=PROGRAM))
    wanted = tree / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    _link(wanted / "homespec.service", "/usr/lib/systemd/system/homespec.service")
    _link(wanted / "boot-test.service", "/etc/systemd/system/boot-test.service")


def _check_program(tree: Path) -> None:
    """Raises NoTree when this machine's interpreter or libraries do not run in the tree."""
    command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={tree}", *binds()]
    # An interpreter may come with a library of its own, which is found by its old place only.
    command += ["/bin/sh", "-c", f"/sbin/ldconfig && {PROGRAM}/bin/python -P -m homespec.engine.facts"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise NoTree(f"this program does not run in Debian {tree.name}: {lines[-1] if lines else done.returncode}")


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
