"""A real browser, driven over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = Path("/usr/bin/chromium")
START_S = 60.0
ANSWER_S = 30.0
_FLAGS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The container's root has no user namespaces to build a sandbox from.
    "--no-sandbox",
    # Nothing outside this machine, and no wait for a resolver that is not there.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


class Page:
    """The one page of a browser. Every call waits for its answer; what happens meanwhile is kept in `events`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(ANSWER_S))
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def listen(self, seconds: float) -> None:
        """Take in what happens meanwhile."""
        with suppress(TimeoutError):
            self.events.append(json.loads(self._socket.recv(seconds)))

    def open(self, url: str) -> None:
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")
        # Nobody looks at a browser without a window; its page is to believe that somebody does.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("Page.navigate", url=url)

    def click(self, x: int, y: int) -> None:
        """In pixels from the upper left corner."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """One key, as from a keyboard: a character, or a name such as Enter or ArrowDown."""
        codes = {"Enter": (13, "\r"), "ArrowDown": (40, ""), "Escape": (27, "")}
        code, text = codes.get(key, (ord(key[0].upper()), key))
        fields = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def picture(self) -> bytes:
        """PNG of what is seen."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def received(self) -> bytes:
        """Everything that came over the page's websockets so far."""
        frames = [each["params"]["response"] for each in self._named("Network.webSocketFrameReceived")]
        return b"".join(
            frame["payloadData"].encode() if frame["opcode"] == 1 else base64.b64decode(frame["payloadData"])
            for frame in frames
        )

    def requested(self) -> list[str]:
        """URLs that were fetched; not those that the page was kept from."""
        refused = {each["params"]["requestId"] for each in self._named("Network.loadingFailed")}
        return [
            each["params"]["request"]["url"]
            for each in self._named("Network.requestWillBeSent")
            if each["params"]["requestId"] not in refused
        ]

    def _named(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("method") == method]


@contextmanager
def browsing(folder: Path, width: int = 1000, height: int = 600) -> Iterator[Page]:
    """A browser with one empty page; gone at the end with all its processes. Skips the test where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} does not exist")
    profile = folder / "profile"
    command = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
    log = (folder / "chromium.log").open("wb")
    with log, subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as process:
        try:
            with connect(_page_address(profile, process), max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            # Its children are in the group that it leads.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(ANSWER_S)


def _page_address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the page listens; the port is written to a file as soon as it is known."""
    port_file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the browser ended with {process.returncode}"
        if port_file.exists() and (lines := port_file.read_text().splitlines()):
            with suppress(httpx.TransportError):
                targets = httpx.get(f"http://127.0.0.1:{lines[0]}/json/list", timeout=ANSWER_S).json()
                pages = [target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page"]
                if pages:
                    return str(pages[0])
        time.sleep(0.05)
    raise AssertionError(f"the browser did not start within {START_S:g} s")
