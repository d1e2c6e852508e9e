"""The dashboard inside tmux: it starts, shows, follows the size, quits, and leaves the terminal as it found it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.daemon_double import DaemonDouble
from tests.daemons import eventually

from .snapshots import plain, speculating

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux on this machine"),
]

PATIENCE_S = 60.0
STATE = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{pane_title}"


class Terminal:
    """A shell in a tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._server = f"homespec-{uuid.uuid4().hex[:8]}"
        self._folder = folder

    def run(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        command = ["tmux", "-u", "-L", self._server, "-f", os.devnull, *arguments]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
            cwd=self._folder,
            env={**environment, "LC_ALL": "C.UTF-8", "PS1": "$ ", "ENV": ""},
        ).stdout

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    def press(self, key: str) -> None:
        self.run("send-keys", key)

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def state(self) -> str:
        return self.run("display-message", "-p", STATE)

    def wait_for(self, text: str) -> str:
        return eventually(lambda: screen if text in (screen := self.screen()) else None, text, PATIENCE_S)

    def settings(self, mark: str) -> str:
        """Of the terminal's line; their sum, which fits on one."""
        self.type(f"clear; stty -g | cksum; echo {mark}-$((40 + 2))")
        self.press("Enter")
        return self.wait_for(f"{mark}-42").splitlines()[0]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    terminal.run("new-session", "-d", "-x", "100", "-y", "30", "sh")
    try:
        yield terminal
    finally:
        terminal.run("kill-server")


def press_q(terminal: Terminal, _pid: str) -> int:
    terminal.press("q")
    return 0


def terminate(_terminal: Terminal, pid: str) -> int:
    os.kill(int(pid), signal.SIGTERM)
    return 128 + signal.SIGTERM


@pytest.mark.parametrize("end", [press_q, terminate])
def test_it_leaves_the_terminal_as_it_was(
    daemon: DaemonDouble, terminal: Terminal, tmp_path: Path, end: Callable[[Terminal, str], int]
) -> None:
    daemon.send(speculating())
    settings, state = terminal.settings("before"), terminal.state()
    command = f"{shlex.quote(sys.executable)} -m homespec top --url {daemon.url}"
    terminal.type(f"sh -c 'echo $$ > pid; exec {command}'; echo code-$?")
    terminal.press("Enter")
    assert "suffix" in terminal.wait_for("83.1 tok/s")
    assert terminal.state() != state
    terminal.run("resize-window", "-x", "80", "-y", "24")
    daemon.send(plain())
    assert max(map(len, terminal.wait_for("24.8 tok/s").splitlines())) <= 80
    code = end(terminal, (tmp_path / "pid").read_text())
    screen = terminal.wait_for(f"code-{code}")
    assert "tok/s" not in screen
    assert terminal.state() == state
    assert terminal.settings("after") == settings
    assert {asked.method for asked in daemon.received} == {"GET"}
