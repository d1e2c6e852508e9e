"""Churn for a long time, with flat memory and file descriptors at the end: `make soak`.

A daemon with two tiny models is asked, interrupted, switched, unloaded and robbed of its engine, cycle after cycle.
Every answer is compared. Prints one line per ten cycles; the exit code is 1 when an answer was wrong or something grew.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.daemons import GREEDY, Daemon, eventually, running
from tests.kits.models import Models

MODELS = {"letters": ("a", "bcdefghijklmnopq"), "digits": ("0", "1234567890123456")}
MAX_GROWTH_BYTES = 8 * 2**20
WARM_UP_CYCLES = 3
NUM_PARALLEL = 4
NUM_TOGETHER = 16
SETTLING_S = 10.0


@dataclass(frozen=True)
class Holdings:
    """What the daemon holds at rest."""

    rss_bytes: int
    num_fds: int
    num_threads: int
    num_children: int

    @classmethod
    def of(cls, daemon: Daemon) -> Holdings:
        process = psutil.Process(daemon.process.pid)
        return cls(
            process.memory_info().rss,
            process.num_fds(),
            process.num_threads(),
            len(process.children(recursive=True)),
        )

    def growth_since(self, before: Holdings) -> list[str]:
        """What has grown, in words; nothing when all is flat."""
        grown = self.rss_bytes - before.rss_bytes
        faults = [f"resident memory by {grown} bytes"] if grown > MAX_GROWTH_BYTES else []
        for name in ("num_fds", "num_children"):
            if (more := getattr(self, name) - getattr(before, name)) > 0:
                faults.append(f"{name} by {more}")
        return faults


class Churn:
    """One daemon, and whoever will not leave it alone."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.num_requests = 0
        self.num_kills = 0
        self._random = random.Random(seed)
        self._pool = ThreadPoolExecutor(NUM_PARALLEL)

    def cycle(self) -> None:
        """Requests for both models at once, then everything that can happen to them, in any order."""
        few = self._random.choices(list(MODELS), k=NUM_PARALLEL)
        list(self._pool.map(self.ask, [self._resident()] * NUM_TOGETHER + few))
        steps = [self.cancel, self.kill, self.unload, self.switch]
        for step in self._random.sample(steps, len(steps)):
            step()
            self.ask(self._resident())

    def ask(self, name: str) -> None:
        """A whole answer, which must be right."""
        prompt, expected = MODELS[name]
        body = {"model": name, "prompt": prompt, "max_tokens": len(expected), **GREEDY}
        response = self.daemon.post("/v1/completions", body)
        assert response.status_code == 200, response.text
        text = response.json()["choices"][0]["text"]
        assert text == expected, (name, text)
        self.num_requests += 1

    def cancel(self) -> None:
        """Leave in the middle of an answer, perhaps of one that a model is loaded for."""
        with self._stream(self._random.choice(list(MODELS))) as stream:
            stream.first_text()
        self.num_requests += 1

    def kill(self) -> None:
        """SIGKILL in the middle of an answer, which ends with an error and not with silence."""
        with self._stream(self._resident()) as stream:
            stream.first_text()
            psutil.Process(self.daemon.engine_pid).kill()
            *_, last = stream.events()
        assert last["error"]["code"] == "engine_died", last
        self.num_kills += 1
        self.num_requests += 1

    def unload(self) -> None:
        name = self._resident()
        self.daemon.post("/api/generate", {"model": name, "keep_alive": 0})
        eventually(lambda: self.daemon.status()["engine"]["pid"] is None, "the model is unloaded", 30)
        self.daemon.post("/api/generate", {"model": name, "keep_alive": -1})

    def switch(self) -> None:
        for mode in ("off", "auto"):
            self.daemon.post("/admin/drafter", {"mode": mode})

    def at_rest(self) -> Holdings:
        """Nothing runs, one engine is there, and its model's file is watched, which takes a descriptor."""
        for name in MODELS:
            self.ask(name)
        eventually(self.daemon.is_idle, "nothing is left over", 30)
        eventually(
            lambda: self.daemon.status()["memory"]["monitor"]["resident_share"] is not None, "the model is watched", 30
        )
        assert self.daemon.health().status_code == 200
        return Holdings.of(self.daemon)

    def growth_since(self, before: Holdings) -> list[str]:
        """What has grown at rest and stays so: connections that were just closed are given a while to go."""
        self.at_rest()
        with suppress(AssertionError):
            eventually(lambda: not Holdings.of(self.daemon).growth_since(before), "all is flat", SETTLING_S)
        return Holdings.of(self.daemon).growth_since(before)

    def _resident(self) -> str:
        return str(self.daemon.health().json()["model"])

    def _stream(self, name: str) -> Any:
        body = {"model": name, "prompt": MODELS[name][0], "max_tokens": 16000, **GREEDY}
        return self.daemon.stream("/v1/completions", body)


@contextmanager
def churning(folder: Path, models: Models, seed: int) -> Iterator[Churn]:
    config = folder / "homespec.toml"
    digits = models.saying("digits", tuple(b"0123456789"))
    config.write_text(
        f'model = "{models.letters}"\nctx = 16384\nturn_s = 0.2\nidle_unload_s = 3600\nthreads = 1\n'
        f'[models.digits]\npath = "{digits}"\ndraft = "{models.letters}"\n'
    )
    with running(folder, "--config", str(config)) as daemon:
        yield Churn(daemon, seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name, churning(Path(name), Models(Path(name)), options.seed) as churn:
        for _ in range(WARM_UP_CYCLES):
            churn.cycle()
        first = last = churn.at_rest()
        num_cycles = 0
        while time.monotonic() < deadline:
            churn.cycle()
            num_cycles += 1
            if num_cycles % 10 == 0:
                last = churn.at_rest()
                print(
                    f"{num_cycles} cycles, {churn.num_requests} requests, {churn.num_kills} kills: {last}", flush=True
                )
        last = churn.at_rest()
        print(f"{num_cycles} cycles, {churn.num_requests} requests, {churn.num_kills} kills: {last}")
        print(f"before: {first}; starts {churn.daemon.status()['engine']['starts']}")
        faults = churn.growth_since(first)
    print(f"grown: {'; '.join(faults)}" if faults else "flat")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
