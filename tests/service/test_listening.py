"""Taking the port: on addresses of this machine, and at boot on those that it will have."""

from __future__ import annotations

import sys

import pytest

from homespec.errors import AddressInUse
from homespec.service.listening import listen

NOBODYS = "203.0.113.7"  # set aside for documents


def test_an_address_of_another_machine_is_refused_with_what_to_pass() -> None:
    with pytest.raises(
        AddressInUse, match=r"cannot be taken: .*; pass an address of this machine as --host, or 0\.0\.0\.0"
    ):
        listen(NOBODYS, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux can")
@pytest.mark.parametrize("host", [NOBODYS, "2001:db8::7"])
def test_a_service_takes_an_address_that_its_machine_does_not_have_yet(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    [sock] = listen(host, 0, early=True)
    with sock:
        assert sock.getsockname()[0] == host
    assert "it is served as soon as it is one" in caplog.text


def test_a_port_that_is_taken_stays_so() -> None:
    [sock] = listen("127.0.0.1", 0)
    with sock, pytest.raises(AddressInUse, match="stop what uses it"):
        listen("127.0.0.1", sock.getsockname()[1], early=True)
