"""`homespec service status` and `logs`, over stand-ins for systemd's programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from homespec.errors import ExitCode, ServiceError
from homespec.service import manager
from tests.daemons import FinishedCommand, run_command

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "darwin", reason="launchd is asked there"),
]

RUNS = "LoadState=loaded\nActiveState=active\nStatusText=ready; drafting with suffix\n"
FAILED = "LoadState=loaded\nActiveState=failed\nExecMainStatus=6\n"
MISSING = "LoadState=not-found\nActiveState=inactive\n"
FIELDS = "LoadState,ActiveState,SubState,Result,StatusText,NRestarts,ExecMainStatus,MainPID,ActiveEnterTimestamp"


@dataclass
class Box:
    """A machine with systemd, and what its programs were asked."""

    folder: Path

    def command(self, *arguments: str) -> FinishedCommand:
        return run_command(self.folder, "service", *arguments, environment={"PATH": str(self.folder / "bin")})

    def put(self, name: str, *, says: str = "", fails_with: str = "", code: int = 0) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / f"{name}.out").write_text(says)
        (self.folder / f"{name}.err").write_text(f"{fails_with}\n" if fails_with else "")
        program = self.folder / "bin" / name
        out, err = self.folder / f"{name}.out", self.folder / f"{name}.err"
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> "{self.folder}/calls"\n'
            f'while read -r line; do echo "$line"; done < "{out}"\n'
            f'while read -r line; do echo "$line" >&2; done < "{err}"\nexit {code}\n'
        )
        program.chmod(0o755)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def box(tmp_path: Path) -> Box:
    box = Box(tmp_path)
    box.put("systemctl", says=RUNS)
    box.put("journalctl", says="one line of the log\n")
    return box


@pytest.mark.parametrize(("flags", "scope"), [((), "--user "), (("--system",), "")])
def test_the_manager_that_was_meant_is_asked_about_the_unit(box: Box, flags: tuple[str, ...], scope: str) -> None:
    finished = box.command("status", *flags)
    assert (finished.code, finished.stdout, finished.stderr) == (ExitCode.OK, RUNS, "")
    assert box.calls() == [f"systemctl {scope}show homespec.service --property {FIELDS}"]


def test_only_a_service_that_runs_is_a_success(box: Box) -> None:
    box.put("systemctl", says=FAILED)
    finished = box.command("status")
    assert (finished.code, finished.stdout, finished.stderr) == (ExitCode.FAILURE, FAILED, "")


@pytest.mark.parametrize(
    ("flags", "unit"),
    [
        ((), "--user-unit homespec.service --lines 100 --no-pager"),
        (("--system", "-n", "7", "--follow"), "--unit homespec.service --lines 7 --follow"),
    ],
)
def test_the_log_is_that_of_the_unit(box: Box, flags: tuple[str, ...], unit: str) -> None:
    finished = box.command("logs", *flags)
    assert (finished.code, finished.stdout, finished.stderr) == (ExitCode.OK, "one line of the log\n", "")
    assert box.calls()[-1] == f"journalctl {unit}"


def test_the_exit_code_of_logs_is_that_of_the_program_which_shows_them(box: Box) -> None:
    box.put("journalctl", fails_with="No journal files were opened", code=3)
    finished = box.command("logs")
    assert (finished.code, finished.complaint) == (3, "No journal files were opened")


@pytest.mark.parametrize("command", ["status", "logs"])
@pytest.mark.parametrize(
    ("flags", "remedy"),
    [((), "'homespec service install'"), (("--system",), "'sudo homespec service install --system'")],
)
def test_without_a_service_one_line_says_how_to_get_one(
    box: Box, command: str, flags: tuple[str, ...], remedy: str
) -> None:
    box.put("systemctl", says=MISSING)
    finished = box.command(command, *flags)
    assert finished.code == ExitCode.FAILURE
    assert "no service is installed" in finished.complaint
    assert remedy in finished.complaint
    assert not any(call.startswith("journalctl") for call in box.calls())


def test_a_manager_that_cannot_be_asked_is_quoted(box: Box) -> None:
    box.put("systemctl", fails_with="Failed to connect to bus: No medium found", code=1)
    finished = box.command("status")
    assert finished.code == ExitCode.FAILURE
    assert "Failed to connect to bus: No medium found" in finished.complaint


@pytest.mark.parametrize("command", ["status", "logs"])
def test_without_systemd_one_line_says_what_to_do_instead(tmp_path: Path, command: str) -> None:
    finished = Box(tmp_path).command(command)
    assert finished.code == ExitCode.FAILURE
    assert "systemctl is not on this machine; this machine has no systemd; start 'homespec serve'" in finished.complaint


def test_a_manager_that_does_not_answer_is_given_up(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (box.folder / "bin/systemctl").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setenv("PATH", str(box.folder / "bin"))
    monkeypatch.setattr(manager, "ASK_TIMEOUT_S", 0.2)
    with pytest.raises(ServiceError, match=r"systemctl .*timed out after 0\.2 seconds; see whether"):
        manager.status(system=False)
