"""Requests that end with their response, whatever becomes of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request, Response
from starlette.types import Message

from homespec.frames import Delta, EngineSettings, Generate, Sampling, TextPrompt
from homespec.server.generate import Framing, generate
from homespec.server.sse import event_stream, line_stream
from homespec.status import Phase
from homespec.supervision.plan import Plan
from homespec.supervisor import Supervisor
from homespec.wire.completion_shape import CompletionShape
from tests.kits.limits import limits

SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": ("127.0.0.1", 1)}


class Client:
    """Is there until it leaves."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.received: list[Message] = []

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await asyncio.sleep(0)  # as where the connection is full
        self.received.append(message)


async def begun(supervisor: Supervisor, plan: Plan, client: Client, framing: Framing) -> Response:
    """The response of a stream whose first word has come."""
    supervisor.state.enter(Phase.READY, "ready")
    frame = Generate("r", TextPrompt("a"), Sampling(), stream=True)
    submit = supervisor.submit

    def answered(*arguments: Any, **named: Any) -> Any:
        job = submit(*arguments, **named)
        job.put(Delta("r", "word", 1))
        return job

    services: Any = SimpleNamespace(supervisor=SimpleNamespace(submit=answered, cancel=supervisor.cancel))
    request = Request(SCOPE, client.receive)
    return await generate(request, services, [frame], CompletionShape("m"), plan, framing=framing)


@pytest.mark.parametrize("framing", [event_stream, line_stream])
async def test_a_stream_whose_client_leaves_before_it_begins_is_cancelled(framing: Framing) -> None:
    plan, client = Plan(EngineSettings("m.gguf", "m")), Client()
    supervisor = Supervisor(plan, limits())
    response = await begun(supervisor, plan, client, framing)
    assert supervisor.queue_status().waiting == 1
    client.left.set()
    await response(SCOPE, client.receive, client.send)
    assert supervisor.queue_status().waiting == 0
