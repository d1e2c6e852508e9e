"""What an engine process is given, and how its end is seen and made sure of."""

from __future__ import annotations

import asyncio
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from homespec import child
from homespec.child import EngineChild, engine_environment
from homespec.frames import EngineSettings, Ready
from tests.daemons import Daemon, eventually, in_processes, running, session_members
from tests.kits.models import Models


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "10000", "GGML_NO_BACKTRACE": "1"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7", "GGML_NO_BACKTRACE": "1"}),
        ({"OMP_WAIT_POLICY": "passive"}, {"OMP_WAIT_POLICY": "passive", "GGML_NO_BACKTRACE": "1"}),
        ({"OMP_WAIT_POLICY": ""}, {"OMP_WAIT_POLICY": "", "GGML_NO_BACKTRACE": "1"}),
        (
            {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "9"},
            {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "9", "GGML_NO_BACKTRACE": "1"},
        ),
        ({"GGML_NO_BACKTRACE": "0"}, {"GOMP_SPINCOUNT": "10000", "GGML_NO_BACKTRACE": "0"}),
    ],
)
def test_what_the_user_has_set_stays(users: dict[str, str], expected: dict[str, str]) -> None:
    given = {"HOME": "/home/me", **users}
    assert engine_environment(given) == {"HOME": "/home/me", **expected}
    assert given == {"HOME": "/home/me", **users}


class Unkillable:
    """A process inside a wedged driver."""

    pid = 2**22 + 1
    """Above all that Linux gives."""
    returncode: int | None = None

    async def wait(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_engine_that_nothing_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(child, "KILL_TIMEOUT_S", 0.05)
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        process: Any = Unkillable()
        engine = EngineChild(process, reader, writer)
        assert await engine.stop() == "has not ended 0.05 s after SIGKILL"
        assert [frame async for frame in engine.frames()] == []


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def oom_score_adj(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.process
@pytest.mark.parametrize(
    ("users", "spin_count"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, None)],
)
def test_a_real_engine_has_it(models: Models, tmp_path: Path, users: dict[str, str], spin_count: str | None) -> None:
    with running(tmp_path, str(models.letters), environment=users, wait=False) as daemon:
        environment = environment_of(daemon.engine_pid)
        assert environment.get("GOMP_SPINCOUNT") == spin_count
        assert environment["GGML_NO_BACKTRACE"] == "1"
        assert users.items() <= environment.items()
        # When memory runs out, the engine goes first.
        eventually(lambda: engine_goes_first(daemon), "the engine offers itself")


def engine_goes_first(daemon: Daemon) -> bool:
    return oom_score_adj(daemon.engine_pid) > oom_score_adj(daemon.process.pid)


def wrapper(folder: Path, commands: str = "") -> str:
    """A Python that is a script and does not replace itself with the real one, as some distributions have it; or one
    that runs other commands.
    """
    real = f'{shlex.quote(sys.executable)} "$@"'
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{commands or real}\nexit $?\n")
    script.chmod(0o755)
    return str(script)


async def ready_child(models: Models) -> EngineChild:
    child = await EngineChild.start(EngineSettings(str(models.letters), "letters", exactness="fast", threads=1))
    async for frame in child.frames():
        if isinstance(frame, Ready):
            return child
    raise AssertionError(await child.wait())


@pytest.mark.process
async def test_behind_a_wrapper_the_engine_is_asked_to_end_and_none_of_both_is_left(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", wrapper(tmp_path))
    child = await ready_child(models)
    assert len(session_members(child.pid)) > 1
    assert await child.stop() == "exited with code 0"
    assert session_members(child.pid) == []


@pytest.mark.process
async def test_an_engine_that_hears_nothing_is_killed_with_its_wrapper(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", wrapper(tmp_path))
    child = await ready_child(models)
    for pid in session_members(child.pid):
        psutil.Process(pid).send_signal(signal.SIGSTOP)
    assert await child.stop() == "killed by SIGKILL"
    eventually(lambda: not session_members(child.pid), "both are gone")


@pytest.mark.process
async def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = tmp_path / "heard"
    script = (
        f"trap 'touch {shlex.quote(str(heard))}' TERM; touch {shlex.quote(str(heard))}; while :; do sleep 0.1; done"
    )
    monkeypatch.setattr(sys, "executable", wrapper(tmp_path, script))
    child = await EngineChild.start(EngineSettings("m.gguf", "m"))
    eventually(heard.exists, "it ignores the signal")
    heard.unlink()
    psutil.Process(child.pid).terminate()
    eventually(heard.exists, "it has ignored it")
    assert await child.stop() == "killed by SIGKILL"
    eventually(lambda: not session_members(child.pid), "what it has started is gone too")


async def test_a_child_that_crashed_is_known_by_its_exit_code_and_is_no_zombie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", wrapper(tmp_path, "exit 1"))
    child = await EngineChild.start(EngineSettings("m.gguf", "m"))
    assert [frame async for frame in child.frames()] == []
    assert await child.wait() == "exited with code 1"
    assert not psutil.pid_exists(child.pid)
    child.kill()  # harms nobody


@pytest.mark.process
def test_nothing_behind_a_wrapper_outlives_a_killed_daemon(models: Models, tmp_path: Path) -> None:
    environment = in_processes(tmp_path, f"sys.executable = {wrapper(tmp_path)!r}", "serve")
    with running(tmp_path, str(models.letters), environment=environment) as daemon:
        assert len(session_members(daemon.engine_pid)) > 1
        daemon.signal(signal.SIGKILL)
        daemon.wait_exit()
        eventually(lambda: not daemon.survivors(), "both find the daemon gone")
