"""What people write is in the answer and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.daemons import GREEDY, Daemon, eventually, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

CANARY = "zebra-canary-4711"
MESSAGES = [{"role": "user", "content": CANARY}]
SCHEMA = {"type": "object", "properties": {"x": {"const": CANARY}}}
TOOL = {"type": "function", "function": {"name": "f", "description": CANARY, "parameters": SCHEMA}}
CHAT = "/v1/chat/completions"
ANSWERED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": MESSAGES, "tools": [TOOL], "tool_choice": "required", "max_tokens": 5}),
    (CHAT, {"messages": MESSAGES, "regex": CANARY, "cache_salt": CANARY, "max_tokens": 2}),
    ("/v1/responses", {"input": CANARY, "instructions": CANARY, "max_output_tokens": 2}),
    ("/api/chat", {"messages": MESSAGES, "options": {"num_predict": 2}, "stream": False}),
    ("/api/generate", {"prompt": CANARY, "raw": True, "options": {"num_predict": 2}}),
    ("/tokenize", {"content": CANARY}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": MESSAGES, "regex": f"({CANARY}"}),
    (CHAT, {"messages": MESSAGES, "grammar": CANARY}),
    ("/v1/completions", {"prompt": "a", "suffix": CANARY}),
    ("/v1/responses", {"input": [{"type": CANARY}]}),
    ("/api/chat", {"messages": MESSAGES, "format": CANARY}),
    ("/v1/embeddings", {"input": CANARY}),
    ("/api/embed", {"input": CANARY}),
]


@pytest.fixture(params=["info", "debug"])
def daemon(models: Models, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    flags = (str(models.letters), "--ctx", "30000", "--log-level", request.param)
    with running(tmp_path, *flags) as daemon:
        yield daemon


def say_it_in_every_way(daemon: Daemon) -> None:
    """Requests that succeed, that are refused at each stage, and that break."""
    chat, completion = "/v1/chat/completions", "/v1/completions"
    messages = [{"role": "user", "content": CANARY}]
    assert daemon.post(chat, {"messages": messages, "max_tokens": 2}).status_code == 200
    assert daemon.post(completion, {"prompt": CANARY, "max_tokens": 2, "stop": CANARY}).status_code == 200
    with daemon.stream(completion, {"prompt": CANARY, "max_tokens": 5}) as stream:
        list(stream.events())
    for path, body in ANSWERED:
        assert daemon.post(path, body).status_code == 200, (path, body)
    for path, body in REFUSED:
        assert daemon.post(path, body).status_code == 400, (path, body)
    bad_bodies: list[dict[str, Any]] = [
        {"messages": [{"role": CANARY, "content": "a"}]},
        {"messages": CANARY},
        {"messages": [{"role": "user", "content": {"x": CANARY}}]},
        {"messages": messages, "temperature": CANARY},
        {"messages": messages, "logit_bias": {"99999999": 1}},
        {"messages": [{"role": "user", "content": CANARY * 2000}]},
        {"messages": [{"role": "user", "content": "a", "x": 10**30, "y": CANARY}]},
    ]
    for body in bad_bodies:
        assert daemon.post(chat, body).status_code == 400
    assert daemon.post(chat, {"messages": messages, "model": "other"}).status_code == 404
    for raw in (f'{{"messages": "{CANARY}', f"{CANARY}", json.dumps({"x": CANARY, "y": "\ud800"})):
        response = httpx.post(f"{daemon.url}{chat}", content=raw.encode(), headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert CANARY not in response.text


def test_prompts_are_in_no_log_and_no_status(daemon: Daemon) -> None:
    say_it_in_every_way(daemon)
    with daemon.stream("/v1/completions", {"prompt": CANARY, "max_tokens": 29_000, **GREEDY}) as stream:
        stream.first_text()
        eventually(lambda: daemon.status()["requests"], "the request is seen")
        status = httpx.get(f"{daemon.url}/status").text
        with httpx.stream("GET", f"{daemon.url}/events") as events:
            event = next(line for line in events.iter_lines() if line.startswith("data: "))
        for page in (status, event, daemon.metrics(), daemon.health().text):
            assert "canary" not in page
        psutil.Process(daemon.engine_pid).kill()
        list(stream.events())
    eventually(lambda: daemon.restarts() == 1, "the death is noticed")
    assert "canary" not in httpx.get(f"{daemon.url}/status").text
    assert "canary" not in daemon.log()
