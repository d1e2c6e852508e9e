"""Makes the recordings anew, with real daemons on the demo model: `python -m tests.tui.record [NAME…]`; minutes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from homespec.status import EXACTNESS_PENDING, Status
from homespec.tui.export import without_paths
from homespec.units import MIB
from tests.client.daemon_double import free_port
from tests.daemons import Daemon, eventually, running
from tests.headroom.test_squeeze import HOG
from tests.kits.cgroups import memory_group
from tests.kits.models import Models

from .recording import FOLDER, NAMES, Exchange, Step, lines, save_exchange, turning_points

AS_USERS_RUN_IT = {"HOMESPEC_CONTROLLER": "auto", "HOMESPEC_EXACTNESS": "auto", "HOMESPEC_FIT": "auto"}
SPACING_S = 1.0
"""Between two snapshots that differ in nothing but numbers."""
CODE = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return"
PROMPTS = (
    f"Here is a file:\n{CODE} width * height * depth\n\nThe same file again:\n{CODE}",
    "one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two",
    "Once upon a time, in a house by the sea,",
)

QUESTION = "Write the SQL that makes a table of books, and then inserts three books."


class Recorder:
    """Reads /events in a thread of its own; a context manager."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._started = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.steps: list[tuple[float, Any]] = []

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with suppress(httpx.TransportError):
                self._read()
            if self.steps and self.steps[-1][1] is not None and not self._stopped.is_set():
                self._add(None)
            self._stopped.wait(0.2)

    def _read(self) -> None:
        with httpx.stream("GET", f"{self._url}/events", timeout=10) as response:
            for line in response.iter_lines():
                if self._stopped.is_set():
                    return
                if line.startswith("data: "):
                    status = msgspec.json.decode(line.removeprefix("data: "), type=Status)
                    self._add(without_paths(status))

    def _add(self, status: Any) -> None:
        self.steps.append((time.monotonic() - self._started, status))

    def kept(self) -> Iterator[tuple[float, Any]]:
        """Those worth keeping."""
        steps = [Step(at_s, None if each is None else msgspec.convert(each, Status)) for at_s, each in self.steps]
        turns = {step.at_s for step in turning_points(steps)}
        last = -SPACING_S
        for at_s, each in self.steps:
            if at_s in turns or at_s - last >= SPACING_S:
                yield at_s, each
                last = at_s


@contextmanager
def asking(daemon: Daemon, *prompts: str, **fields: Any) -> Iterator[None]:
    """Clients that ask again and again, each its own question."""
    enough = threading.Event()

    def ask(prompt: str) -> None:
        body = {"prompt": prompt, "max_tokens": 400, "ignore_eos": True, "temperature": 0, **fields}
        while not enough.is_set():
            with suppress(httpx.TransportError, AssertionError), daemon.stream("/v1/completions", body) as stream:
                for _ in stream.data():
                    if enough.is_set():
                        break
            enough.wait(0.3)

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


Scenario = Callable[[Path, Models], Iterator[tuple[float, Any]]]


@contextmanager
def recorded(
    folder: Path, *arguments: str, environment: Mapping[str, str] = AS_USERS_RUN_IT, wait: bool = True
) -> Iterator[tuple[Daemon, Recorder]]:
    with running(folder, *arguments, environment=environment, wait=wait) as daemon, Recorder(daemon.url) as recorder:
        yield daemon, recorder


def loading(folder: Path, _models: Models) -> Iterator[tuple[float, Any]]:
    with recorded(folder, "--demo", wait=False) as (daemon, recorder):
        daemon.wait_ready()
        time.sleep(3)
    return recorder.kept()


def plain(folder: Path, _models: Models) -> Iterator[tuple[float, Any]]:
    with recorded(folder, "--demo", "--draft", "off") as (daemon, recorder), asking(daemon, *PROMPTS[1:]):
        time.sleep(15)
    return recorder.kept()


def speculating(folder: Path, models: Models) -> Iterator[tuple[float, Any]]:
    with recorded(folder, "--demo", "--draft", str(models.demo)) as (daemon, recorder):
        with asking(daemon, PROMPTS[2], speculative={"mode": "off"}):
            time.sleep(8)
        with asking(daemon, *PROMPTS):
            time.sleep(60)
    return recorder.kept()


def paused(folder: Path, models: Models) -> Iterator[tuple[float, Any]]:
    """A draft model that knows nothing loses every bet."""
    with recorded(folder, "--demo", "--draft", str(models.random_drafter)) as (daemon, recorder):
        daemon.post("/admin/drafter", {"mode": "draft"})
        with asking(daemon, PROMPTS[2]):
            eventually(lambda: _paused(daemon), "the drafter is paused", 120)
            time.sleep(5)
    return recorder.kept()


def _paused(daemon: Daemon) -> Any:
    speculation = daemon.status()["speculation"]
    return speculation["controller"] and speculation["controller"]["paused"]


def pressure(folder: Path, models: Models) -> Iterator[tuple[float, Any]]:
    limit, low = 1200 * MIB, 100 * MIB
    marks = {"HOMESPEC_LOW_MARK_MIB": "100", "HOMESPEC_HIGH_MARK_MIB": "200", "HOMESPEC_PRESSURE_HOLD_S": "2"}
    with (
        memory_group(limit) as group,
        recorded(folder, "--demo", "--draft", str(models.demo), environment=AS_USERS_RUN_IT | marks) as (
            daemon,
            recorder,
        ),
    ):
        for pid in (daemon.process.pid, daemon.engine_pid):
            group.join(pid)
        with asking(daemon, *PROMPTS[:2]):
            eventually(lambda: _watch(daemon) == "admitted", "the drafter is loaded", 60)
            time.sleep(4)
            command = [sys.executable, "-c", HOG, str(low * 3 // 4)]
            with subprocess.Popen(command, stdin=subprocess.PIPE) as hog:
                group.join(hog.pid)
                eventually(lambda: _watch(daemon) == "withdrawn", "the drafter goes", 60)
                time.sleep(5)
                hog.kill()
            eventually(lambda: _watch(daemon) == "admitted", "the drafter comes back", 60)
            time.sleep(4)
    return recorder.kept()


def _watch(daemon: Daemon) -> Any:
    memory = daemon.status()["memory"]
    return memory and memory["monitor"]["watch"]


def engine_dead(folder: Path, _models: Models) -> Iterator[tuple[float, Any]]:
    with recorded(folder, "--demo") as (daemon, recorder), asking(daemon, *PROMPTS[1:]):
        time.sleep(4)
        psutil.Process(daemon.engine_pid).kill()
        eventually(lambda: daemon.restarts() == 1, "the death is noticed")
        daemon.wait_ready()
        time.sleep(4)
    return recorder.kept()


def reconnect(folder: Path, _models: Models) -> Iterator[tuple[float, Any]]:
    port = free_port()
    with Recorder(f"http://127.0.0.1:{port}") as recorder:
        for _ in range(2):
            with (
                running(folder, "--demo", port=port, environment=AS_USERS_RUN_IT) as daemon,
                asking(daemon, PROMPTS[1]),
            ):
                time.sleep(4)
    steps = list(recorder.kept())
    return iter(steps[: max(at for at, (_, each) in enumerate(steps) if each is not None) + 1])


def chat(folder: Path, _models: Models) -> Iterator[tuple[float, Any]]:
    """One answer, its text beside it in a file of its own; drafted whatever a busy box makes of the costs."""
    body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 160}
    fixed = AS_USERS_RUN_IT | {"HOMESPEC_CONTROLLER": "off"}
    with recorded(folder, "--demo", environment=fixed) as (daemon, recorder):
        eventually(lambda: EXACTNESS_PENDING not in daemon.status()["exactness_reason"], "exactness is measured", 120)
        asked_s = time.monotonic()
        with daemon.stream("/v1/chat/completions", {**body, "speculative": {"spans": True}}) as stream:
            times_s, data = zip(*((time.monotonic() - asked_s, data) for data in stream.data()), strict=True)
        time.sleep(1)
    save_exchange(Exchange(QUESTION, times_s, data))
    return recorder.kept()


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (loading, plain, speculating, paused, pressure, engine_dead, reconnect, chat)
}


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            steps = SCENARIOS[name](Path(folder), Models(Path(folder)))
            (FOLDER / f"{name}.jsonl").write_text("\n".join(lines(steps)) + "\n", encoding="utf-8")
        print(f"{name}: {(FOLDER / f'{name}.jsonl').stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
