"""What watching costs: `python -m tests.tui.cost`, minutes on a quiet machine.

The same prompts with one `homespec top` in a terminal of 120×40 and with none, turn by turn, on the demo model with as
many threads as there are cores. Prints the ratio of their speeds, and the CPU time that the dashboard takes.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.daemons import Daemon, eventually, running

from .record import AS_USERS_RUN_IT
from .test_tmux import Terminal

SUBJECTS = ("a lighthouse", "a train", "the moon", "an old clock", "bread", "a river", "snow", "two foxes")
PROMPT = "Write a long story about {}. Once upon a time"
NUM_TOKENS = 400
SETTLE_S = 3.0
"""Importing and the first layout are over by then."""
IDLE_S = 20.0


@contextmanager
def watched(daemon: Daemon, terminal: Terminal) -> Iterator[psutil.Process]:
    """One dashboard."""
    terminal.type(f"exec {shlex.quote(sys.executable)} -m homespec top --url {daemon.url}")
    terminal.press("Enter")
    terminal.wait_for("q quit")
    pid = int(terminal.run("display-message", "-p", "#{pane_pid}"))
    time.sleep(SETTLE_S)
    try:
        yield psutil.Process(pid)
    finally:
        terminal.run("respawn-pane", "-k", "sh")


def tokens_per_second(daemon: Daemon, prompts: tuple[str, ...]) -> list[float]:
    """Of each prompt, one after the other."""
    answers = [daemon.complete(prompt, NUM_TOKENS, ignore_eos=True, cache_prompt=False) for prompt in prompts]
    return [answer["timings"]["predicted_per_second"] for answer in answers]


def cpu_share(process: psutil.Process, seconds: float) -> float:
    """Of one core, over the next seconds."""
    before = _cpu_s(process)
    time.sleep(seconds)
    return (_cpu_s(process) - before) / seconds


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _pair(daemon: Daemon, terminal: Terminal, prompts: tuple[str, ...], *, first: bool) -> tuple[float, float]:
    """The ratio of watched to unwatched, and the dashboard's share of a core meanwhile."""
    plain = tokens_per_second(daemon, prompts) if first else []
    with watched(daemon, terminal) as process:
        started, before = time.monotonic(), _cpu_s(process)
        seen = tokens_per_second(daemon, prompts)
        share = (_cpu_s(process) - before) / (time.monotonic() - started)
    plain = plain or tokens_per_second(daemon, prompts)
    return statistics.geometric_mean(seen) / statistics.geometric_mean(plain), share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name), "--demo", environment=AS_USERS_RUN_IT) as daemon:
        terminal = Terminal(Path(name))
        terminal.run("new-session", "-d", "-x", "120", "-y", "40", "sh")
        try:
            tokens_per_second(daemon, (PROMPT.format("a cat"),))
            eventually(lambda: "exactness" in str(daemon.status()["events"]), "it is measured", 60)
            with watched(daemon, terminal) as process:
                print(f"idle: {cpu_share(process, IDLE_S):.2%} of a core", flush=True)
            pairs = []
            for number in range(options.pairs):
                prompt = PROMPT.format(SUBJECTS[number % len(SUBJECTS)])
                pairs.append(_pair(daemon, terminal, (prompt,), first=number % 2 == 0))
                print(f"{number + 1}: {pairs[-1][0]:.4f} of the speed, {pairs[-1][1]:.2%} of a core", flush=True)
        finally:
            terminal.run("kill-server")
    ratios, shares = zip(*pairs, strict=True)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"speed watched to unwatched: {middle:.4f} (quartiles {low:.4f} to {high:.4f}, {len(ratios)} pairs)")
    print(f"busy: {statistics.median(shares):.2%} of a core")


if __name__ == "__main__":
    main()
