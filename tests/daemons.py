"""Real daemons for tests: `homespec serve` in a process of its own, on a port that the system picks."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai
import psutil

READY_TIMEOUT_S = 90.0
"""Two cores that others use as well: an import of the server alone can take seconds."""
STOP_TIMEOUT_S = 15.0
HTTP_TIMEOUT_S = 90.0
POLL_S = 0.02
GREEDY = {"temperature": 0, "seed": 1}
_TAG = "TEST_DAEMON_TAG"
"""In the environment of a daemon and of all its descendants: finds them whatever became of their parents."""

T = TypeVar("T")


def eventually(probe: Callable[[], T | None], what: str, timeout_s: float = 20.0) -> T:
    """The first result of `probe` that is true; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if result := probe():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(POLL_S)


class Daemon:
    """One `homespec serve`. Use `running`, which cleans up."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> None:
        self.tag = uuid.uuid4().hex
        self.log_path = folder / f"stderr-{self.tag}.log"
        command = [sys.executable, "-m", "homespec", "serve", *arguments]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env={**clean_environment(folder), **environment, _TAG: self.tag},
                start_new_session=True,
            )
        self.started_at = time.monotonic()
        self.url = ""

    # Life

    def wait_bound(self) -> str:
        """Until the port is taken, which is before the model loads; the URL."""

        def find_url() -> str | None:
            match = re.search(r" serving .+ on (http://\S+)$", self.log(), re.MULTILINE)
            if match is None and self.process.poll() is not None:
                raise AssertionError(f"exit code {self.process.returncode}: {self.log()}")
            return match and match[1]

        self.url = eventually(find_url, "the daemon takes its port", READY_TIMEOUT_S)
        return self.url

    def wait_ready(self) -> None:
        def ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"exit code {self.process.returncode}: {self.log()}")
            with suppress(httpx.TransportError):
                return httpx.get(f"{self.url}/health").status_code == 200
            return False

        eventually(ready, "the daemon is ready", READY_TIMEOUT_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        return self.process.wait(timeout_s)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def survivors(self) -> list[psutil.Process]:
        """Processes of this daemon that still run, itself included; zombies do not count."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def clean_up(self) -> None:
        """End everything that is left, in any state."""
        if self.alive:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.wait_exit()
        for process in self.survivors():
            with suppress(psutil.Error):
                process.kill()
        self.process.wait(STOP_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    # What it says

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def stdout(self) -> bytes:
        """All of stdout; call it after the exit."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def health(self) -> httpx.Response:
        return httpx.get(f"{self.url}/health", timeout=HTTP_TIMEOUT_S)

    def status(self) -> Any:
        return httpx.get(f"{self.url}/status", timeout=HTTP_TIMEOUT_S).json()

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", timeout=HTTP_TIMEOUT_S).text

    @property
    def engine_pid(self) -> int:
        """Waits for an engine while there is none."""
        return int(eventually(lambda: self.status()["engine"]["pid"], "an engine runs"))

    def restarts(self) -> int:
        return int(self.status()["engine"]["restarts"])

    def is_idle(self) -> bool:
        """Nothing in flight, neither in the daemon's view nor in the engine's."""
        status = self.status()
        return not status["requests"] and status["queue"]["running"] == status["queue"]["waiting"] == 0

    # Talking to it

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="x", max_retries=0, timeout=HTTP_TIMEOUT_S)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=HTTP_TIMEOUT_S, **options)

    def complete(self, prompt: str, max_tokens: int, **fields: Any) -> Any:
        """A whole completion that must succeed, greedy unless told otherwise."""
        response = self.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **GREEDY, **fields})
        assert response.status_code == 200, response.text
        return response.json()

    def golden(self) -> str:
        """A short greedy answer: the same bytes from every healthy daemon that serves the same model."""
        text = self.complete("One, two, three, four,", 5)["choices"][0]["text"]
        assert isinstance(text, str)
        return text

    def stream(self, path: str, body: dict[str, Any]) -> Stream:
        return Stream(self.url, path, {**body, "stream": True})

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_TAG) == self.tag
        except (psutil.Error, OSError):
            return False


class Stream:
    """A streamed answer read event by event. A context manager; `drop` leaves in the middle."""

    def __init__(self, url: str, path: str, body: dict[str, Any]) -> None:
        self._client = httpx.Client(base_url=url, timeout=HTTP_TIMEOUT_S)
        request = self._client.build_request("POST", path, json=body)
        self.response = self._client.send(request, stream=True)
        self._lines = self.response.iter_lines()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        self.response.close()
        self._client.close()

    def data(self) -> Iterator[str]:
        """The data of each event, `[DONE]` included."""
        for line in self._lines:
            if line.startswith("data: "):
                yield line.removeprefix("data: ")

    def events(self) -> Iterator[Any]:
        """Each event up to `[DONE]`, decoded. Fails when the stream ends without it."""
        for data in self.data():
            if data == "[DONE]":
                return
            yield json.loads(data)
        raise AssertionError("the stream ended without [DONE]")

    def first_text(self) -> str:
        """Wait for the first piece of text."""
        for event in self.events():
            if text := text_of(event):
                return text
        raise AssertionError("the stream ended without text")


def text_of(event: Any) -> str:
    """Text in a chunk of either kind."""
    if not event.get("choices"):
        return ""
    choice = event["choices"][0]
    return str(choice.get("text") or choice.get("delta", {}).get("content") or "")


def fault(response: httpx.Response) -> tuple[str | None, str]:
    """Code and message of a refusal, in OpenAI's shape or in Ollama's."""
    body = response.json()
    if isinstance(body["error"], str):
        return body["code"], body["error"]
    return body["error"]["code"], body["error"]["message"]


def clean_environment(folder: Path) -> dict[str, str]:
    """This environment without settings of homespec, OpenMP and ggml, and with an empty configuration folder."""
    dropped = ("HOMESPEC_", "GOMP_", "OMP_", "GGML_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    # The probe would compete with the tests for the processor; these settings give what it would find.
    measured = {"HOMESPEC_EXACTNESS": "fast", "HOMESPEC_KV_TYPE": "bf16", "HOMESPEC_FIT": "off"}
    # What a controller decides depends on how busy the machine is; two processes of the suite share its cores.
    alone = {"HOMESPEC_CONTROLLER": "off", "HOMESPEC_THREADS": "1"}
    return {**kept, "XDG_CONFIG_HOME": str(folder / "config"), **measured, **alone}


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Iterator[Daemon]:
    """A daemon, ready to answer unless `wait` is False; gone at the end with all that belongs to it."""
    daemon = Daemon((*arguments, "--port", str(port)), folder, environment or {})
    try:
        daemon.wait_bound()
        if wait:
            daemon.wait_ready()
        yield daemon
    finally:
        daemon.clean_up()


def in_the_engine(folder: Path, code: str) -> dict[str, str]:
    """Environment that makes every engine process of a daemon run `code` before anything else."""
    return in_processes(folder, code, "homespec.engine")


def in_processes(folder: Path, code: str, *arguments: str) -> dict[str, str]:
    """Environment that makes every Python with one of these arguments run `code` before anything else."""
    site = folder / "site"
    site.mkdir()
    body = "\n".join(f"    {line}" for line in code.splitlines())
    (site / "sitecustomize.py").write_text(
        f"import os, sys, time\nif {set(arguments)!r} & set(sys.orig_argv):\n{body}\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])}


class Gate:
    """Holds engines back before they load anything, until it is opened."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gate-is-open"
        code = f"while not os.path.exists({str(self._path)!r}):\n    time.sleep(0.02)"
        self.environment = in_the_engine(folder, code)

    def open(self) -> None:
        self._path.touch()


def run_serve(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> FinishedCommand:
    """`homespec serve` that is expected to end by itself."""
    return run_command(folder, "serve", *arguments, environment=environment)


class FinishedCommand:
    """Outcome of a command."""

    def __init__(self, completed: subprocess.CompletedProcess[str]) -> None:
        self.code = completed.returncode
        self.stdout = completed.stdout
        self.stderr = completed.stderr

    @property
    def complaint(self) -> str:
        """The one line on stderr. Fails when there is more, or anything on stdout."""
        assert self.stdout == ""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


def run_command(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> FinishedCommand:
    """Any `homespec` command, run to its end."""
    return FinishedCommand(
        subprocess.run(
            [sys.executable, "-m", "homespec", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**clean_environment(folder), **(environment or {})},
            timeout=READY_TIMEOUT_S,
            check=False,
        )
    )


def session_members(session: int) -> list[int]:
    """Pids of the session that still run; a zombie that nobody reaps does not."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return members


def has_ipv6_loopback() -> bool:
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_STREAM)) as probe, suppress(OSError):
        probe.bind(("::1", 0))
        return True
    return False
