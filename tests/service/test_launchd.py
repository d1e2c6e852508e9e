"""Property lists as launchd reads them, and an installation that can be done twice."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

from homespec.errors import ServiceError
from homespec.service.installation import Installation
from homespec.service.launchd import LABEL, Launchd, render_plist


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for launchctl that writes down how it was called, in a home of its own; the file it writes to."""
    log = tmp_path / "calls"
    program = tmp_path / "bin" / "launchctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\ntest "$1" != bootout\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    return log


def here(tmp_path: Path) -> Installation:
    return Installation(("/opt/home & spec/<x>",), tmp_path / "etc/config.toml", system=False)


def test_a_list_says_what_to_start_whatever_is_in_a_path(tmp_path: Path) -> None:
    read = plistlib.loads(render_plist(here(tmp_path), log="/l&g", user="ada").encode())
    assert read["Label"] == LABEL
    assert read["ProgramArguments"][:2] == ["/opt/home & spec/<x>", "serve"]
    assert read["StandardErrorPath"] == "/l&g"
    assert read["UserName"] == "ada"
    assert read["KeepAlive"] == {"SuccessfulExit": False}
    assert "UserName" not in plistlib.loads(render_plist(here(tmp_path), log="x", user=None).encode())


def test_install_twice_and_uninstall(calls: Path, tmp_path: Path) -> None:
    manager = Launchd(system=False)
    assert manager.is_missing("")
    plist = tmp_path / "Library/LaunchAgents" / f"{LABEL}.plist"
    plan = manager.install(here(tmp_path), start=True)
    plan.apply()
    assert plan.apply()[0] == f"{plist}: unchanged"
    assert not manager.is_missing("")
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["bootout", "bootstrap"] * 2
    manager.uninstall().apply()
    assert not plist.exists()
    assert (tmp_path / "etc/config.toml").exists()


def test_elsewhere_there_is_no_launchctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match="launchctl is not on this machine"):
        Launchd(system=False).uninstall()
