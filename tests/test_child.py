"""What an engine process is given: its environment and its place in the queue of the OOM killer."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.child import engine_environment
from tests.daemons import Daemon, eventually, running
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
