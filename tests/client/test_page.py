"""`homespec status`: what the snapshot says, as text."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from homespec.client.page import page, show
from homespec.errors import ExitCode
from homespec.status import Event, ModelMemory, ResidentStatus, Status
from homespec.units import GIB
from tests.client.daemon_double import DaemonDouble, Reply
from tests.tui import snapshots


def text_of(status: Status) -> str:
    return "\n".join(page(status))


def test_it_says_what_the_snapshot_says() -> None:
    status = snapshots.speculating()
    text = text_of(status)
    assert status.speculation is not None
    for drafter in status.speculation.drafters:
        assert f"{drafter.name} {drafter.state}: {drafter.reason}" in text
    for request in status.requests:
        assert request.id in text
    for fragment in ("83.1 tok/s", "3.48 tokens per pass", "62 % accepted", "3 running, 1 of 64 waiting"):
        assert fragment in text


@pytest.mark.parametrize("make", [snapshots.speculating, snapshots.plain, snapshots.squeezed, snapshots.loading])
def test_every_state_fits_on_a_screen(make: object) -> None:
    assert callable(make)
    lines = list(page(make()))
    assert len(lines) <= 40
    assert all(line.isprintable() for line in lines)


def test_models_that_stay_loaded_are_listed() -> None:
    status = snapshots.plain()
    assert status.memory is not None
    residents = (ResidentStatus("digits", 4712, ModelMemory(3 * GIB, GIB), 192.0),)
    text = text_of(replace(status, memory=replace(status.memory, residents=residents)))
    assert "resident     digits: 4.00 GiB, has not been asked for 3m 12s" in text


def test_a_gpu_that_is_missed_is_told_near_the_top() -> None:
    [_, line, *_] = page(replace(snapshots.plain(), degraded="on the CPU: no GPU"))
    assert line == "degraded     on the CPU: no GPU"


def test_text_from_elsewhere_cannot_steer_the_terminal() -> None:
    event = Event(0.0, "drafter", "a file named \x1b[2J\nso")
    assert "\x1b" not in text_of(replace(snapshots.plain(), events=(event,)))


@pytest.mark.parametrize(
    ("status", "code"), [(snapshots.plain(), ExitCode.OK), (snapshots.loading(), ExitCode.FAILURE)]
)
def test_the_exit_code_says_whether_requests_can_be_answered(
    status: Status, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    with DaemonDouble() as daemon:
        daemon.replies["/status"] = Reply(200, msgspec.json.encode(status))
        assert show(daemon.url, None, as_json=True) is code
        assert msgspec.json.decode(capsys.readouterr().out, type=Status) == status
        assert show(daemon.url, None, as_json=False) is code
        assert capsys.readouterr().out.splitlines() == list(page(status))
