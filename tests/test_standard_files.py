"""A daemon whose standard files are closed, or have no room."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.daemons import GREEDY, HTTP_TIMEOUT_S, READY_TIMEOUT_S, STOP_TIMEOUT_S, clean_environment, eventually
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", "2>&-", ">&-", "2>/dev/full"])
def test_it_answers_and_nothing_that_is_printed_goes_to_a_client(
    models: Models, tmp_path: Path, redirection: str
) -> None:
    """A closed number is the next socket's: what a library prints would go into it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        port = holder.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = f"exec {sys.executable} -m homespec serve {models.letters} --port {port} {redirection}"
    with subprocess.Popen(["sh", "-c", command], cwd=tmp_path, env=clean_environment(tmp_path)) as process:
        try:
            eventually(lambda: is_ready(url), "the daemon is ready", READY_TIMEOUT_S)
            daemon = psutil.Process(process.pid)
            for each in (daemon, *daemon.children()):
                files = [str(Path(f"/proc/{each.pid}/fd/{number}").readlink()) for number in range(3)]
                assert not [file for file in files if file.startswith(("socket:", "anon_inode:"))]
            body = {"prompt": "a", "max_tokens": 3, **GREEDY}
            answer = httpx.post(f"{url}/v1/completions", json=body, timeout=HTTP_TIMEOUT_S).json()
            assert answer["choices"][0]["text"] == "bcd"
        finally:
            process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0


def is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/health").status_code == 200
    return False
