"""Real memory taken by a real process, in a control group of its own, from under a real daemon."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from homespec.units import MIB
from tests.daemons import GREEDY, Daemon, eventually, running, text_of
from tests.kits.cgroups import MemoryGroup, memory_group
from tests.kits.gguf_kit import Shape, byte_vocabulary, random_llama
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.real]

LIMIT_MIB, LOW_MIB, HIGH_MIB = 600, 100, 200
MARKS = {
    "HOMESPEC_LOW_MARK_MIB": str(LOW_MIB),
    "HOMESPEC_HIGH_MARK_MIB": str(HIGH_MIB),
    "HOMESPEC_PRESSURE_HOLD_S": "0.5",
}
# What it takes lies in files in memory, so it is in nobody's resident set: whom the kernel ends is the engine.
HOG = """
import sys, tempfile
from homespec.cgroup import ControlGroups
with tempfile.TemporaryFile(dir="/dev/shm") as file:
    while (memory := ControlGroups().tightest()) is not None and memory.available_bytes > int(sys.argv[1]):
        file.write(bytes(2**21))
        file.flush()
    sys.stdin.read()
"""


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with memory_group(LIMIT_MIB * MIB) as group:
        yield group


@contextmanager
def hog(group: MemoryGroup, leave_bytes: int) -> Iterator[None]:
    """A process that takes memory of the group until so much is left."""
    with subprocess.Popen([sys.executable, "-c", HOG, str(leave_bytes)], stdin=subprocess.PIPE) as process:
        group.join(process.pid)
        try:
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def slow(models: Models) -> Path:
    """A model whose answers take seconds, and in which every token depends on all before it."""
    shape = Shape(n_embd=256, n_layer=4, n_head=8, n_head_kv=4, n_ff=768, n_ctx_train=4096)
    return models.write("slow", random_llama(byte_vocabulary(), seed=11, shape=shape))


def drafter(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.health().json()["drafters"].get("draft", {"state": None})
    return found


def monitor(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.status()["memory"]["monitor"]
    return found


def wait_for_drafter(daemon: Daemon, state: str) -> dict[str, Any]:
    return eventually(lambda: (found := drafter(daemon))["state"] == state and found, f"the drafter is {state}", 60)


def ask(max_tokens: int) -> dict[str, Any]:
    return {"prompt": "Once upon a time", "max_tokens": max_tokens, "ignore_eos": True, **GREEDY}


def test_the_drafter_goes_in_the_middle_of_an_answer_and_comes_back(
    slow: Path, group: MemoryGroup, tmp_path: Path
) -> None:
    with running(tmp_path, str(slow), "--draft", str(slow), "--threads", "1", environment=MARKS) as daemon:
        wait_for_drafter(daemon, "ready")
        body = ask(700)
        with daemon.stream("/v1/completions", {**body, "speculative": {"mode": "off"}}) as stream:
            undisturbed = "".join(text_of(event) for event in stream.events())
        for pid in (daemon.process.pid, daemon.engine_pid):
            group.join(pid)

        with daemon.stream("/v1/completions", body) as stream:
            text = stream.first_text()
            engine = psutil.Process(daemon.engine_pid)
            engine.suspend()  # so that the answer cannot end before memory is short
            with hog(group, LOW_MIB * MIB * 3 // 4):
                eventually(lambda: monitor(daemon)["watch"] == "withdrawn", "the monitor acts", 60)
                assert daemon.status()["queue"]["running"] == 1
                engine.resume()
                reason = wait_for_drafter(daemon, "off")["reason"]
                text += "".join(text_of(event) for event in stream.events())
                assert daemon.complete("a", 8, speculative={"mode": "draft"})["speculative"]["reason"].endswith(reason)
                refused = daemon.post("/admin/drafter", {"mode": "draft"}).json()
                assert "under the high mark of 200.0 MiB" in refused["reason"]
            assert text == undisturbed
            assert reason.startswith("withdrawn: host has ")
            assert reason.endswith(" free, under the low mark of 100.0 MiB")

        wait_for_drafter(daemon, "ready")
        assert daemon.restarts() == 0
        [pool] = daemon.status()["memory"]["pools"]
        assert pool["total_bytes"] == LIMIT_MIB * MIB
        assert monitor(daemon)["watch"] == "admitted"
        assert [each["cause"] for each in monitor(daemon)["transitions"]] == ["low_memory", "asked"]
        assert 'homespec_drafter_transitions_total{cause="low_memory"} 1.0' in daemon.metrics()
        assert 'homespec_drafter_transitions_total{cause="asked"} 1.0' in daemon.metrics()
        events = [event["text"] for event in daemon.status()["events"]]
        assert any(event.startswith("withdrawn: ") for event in events)
        assert any(event.startswith("readmitted: ") for event in events)


def test_a_kernel_that_is_faster_costs_the_drafter_and_not_the_target(
    slow: Path, group: MemoryGroup, tmp_path: Path
) -> None:
    with running(tmp_path, str(slow), "--draft", str(slow), "--threads", "1") as daemon:
        wait_for_drafter(daemon, "ready")
        before = daemon.complete("Once upon a time", 200, ignore_eos=True)
        assert before["speculative"]["drafters"]["draft"] >= 16  # it is not new any more
        group.join(daemon.engine_pid)
        with hog(group, -1), daemon.stream("/v1/completions", ask(3000)) as stream:
            stream.first_text()
            eventually(lambda: daemon.restarts() == 1, "the kernel ends the engine", 60)
        daemon.wait_ready()
        assert "SIGKILL" in daemon.status()["engine"]["last_exit"]
        assert drafter(daemon)["state"] == "off"
        assert "perhaps for want of memory" in drafter(daemon)["reason"]
        after = daemon.complete("Once upon a time", 200, ignore_eos=True)
        assert after["choices"][0]["text"] == before["choices"][0]["text"]


def test_an_address_space_that_is_too_small_costs_the_drafter_only(slow: Path, tmp_path: Path) -> None:
    with running(tmp_path, str(slow), "--draft", str(slow), "--threads", "1") as daemon:
        wait_for_drafter(daemon, "ready")
        daemon.post("/admin/drafter", {"mode": "ngram"})
        wait_for_drafter(daemon, "off")
        engine = psutil.Process(daemon.engine_pid)
        limit = engine.memory_info().vms + MIB
        engine.rlimit(psutil.RLIMIT_AS, (limit, limit))
        daemon.post("/admin/drafter", {"mode": "draft"})
        eventually(lambda: "switched" not in drafter(daemon)["reason"], "it is tried", 60)
        wait_for_drafter(daemon, "off")
        daemon.wait_ready()
        assert daemon.complete("a", 8)["choices"][0]["text"]
