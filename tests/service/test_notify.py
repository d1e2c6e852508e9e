"""Messages to the service manager, as the manager receives them."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.service.notify import Notifier
from tests.kits.notify_socket import NotifySocket


def test_a_message_is_one_datagram(manager_socket: NotifySocket) -> None:
    Notifier(manager_socket.address).send(READY=1, STATUS="all is well")
    assert manager_socket.messages() == [{"READY": "1", "STATUS": "all is well"}]


@pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")
def test_an_abstract_address() -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sock:
        sock.bind("\0homespec-test-" + str(os.getpid()))
        Notifier("@homespec-test-" + str(os.getpid())).send(READY=1)
        assert sock.recv(100) == b"READY=1"


def test_a_name_with_a_line_break_cannot_add_an_assignment(manager_socket: NotifySocket) -> None:
    Notifier(manager_socket.address).send(STATUS="model a\nREADY=1\r\nMAINPID=1")
    assert manager_socket.messages() == [{"STATUS": "model a READY=1 MAINPID=1"}]


def test_a_reload_carries_its_time(manager_socket: NotifySocket) -> None:
    Notifier(manager_socket.address).reloading()
    [message] = manager_socket.messages()
    assert message["RELOADING"] == "1"
    assert int(message["MONOTONIC_USEC"]) > 0


def test_without_a_manager_nothing_is_sent() -> None:
    notifier = Notifier.from_environment({})
    assert not notifier.enabled
    notifier.send(READY=1)


def test_a_manager_that_is_gone_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    Notifier("/nope/notify").send(READY=1)
    assert "/nope/notify" in caplog.text
    assert "READY=1" in caplog.text


def test_a_manager_that_is_gone_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A shell that a service left behind hands its address on."""
    notifier = Notifier(str(tmp_path / "notify"))
    with caplog.at_level("INFO"):
        for _ in range(10):
            notifier.send(WATCHDOG=1)
        assert len(caplog.records) == 1
        with closing(NotifySocket(tmp_path)):
            notifier.send(WATCHDOG=1)
        for _ in range(10):
            notifier.send(WATCHDOG=1)
        assert len(caplog.records) == 2


def test_children_do_not_inherit_the_socket() -> None:
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier = Notifier.from_environment(environ)
    assert notifier.enabled
    assert notifier.watchdog_s == 4
    assert environ == {"HOME": "/"}


@given(st.text())
def test_a_watchdog_that_makes_no_sense_is_none(text: str) -> None:
    watchdog_s = Notifier.from_environment({"WATCHDOG_USEC": text}).watchdog_s
    assert watchdog_s is None or watchdog_s == int(text) / 1e6


def test_a_watchdog_of_another_process_is_none() -> None:
    assert Notifier.from_environment({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_s is None
