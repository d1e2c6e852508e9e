"""Units as systemd reads them, and an installation that can be done twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from homespec.config import Settings
from homespec.errors import ExitCode, ServiceError
from homespec.service.installation import Installation, detect
from homespec.service.package import files
from homespec.service.plan import File, Plan
from homespec.service.systemd import Systemd, quote, render_gpu, render_unit
from homespec.service.template import template
from tests.daemons import run_command

PACKAGING = Path(__file__).parents[2] / "packaging"
EXPOSURE_LIMIT = 3.0
needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for systemd's programs that write down how they were called; the file they write to."""
    log = tmp_path / "calls"
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "journalctl"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{log}"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return log


def here(tmp_path: Path, *, system: bool = False, groups: tuple[str, ...] = ()) -> Installation:
    return Installation(("/opt/home spec/100%/homespec",), tmp_path / "config/homespec/config.toml", system, groups)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_packaging_is_what_the_templates_say() -> None:
    paths = [path for folder in ("launchd", "systemd") for path in (PACKAGING / folder).rglob("*") if path.is_file()]
    there = {str(path.relative_to(PACKAGING)): path.read_text() for path in paths}
    assert there == files(), "run 'make packaging'"


@needs_analyze
@pytest.mark.parametrize("kind", ["system", "user"])
@pytest.mark.parametrize("name", ["plain", "with space 100%; ü", "\"quoted\" $HOME 'x' \\"])
def test_systemd_accepts_the_units(tmp_path: Path, kind: str, name: str) -> None:
    """Paths with everything that systemd would expand; the program must exist for it to be content."""
    program = tmp_path / name / "homespec"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "homespec.service"
    config = tmp_path / "etc %n" / "config.toml"
    unit.write_text(render_unit(Installation((str(program),), config, system=kind == "system")))
    done = analyze("verify", "--recursive-errors=no", str(unit))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
def test_the_unit_is_hardened() -> None:
    done = analyze("security", "--offline=true", str(PACKAGING / "systemd/system/homespec.service"))
    [exposure] = re.findall(r"Overall exposure level for homespec.service: ([\d.]+)", done.stdout)
    assert float(exposure) <= EXPOSURE_LIMIT


@pytest.mark.parametrize("name", ["systemd/system/homespec.service", "systemd/user/homespec.service"])
def test_the_numbers_of_the_unit_are_those_of_the_daemon(name: str) -> None:
    unit = files()[name]
    assert f"TimeoutStartSec={Settings.model_fields['load_timeout_s'].default:.0f}\n" in unit
    prevented = {int(code) for code in re.findall(r"RestartPreventExitStatus=(.*)", unit)[0].split()}
    assert prevented == {ExitCode.USAGE, ExitCode.CONFIG, ExitCode.MODEL}


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("/usr/bin/homespec", "/usr/bin/homespec"),
        ("/a b", '"/a b"'),
        ("/50%", "/50%%"),
        ("/$HOME", "/$$HOME"),
        ('/a"b\\c', '"/a\\"b\\\\c"'),
    ],
)
def test_words_of_a_command(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_only_a_machine_with_a_gpu_gets_its_devices(tools: Path, tmp_path: Path) -> None:
    plain = Systemd(system=True).install(here(tmp_path, system=True), start=True)
    with_gpu = Systemd(system=True).install(here(tmp_path, system=True, groups=("render",)), start=True)
    [added] = {file.path for file in with_gpu.writes} - {file.path for file in plain.writes}
    assert added == Path("/etc/systemd/system/homespec.service.d/gpu.conf")
    assert "SupplementaryGroups=render\n" in render_gpu(("render",))


def test_a_system_service_is_set_up_before_it_is_started(tools: Path, tmp_path: Path) -> None:
    plan = Systemd(system=True).install(here(tmp_path, system=True), start=True)
    names = [f"{Path(command.argv[0]).name} {command.argv[1]}" for command in plan.after]
    assert names == [
        "systemd-sysusers homespec.conf",
        "systemd-tmpfiles --create",
        "systemctl daemon-reload",
        "systemctl enable",
        "systemctl reset-failed",
        "systemctl restart",
    ]


def test_installing_twice_is_installing_once(tools: Path, tmp_path: Path) -> None:
    manager = Systemd(system=False)
    plan = manager.install(here(tmp_path), start=True)
    assert all("written" in line for line in plan.apply()[:3])
    config = tmp_path / "config/homespec/config.toml"
    config.write_text("slots = 1\n")
    unit = tmp_path / "config/systemd/user/homespec.service"
    before = unit.stat().st_mtime_ns

    lines = plan.apply()

    assert [line.rpartition(": ")[2] for line in lines[:3]] == ["unchanged", "kept", "kept"]
    assert unit.stat().st_mtime_ns == before
    assert config.read_text() == "slots = 1\n"
    once = ["daemon-reload", "enable homespec.service", "reset-failed homespec.service", "restart homespec.service"]
    assert tools.read_text().splitlines() == [f"systemctl --user {words}" for words in once * 2]


def test_uninstalling_leaves_what_is_yours(tools: Path, tmp_path: Path) -> None:
    manager = Systemd(system=False)
    manager.install(here(tmp_path), start=False).apply()
    manager.uninstall().apply()
    manager.uninstall().apply()
    assert sorted(path.name for path in (tmp_path / "config").rglob("*") if path.is_file()) == [
        "config.toml",
        "homespec.env",
    ]


def test_what_keys_are_put_into_is_for_its_owner_alone(tools: Path, tmp_path: Path) -> None:
    """A user's; the machine's gets its group by tmpfiles.d."""
    Systemd(system=False).install(here(tmp_path), start=False).apply()
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "config/homespec").iterdir()}
    assert modes["homespec.env"] == 0
    assert modes["config.toml"]


def test_a_unit_of_someone_else_is_not_overwritten(tools: Path, tmp_path: Path) -> None:
    unit = tmp_path / "config/systemd/user/homespec.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/my/own\n")
    with pytest.raises(ServiceError, match="not written by homespec"):
        Systemd(system=False).install(here(tmp_path), start=True).apply()
    Systemd(system=False).uninstall().apply()
    assert "/my/own" in unit.read_text()
    assert not (tmp_path / "config/homespec").exists()


def test_without_systemd_there_is_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match=r"systemctl is not on this machine; .*homespec serve"):
        Systemd(system=False).install(here(tmp_path), start=True)


def test_a_manager_that_refuses_is_quoted(tools: Path, tmp_path: Path) -> None:
    program = tools.parent / "bin/systemctl"
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    with pytest.raises(ServiceError, match=r"daemon-reload' failed: Failed to connect to bus"):
        Systemd(system=False).install(here(tmp_path), start=True).apply()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plan = Plan(writes=(File(tmp_path / "file" / "below" / "unit", "x"),))
    with pytest.raises(ServiceError, match=f"{tmp_path}/file/below/unit cannot be"):
        plan.apply()


def test_a_system_service_does_not_start_from_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/home/ada/venv/bin/python")
    with pytest.raises(ServiceError, match=r"below /home.*/opt/homespec"):
        detect(system=True)
    assert detect(system=False).command[0].startswith("/home/ada")


@pytest.mark.parametrize(
    ("what", "place"),
    [
        ("sys.executable", "/home/ada/venv/bin/python"),
        ("sys.base_prefix", "/root/.pyenv/versions/3.12.1"),
        ("homespec.__file__", "/home/ada/homespec/homespec/__init__.py"),
    ],
)
def test_nothing_that_a_system_service_needs_lies_in_a_home(
    monkeypatch: pytest.MonkeyPatch, what: str, place: str
) -> None:
    for each, outside in (
        ("sys.executable", "/opt/homespec/bin/python"),
        ("sys.base_prefix", "/usr"),
        ("homespec.__file__", "/opt/homespec/lib/homespec/__init__.py"),
    ):
        monkeypatch.setattr(each, outside)
    assert detect(system=True).system
    monkeypatch.setattr(what, place)
    with pytest.raises(ServiceError, match=r"below /(home|root), .*/usr/bin/python3 -m venv /opt/homespec"):
        detect(system=True)


def test_a_dry_run_shows_all_and_does_nothing(tools: Path, tmp_path: Path) -> None:
    text = Systemd(system=False).install(here(tmp_path), start=True).describe()
    for fragment in ("ExecStart=", "config.toml (kept if it exists)", "--user daemon-reload", "100%%"):
        assert fragment in text
    assert not (tmp_path / "config").exists()
    assert not tools.exists()


def test_the_example_configuration_is_one() -> None:
    """As it is, and with everything uncommented."""
    text = template("config.toml")
    assert tomllib.loads(text) == {"profile": "auto"}
    values = tomllib.loads(re.sub(r"^#(?=\w+ =)", "", text, flags=re.MULTILINE))
    assert len(values) > 5
    assert values.keys() <= Settings.model_fields.keys()


def test_the_command_shows_the_files_of_this_installation(tools: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    finished = run_command(tmp_path, "service", "install", "--dry-run", environment=environment)
    assert finished.code == ExitCode.OK
    assert (
        f"ExecStart={Path(sys.executable).with_name('homespec')} serve --config {tmp_path}/config/" in finished.stdout
    )
    assert "no model is set" in finished.stderr
    assert not (tmp_path / "config").exists()


def test_an_installed_service_is_started_once_there_is_a_model(tools: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    (tmp_path / "config/homespec").mkdir(parents=True)
    # The key that such a host needs is in the service's own environment.
    (tmp_path / "config/homespec/config.toml").write_text('demo = true\nhost = "0.0.0.0"\n')
    finished = run_command(tmp_path, "service", "install", environment=environment)
    assert finished.code == ExitCode.OK, finished.stderr
    assert tools.read_text().splitlines()[-1] == "systemctl --user restart homespec.service"
    assert run_command(tmp_path, "service", "status", environment=environment).code == ExitCode.FAILURE
