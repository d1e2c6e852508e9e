"""A daemon and another server for a bench, both doubles: they answer at once and break as a test tells them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.client.daemon_double import Cut, DaemonDouble, Received, Reply, sse
from tests.tui.snapshots import plain

CUT = Cut([sse(json.dumps({"choices": [{"delta": {"content": "Once"}}]}))])


def refusal(status: int, message: str = "no", **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message, "type": "x", "code": status}})
    return Reply(status, body.encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def answers(double: DaemonDouble, models: Sequence[str] = ("target",)) -> None:
    """Have it answer every request of a bench, each with the same few words."""
    double.replies["/status"] = Reply(200, msgspec.json.encode(plain()))
    double.replies["/tokenize"] = Reply(200, b'{"tokens":[1]}')
    double.replies["/v1/models"] = Reply(200, json.dumps({"data": [{"id": name} for name in models]}).encode())
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": f" w{index}"}}]} for index in range(3)]
    double.chat = [*(sse(json.dumps(chunk)) for chunk in chunks), sse("[DONE]")]


def first_turn(request: Received) -> str:
    text: str = request.json["messages"][0]["content"]
    return text


def on_prompt(text: str, *results: Reply | Cut | None) -> Callable[[Received], Reply | Cut | None]:
    """For one prompt, these in turn and then the last for ever; for all others the usual answer."""
    left = list(results)

    def answer(request: Received) -> Reply | Cut | None:
        if first_turn(request) != text:
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return answer
