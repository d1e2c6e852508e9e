"""What is announced in which state of the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.frames import EngineSettings, Heartbeat
from homespec.service.announce import Announcer, Pulse, status_line
from homespec.service.notify import Notifier
from homespec.status import DraftState, Phase, SpeculationStatus
from homespec.supervision.plan import Plan
from homespec.supervisor import Supervisor
from tests.kits.limits import limits
from tests.kits.notify_socket import NotifySocket

STALL_TIMEOUT_S = 30.0
LOAD_TIMEOUT_S = 100.0
LIMITS = limits(stall_timeout_s=STALL_TIMEOUT_S, load_timeout_s=LOAD_TIMEOUT_S)
SECONDS = st.floats(0, 10_000)


@pytest.fixture
def supervisor() -> Supervisor:
    """Never run: the tests put it into its states."""
    return Supervisor(Plan(EngineSettings("m.gguf", "m")), LIMITS)


@pytest.fixture
def announcer(supervisor: Supervisor, manager_socket: NotifySocket) -> Announcer:
    return Announcer(Notifier(manager_socket.address, watchdog_s=8), supervisor)


def beat(supervisor: Supervisor, *, progress: int, busy: bool, at: float) -> None:
    supervisor._life.progress.beat(Heartbeat(progress, busy), at)


@given(SECONDS, SECONDS, st.sampled_from(Phase))
def test_only_progress_feeds_the_watchdog(waited_s: float, unchanged_s: float, phase: Phase) -> None:
    is_real = Pulse(phase, waited_s, unchanged_s).is_real(LIMITS)
    match phase:
        case Phase.READY:
            assert is_real == (waited_s <= STALL_TIMEOUT_S)
        case Phase.LOADING | Phase.RESTARTING:
            assert is_real == (unchanged_s <= LOAD_TIMEOUT_S + 10)
        case _:
            assert is_real == (phase in (Phase.IDLE, Phase.STOPPING))


def test_ready_is_said_once_and_only_when_requests_are_answered(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket
) -> None:
    announcer.step(0)
    assert not manager_socket.has("READY")
    supervisor.state.phase = Phase.READY
    announcer.step(1)
    announcer.step(2)
    supervisor.state.phase = Phase.RESTARTING
    announcer.step(3)
    supervisor.state.phase = Phase.READY
    announcer.step(4)
    assert [message for message in manager_socket.messages() if "READY" in message] == [{"READY": "1"}]


def test_a_reload_is_over_when_it_is_done_and_requests_are_answered(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket
) -> None:
    supervisor.state.phase = Phase.READY
    announcer.step(0)
    manager_socket.forget()
    announcer.reloading()
    announcer.step(1)
    assert not manager_socket.has("READY")
    supervisor.state.phase = Phase.RESTARTING
    announcer.reloaded()
    announcer.step(2)
    assert not manager_socket.has("READY")
    supervisor.state.phase = Phase.READY
    announcer.step(3)
    names = [next(iter(message)) for message in manager_socket.messages()]
    assert [name for name in names if name not in ("STATUS", "WATCHDOG")] == [
        "RELOADING",
        "EXTEND_TIMEOUT_USEC",
        "READY",
    ]


def test_a_load_that_goes_on_extends_the_start(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket
) -> None:
    for now, progress in enumerate((0.0, 0.0, 0.5, 0.5)):
        supervisor.state.load_progress = progress
        announcer.step(now)
    assert sum("EXTEND_TIMEOUT_USEC" in message for message in manager_socket.messages()) == 2


def test_an_engine_that_stands_still_starves_the_watchdog(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("homespec.supervisor.time.monotonic", lambda: now)
    supervisor.state.phase = Phase.READY
    beat(supervisor, progress=1, busy=True, at=now)
    announcer.step(now)
    assert manager_socket.has("WATCHDOG")
    manager_socket.forget()
    now += STALL_TIMEOUT_S + 1
    beat(supervisor, progress=1, busy=True, at=now)  # it speaks, and does nothing
    announcer.step(now)
    assert not manager_socket.has("WATCHDOG")
    beat(supervisor, progress=2, busy=True, at=now)
    announcer.step(now)
    assert manager_socket.has("WATCHDOG")


def test_a_load_that_hangs_starves_the_watchdog(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket
) -> None:
    announcer.step(0)
    announcer.step(LOAD_TIMEOUT_S)
    manager_socket.forget()
    announcer.step(LOAD_TIMEOUT_S + 20)
    assert not manager_socket.has("WATCHDOG")
    supervisor.state.load_progress = 0.7
    announcer.step(LOAD_TIMEOUT_S + 30)
    assert manager_socket.has("WATCHDOG")


def test_a_reload_of_a_daemon_that_rests_is_over_too(
    announcer: Announcer, supervisor: Supervisor, manager_socket: NotifySocket
) -> None:
    supervisor.state.phase = Phase.IDLE
    announcer.reloading()
    announcer.reloaded()
    announcer.step(0)
    assert manager_socket.has("READY")


def test_the_status_names_the_state_and_the_drafter() -> None:
    drafting = SpeculationStatus("auto", "ngram", DraftState.READY, "confident", 4, (), {})
    assert status_line(Phase.LOADING, "loading m.gguf", 0.4, None) == "loading: loading m.gguf (40%)"
    assert status_line(Phase.RESTARTING, "the engine died", 1, drafting) == "restarting: the engine died"
    assert status_line(Phase.READY, "ready", 1, drafting) == "ready; drafting with ngram, ready: confident"
    assert status_line(Phase.READY, "ready", 1, None) == "ready"
    assert status_line(Phase.READY, "ready", 1, None, "on the CPU: no GPU") == "degraded, on the CPU: no GPU"
