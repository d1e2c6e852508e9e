"""The service manager's notification socket: one datagram per message (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

logger = logging.getLogger("homespec.service")

_SEND_TIMEOUT_S = 1.0
_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Sends to the manager; without one it does nothing. What cannot be sent is dropped; a manager that is gone, as for
    a shell that a service left behind, is one line in the log.
    """

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self._is_reached = True
        self.watchdog_s = watchdog_s
        """Seconds after which silence gets the daemon killed; None when nobody watches."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> Notifier:
        """Read the variables and take them out: they are for this process, not for its children."""
        address, microseconds, pid = (environ.pop(name, None) for name in _VARIABLES)
        watchdog_s = None
        if microseconds is not None and pid in (None, "", str(os.getpid())):
            with suppress(ValueError):
                watchdog_s = int(microseconds) / 1e6 or None
        return cls(address or None, watchdog_s)

    @property
    def enabled(self) -> bool:
        return self._address is not None

    def send(self, **fields: str | int) -> None:
        """One message of several assignments, for example `send(READY=1, STATUS="ready")`."""
        if self._address is None:
            return
        # A line break would start another assignment.
        lines = [f"{name}={' '.join(str(value).splitlines())}" for name, value in fields.items()]
        # A leading @ stands for the zero byte of Linux's abstract names.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.settimeout(_SEND_TIMEOUT_S)
                sock.sendto("\n".join(lines).encode(errors="replace"), address)
            self._is_reached = True
        except OSError as error:
            level = logging.WARNING if self._is_reached else logging.DEBUG
            self._is_reached = False
            logger.log(level, "the service manager at %s was not told %s: %s", self._address, lines[0], error)

    def reloading(self) -> None:
        """READY=1 must follow. The time stamp tells the manager which reload it belongs to."""
        self.send(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
