"""`homespec status`: what the snapshot says, as text."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from homespec.client.failures import UnreachableError
from homespec.client.page import page, show
from homespec.errors import ExitCode, HomespecError
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


def test_the_limit_of_a_container_is_told() -> None:
    status = snapshots.plain()
    assert "within the limit" not in text_of(status)
    assert status.memory is not None
    limited = replace(status.memory.pools[0], total_bytes=2 * GIB, free_bytes=GIB)
    memory = replace(status.memory, pools=(limited, *status.memory.pools[1:]))
    assert "1.00 GiB free within the limit of 2.00 GiB" in text_of(replace(status, memory=memory))


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


def test_where_no_daemon_is_the_url_and_the_remedy_are_told() -> None:
    with pytest.raises(UnreachableError) as caught:
        show("http://127.0.0.1:9", None, as_json=False)
    told = "no homespec at http://127.0.0.1:9: connection refused. Start one with 'homespec serve' or pass --url."
    assert str(caught.value) == told


def test_a_key_that_is_missing_is_asked_for_where_a_terminal_takes_it() -> None:
    with DaemonDouble() as daemon:
        body = {"error": {"message": "a valid API key is needed", "type": "authentication_error"}}
        daemon.replies["/status"] = Reply(401, msgspec.json.encode(body))
        with pytest.raises(HomespecError, match="set HOMESPEC_API_KEY to the daemon's key"):
            show(daemon.url, None, as_json=False)


def test_a_phase_that_has_nothing_to_add_is_said_once() -> None:
    [first, *_] = page(replace(snapshots.plain(), detail="ready"))
    assert first.startswith("daemon       ready; up ")


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
