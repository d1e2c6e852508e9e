"""/health, /status, /events and /metrics, at every time of the daemon's life."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemons import Daemon, Gate, eventually, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

FAMILIES = {
    "homespec_cached_prompt_tokens": "counter",
    "homespec_degraded": "gauge",
    "homespec_draft_seconds": "counter",
    "homespec_drafter_ready": "gauge",
    "homespec_drafter_transitions": "counter",
    "homespec_drafter_withdrawn": "gauge",
    "homespec_engine_major_faults_per_second": "gauge",
    "homespec_engine_resident_bytes": "gauge",
    "homespec_engine_restarts": "counter",
    "homespec_engine_starts": "counter",
    "homespec_host_available_bytes": "gauge",
    "homespec_idle_unloads": "counter",
    "homespec_kv_total_tokens": "gauge",
    "homespec_kv_used_tokens": "gauge",
    "homespec_load_progress_ratio": "gauge",
    "homespec_memory_bytes": "gauge",
    "homespec_memory_stall_ratio": "gauge",
    "homespec_output_tokens": "counter",
    "homespec_phase": "gauge",
    "homespec_pool_free_bytes": "gauge",
    "homespec_pool_high_bytes": "gauge",
    "homespec_pool_low_bytes": "gauge",
    "homespec_pool_others_bytes": "gauge",
    "homespec_pool_reserve_bytes": "gauge",
    "homespec_pool_residents_bytes": "gauge",
    "homespec_pool_total_bytes": "gauge",
    "homespec_preemptions": "counter",
    "homespec_prompt_tokens": "counter",
    "homespec_requests": "counter",
    "homespec_requests_running": "gauge",
    "homespec_requests_waiting": "gauge",
    "homespec_rounds": "counter",
    "homespec_skipped_drafts": "counter",
    "homespec_spec_decode_num_accepted_tokens": "counter",
    "homespec_spec_decode_num_draft_tokens": "counter",
    "homespec_spec_decode_num_drafts": "counter",
    "homespec_target_resident_ratio": "gauge",
    "homespec_time_to_first_token_seconds": "summary",
    "homespec_uptime_seconds": "gauge",
    "homespec_verify_seconds": "counter",
    "vllm:spec_decode_num_accepted_tokens": "counter",
    "vllm:spec_decode_num_accepted_tokens_per_pos": "counter",
    "vllm:spec_decode_num_draft_tokens": "counter",
    "vllm:spec_decode_num_drafts": "counter",
}


def families(page: str) -> dict[str, str]:
    """Kind of each family on a page of metrics; a counter's name there ends in _total."""
    found = re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE)
    return {name.removesuffix("_total") if kind == "counter" else name: kind for name, kind in found}


def value(page: str, sample: str) -> float:
    return float(re.findall(rf"^{re.escape(sample)} (\S+)$", page, re.MULTILINE)[0])


def test_while_the_model_loads(models: Models, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with running(tmp_path, str(models.letters), environment=gate.environment, wait=False) as daemon:
        health = daemon.health()
        assert health.status_code == 503
        assert int(health.headers["retry-after"]) > 0
        body = health.json()
        assert body["status"] == body["phase"] == "loading"
        assert 0 <= body["progress"] < 1
        assert body["model"] == "letters"
        assert body["drafters"] == {}
        status = daemon.status()
        assert status["phase"] == "loading"
        assert status["model"] is None
        assert status["memory"] is None
        assert families(daemon.metrics()) == FAMILIES
        assert value(daemon.metrics(), 'homespec_phase{phase="loading"}') == 1
        for cause in ("low_memory", "stalled", "evicted", "recovered", "fits", "asked"):
            assert value(daemon.metrics(), f'homespec_drafter_transitions_total{{cause="{cause}"}}') == 0

        refused = daemon.post("/v1/completions", {"prompt": "a"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "loading"
        assert int(refused.headers["retry-after"]) > 0
        [card] = httpx.get(f"{daemon.url}/v1/models").json()["data"]
        assert card["id"] == "letters"
        assert daemon.post("/v1/completions", {"model": "other", "prompt": "a"}).status_code == 404

        # A switch that is set now counts once the engine is there.
        assert daemon.post("/admin/drafter", {"mode": "off"}).status_code == 200
        gate.open()
        daemon.wait_ready()
        assert "retry-after" not in daemon.health().headers
        eventually(lambda: daemon.health().json()["drafter_state"] == "off", "the switch is kept")


def test_started_without_drafting(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters), "--draft", "off") as daemon:
        health = daemon.health().json()
        assert health["status"] == "ok"
        assert health["drafter"] is None
        assert health["drafter_state"] == "off"
        assert "whole server" in health["drafter_reason"]
        assert daemon.complete("a", 30)["speculative"]["drafted"] == 0
        assert families(daemon.metrics()) == FAMILIES


@pytest.mark.real
def test_health_when_all_is_well(demo: Daemon) -> None:
    body = demo.health().json()
    assert body["status"] == "ok"
    assert body["progress"] == 1
    assert body["device"] == "CPU"
    assert body["drafter"] == "suffix"
    assert body["drafter_state"] == "ready"
    assert body["drafters"]["draft"] == {"state": "off", "reason": "no draft model configured; pass --draft PATH"}


@pytest.mark.real
def test_status_has_the_facts(demo: Daemon) -> None:
    demo.golden()
    status = demo.status()
    assert status["phase"] == "ready"
    model = status["model"]
    assert (model["architecture"], model["n_vocab"], model["n_layer"]) == ("llama", 49152, 30)
    assert (model["n_ctx"], model["n_ctx_train"], model["slots"]) == (2048, 8192, 1)
    assert status["memory"]["target"]["weights_bytes"] > 90_000_000
    assert status["memory"]["kv_total_tokens"] == 2048
    assert status["memory"]["engine_rss_bytes"] > 50_000_000
    eventually(lambda: demo.status()["counters"]["output_tokens"] >= 5, "the tokens are counted")
    assert status["queue"] == {"running": 0, "waiting": 0, "limit": 32}


@pytest.mark.real
def test_status_has_the_pools_and_what_watches_them(demo: Daemon) -> None:
    [host] = eventually(lambda: demo.status()["memory"]["pools"], "memory is read")
    assert host["name"] == "host"
    assert 0 < host["free_bytes"] <= host["total_bytes"]
    assert host["target"]["weights_bytes"] > 90_000_000
    assert 0 < host["low_bytes"] < host["high_bytes"]
    monitor = demo.status()["memory"]["monitor"]
    assert monitor["watch"] == "idle"
    assert monitor["reason"] == "no drafter with memory of its own is loaded"
    assert monitor["transitions"] == []
    assert value(demo.metrics(), 'homespec_pool_free_bytes{pool="host"}') > 0


@pytest.mark.real
def test_events_come_twice_a_second(demo: Daemon) -> None:
    snapshots: list[Any] = []
    with httpx.stream("GET", f"{demo.url}/events", timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                snapshots.append(json.loads(line.removeprefix("data: ")))
            if len(snapshots) == 6:
                break
    assert snapshots[0].keys() == demo.status().keys()
    took = snapshots[-1]["time_unix"] - snapshots[0]["time_unix"]
    assert took / 5 <= 0.5


@pytest.mark.real
def test_the_families_are_always_the_same(demo: Daemon) -> None:
    assert families(demo.metrics()) == FAMILIES
    before = value(demo.metrics(), "homespec_output_tokens_total")
    demo.complete("red green blue red green blue red", 8)
    eventually(lambda: value(demo.metrics(), "homespec_output_tokens_total") == before + 8, "the tokens are counted")
    assert families(demo.metrics()) == FAMILIES
    try:
        demo.post("/admin/drafter", {"mode": "off"})
        eventually(lambda: demo.status()["speculation"]["mode"] == "off", "the engine follows")
        demo.complete("One, two,", 2)
        assert families(demo.metrics()) == FAMILIES
    finally:
        demo.post("/admin/drafter", {"mode": "auto"})


@pytest.mark.real
def test_vllm_counts_the_sum_over_drafters(demo: Daemon) -> None:
    demo.complete("red green blue red green blue red", 12)
    page = demo.metrics()
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        ours = re.findall(rf"^homespec_spec_decode_{name}_total\{{.*\}} (\S+)$", page, re.MULTILINE)
        assert value(page, f"vllm:spec_decode_{name}_total") == sum(map(float, ours))
    positions = [
        value(page, f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}}') for i in range(16)
    ]
    assert positions == sorted(positions, reverse=True)
    assert sum(positions) == value(page, "vllm:spec_decode_num_accepted_tokens_total")
