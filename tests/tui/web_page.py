"""`homespec top --web` in a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from homespec.errors import ExitCode
from tests.client.daemon_double import free_port
from tests.daemons import eventually


@contextmanager
def web_page(daemon_url: str) -> Iterator[str]:
    """The page's address. At the end it is stopped as by Ctrl-C, and must end well."""
    port = free_port()
    command = [sys.executable, "-m", "homespec", "top", "--url", daemon_url, "--web", "--web-port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert f"http://127.0.0.1:{port}" in process.stderr.readline()
            eventually(lambda: _listens(port), "the page is served")  # it is announced a moment before
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == ExitCode.OK
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port))):
        return True
    return False
