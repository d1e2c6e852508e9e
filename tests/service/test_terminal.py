"""A daemon that was started from a terminal ends with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from homespec.errors import ExitCode
from tests.daemons import READY_TIMEOUT_S, clean_environment, eventually
from tests.kits.models import Models

pytestmark = pytest.mark.process

_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def answers(log: str) -> bool:
    found = re.search(r" serving .+ on (http://\S+)$", log, re.MULTILINE)
    with suppress(httpx.TransportError):
        return found is not None and httpx.get(f"{found[1]}/health").json()["model"] == "letters"
    return False


def test_a_hang_up_ends_it(models: Models, tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    log = tmp_path / "log"
    arguments = ("-m", "homespec", "serve", str(models.letters), "--port", "0")
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, str(terminal), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(terminal,),
            cwd=tmp_path,
            env=clean_environment(tmp_path),
            start_new_session=True,
        )
    os.close(terminal)
    try:
        eventually(lambda: answers(log.read_text()), "it answers, so its signals are set", READY_TIMEOUT_S)
    finally:
        os.close(controller)  # the terminal's window is closed
    assert process.wait(READY_TIMEOUT_S) == ExitCode.OK
    assert "SIGHUP: shutting down" in log.read_text()
