"""What a running daemon says of itself, and what is known when none answers."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from homespec.client.failures import UnreachableError
from homespec.config import Settings
from homespec.doctor.check import Check, Verdict
from homespec.doctor.daemon import check_absent, check_status, port_holder, url_of
from homespec.errors import RequestError
from homespec.status import DraftState, Phase, Status
from tests.tui import snapshots

URL = "http://127.0.0.1:8642"


def found(status: Status) -> dict[str, Check]:
    return {check.name: check for check in check_status(URL, status)}


def test_a_healthy_daemon() -> None:
    checks = found(snapshots.speculating())
    assert checks["daemon"].verdict is Verdict.OK
    assert {"loaded", "exactness", "drafting"} <= checks.keys()
    assert snapshots.speculating().exactness in checks["exactness"].text


def test_phases() -> None:
    status = snapshots.speculating()
    verdicts = {
        Phase.LOADING: Verdict.WARN,
        Phase.FAILED: Verdict.FAIL,
        Phase.READY: Verdict.OK,
        Phase.IDLE: Verdict.OK,
    }
    for phase, verdict in verdicts.items():
        assert found(replace(status, phase=phase))["daemon"].verdict is verdict


def test_a_daemon_that_goes_without_its_gpu_is_not_well() -> None:
    check = found(replace(snapshots.speculating(), degraded="on the CPU: none is there"))["daemon"]
    assert check.verdict is Verdict.WARN
    assert "degraded at http://127.0.0.1:8642: on the CPU: none is there" in check.text


def test_an_older_daemon_and_one_that_was_started_again() -> None:
    status = snapshots.speculating()
    status = replace(status, version="0.0.1", engine=replace(status.engine, restarts=2, last_exit="killed by SIGKILL"))
    checks = found(status)
    assert "0.0.1" in checks["version"].text
    assert "2 restarts, the last after: killed by SIGKILL" in checks["engine"].text


def test_a_draft_model_that_is_off_is_a_warning_unless_that_was_asked_for() -> None:
    status = snapshots.speculating()
    assert status.speculation is not None
    off = replace(status.speculation.drafters[0], state=DraftState.OFF, reason="crashed", path="/m/d.gguf")
    speculation = replace(status.speculation, mode="auto", drafters=(off,))
    check = found(replace(status, speculation=speculation))["drafter"]
    assert check.verdict is Verdict.WARN
    assert "crashed" in check.text
    assert "drafter" not in found(replace(status, speculation=replace(speculation, mode="off")))


def test_without_a_daemon_the_port_is_tried() -> None:
    refused = UnreachableError("connection refused")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        settings = Settings.model_construct(port=port)
        daemon, taken = check_absent(URL, refused, settings)
        assert (daemon.verdict, taken.verdict) == (Verdict.WARN, Verdict.FAIL)
        assert f"port {port}" in taken.text
        assert (port_holder(port) or "") in taken.text, "who may not look gets no name"
    assert [check.verdict for check in check_absent(URL, refused, settings)] == [Verdict.WARN, Verdict.OK]


def test_something_that_answers_otherwise_is_no_free_port() -> None:
    [check] = check_absent(URL, RequestError("a key is needed", status=401), Settings.model_construct())
    assert check.verdict is Verdict.FAIL
    assert "a key is needed" in check.text


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        (None, 8642, "http://127.0.0.1:8642"),
        ("::1", 9000, "http://127.0.0.1:9000"),
        ("0.0.0.0", 0, "http://127.0.0.1:8642"),
        ("192.168.1.20", 8642, "http://192.168.1.20:8642"),
        ("fd00::2", 8642, "http://[fd00::2]:8642"),
    ],
)
def test_a_daemon_is_looked_for_where_the_configuration_puts_it(host: str | None, port: int, url: str) -> None:
    assert url_of(Settings.model_construct(host=host, port=port)) == url
