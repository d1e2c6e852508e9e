"""A bug on the way to an answer is told once: to the client in the usual shape, and to the log with its traceback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from homespec.server import errors


@pytest.fixture
def client() -> httpx.AsyncClient:
    """An application with a bug. Whatever leaves it would be logged once more by the HTTP server, so it is raised."""
    app = FastAPI()
    errors.install(app)
    app.add_middleware(errors.Crashes)

    @app.get("/bug")
    async def bug() -> None:
        raise ZeroDivisionError("with details")

    @app.get("/late")
    async def late() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"some"
            raise ZeroDivisionError("later")

        return StreamingResponse(body())

    @app.post("/left")
    async def left() -> None:
        raise ClientDisconnect

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box")


async def test_it_is_logged_once_and_answered(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    response = await client.get("/bug")
    assert response.status_code == 500
    assert response.json()["error"] == {
        "message": "internal error: ZeroDivisionError",
        "type": "server_error",
        "param": None,
        "code": "internal",
    }
    [record] = caplog.records
    assert record.getMessage() == "GET /bug failed"
    assert record.exc_info


async def test_a_response_that_has_begun_is_left_to_the_http_server(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError, match="later"):
        await client.get("/late")
    assert caplog.records == []


async def test_what_is_no_bug_keeps_its_answer(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    response = await client.get("/nowhere")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    assert caplog.records == []


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_bug(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError):  # httpx's: nothing was answered
        await client.post("/left")
    assert caplog.records == []
