"""The service manager's end of the notification socket."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.daemons import eventually


class NotifySocket:
    """Keeps every message in order, each as a mapping of its assignments."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.address = str(folder / "notify")
        self._socket.bind(self.address)
        self._socket.setblocking(False)
        self._messages: list[dict[str, str]] = []

    def messages(self) -> list[dict[str, str]]:
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return self._messages
            self._messages.append(dict(line.split("=", 1) for line in data.decode().split("\n")))

    def has(self, name: str, value: str | None = None) -> bool:
        return any(name in message and value in (None, message[name]) for message in self.messages())

    def wait_for(self, name: str, value: str | None = None) -> None:
        eventually(lambda: self.has(name, value), f"{name} is sent", 60)

    def forget(self) -> None:
        self.messages().clear()

    def close(self) -> None:
        self._socket.close()
