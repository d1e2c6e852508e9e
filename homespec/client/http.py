"""HTTP to the daemon, for the dashboard, the chat, the doctor and the bench alike."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from homespec.client.failures import StreamCutError, UnreachableError, reason_of, refusal_in, refusal_of
from homespec.client.sse import SseParser
from homespec.status import Status

T = TypeVar("T")

END_OF_STREAM = "[DONE]"
CONNECT_TIMEOUT_S = 5.0
EVENTS_TIMEOUT_S = 10.0
"""Longest silence on /events: snapshots come twice a second, so more is a dead connection."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class ListedModel(msgspec.Struct, frozen=True):
    """A name on /v1/models."""

    id: str
    owned_by: str | None = None
    """`homespec`, `llamacpp`, `vllm`: says which server it is, where it says so."""


class _ModelList(msgspec.Struct):
    data: list[ListedModel]


class _Tokens(msgspec.Struct):
    tokens: list[int]


class Client:
    """One daemon at one address. Every call opens its own connection, so a restart in between does not matter.

    Calls raise UnreachableError before the first byte of an answer, StreamCutError after it, and RequestError when the
    daemon refuses.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}"
        self._headers = {b"Authorization": f"Bearer {api_key}".encode()} if api_key else {}

    async def events(self) -> AsyncGenerator[str, None]:
        """The JSON of the newest snapshot in each network read, until the daemon ends the stream."""
        parser = SseParser()
        async with self._open("GET", "/events", read_timeout_s=EVENTS_TIMEOUT_S) as response:
            async for chunk in response.aiter_bytes():
                if messages := parser.feed(chunk):
                    yield messages[-1].data

    async def chat(self, body: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The JSON of every chunk of a streamed chat completion; returns only after a complete answer."""
        parser = SseParser()
        # No read timeout: the prefill of a long prompt on a small box takes minutes.
        async with self._open("POST", "/v1/chat/completions", body) as response:
            async for piece in response.aiter_bytes():
                for message in parser.feed(piece):
                    if message.data == END_OF_STREAM:
                        return
                    if refusal := refusal_in(message.data):
                        raise refusal
                    yield message.data
            raise StreamCutError("the stream ended before its end mark")

    async def set_drafter(self, mode: str) -> dict[str, Any]:
        """Switch drafting for the whole daemon to auto, off or a drafter; returns the daemon's answer."""
        return await self._admin("POST", "/admin/drafter", {"mode": mode})

    async def reload_drafter(self) -> dict[str, Any]:
        """Have the draft model unloaded and loaded again; returns the daemon's answer."""
        return await self._admin("POST", "/admin/drafter", {"reload": True})

    async def cancel_request(self, request_id: str) -> dict[str, Any]:
        """End a request in flight; returns the daemon's answer."""
        return await self._admin("DELETE", f"/admin/requests/{quote(request_id, safe='')}")

    async def _admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The daemon's answer to an order; empty when it is of another make."""
        async with self._open(method, path, body, EVENTS_TIMEOUT_S) as response:
            answer = await response.aread()
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.DecodeError:
            return {}

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A chat completion as a whole."""
        async with self._open("POST", "/v1/chat/completions", body) as response:
            answer: dict[str, Any] = _decoded(await response.aread(), dict[str, Any], "the answer cannot be read")
        return answer

    async def count_tokens(self, text: str) -> int:
        """Length of a text in tokens of the daemon's model, without BOS."""
        async with self._open("POST", "/tokenize", {"content": text}, EVENTS_TIMEOUT_S) as response:
            return len(_decoded(await response.aread(), _Tokens, "the tokens cannot be read").tokens)

    async def models(self) -> list[ListedModel]:
        """What is on /v1/models."""
        async with self._open("GET", "/v1/models", read_timeout_s=EVENTS_TIMEOUT_S) as response:
            return _decoded(await response.aread(), _ModelList, "the list of models cannot be read").data

    async def status(self) -> Status:
        """One snapshot. Raises StreamCutError when it does not decode: the daemon is of another version."""
        return decode_status(await self.status_json())

    async def status_json(self) -> bytes:
        """One snapshot as it came."""
        async with self._open("GET", "/status", read_timeout_s=EVENTS_TIMEOUT_S) as response:
            return await response.aread()

    async def check(self) -> None:
        """Raise UnreachableError unless something answers HTTP; a daemon that is still loading is fine."""
        async with self._connect("GET", "/health", None, EVENTS_TIMEOUT_S):
            pass

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: dict[str, Any] | None = None, read_timeout_s: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """A response that is a success, still to be read."""
        async with self._connect(method, path, body, read_timeout_s) as response:
            if not response.is_success:
                await response.aread()
                raise refusal_of(response)
            yield response

    @asynccontextmanager
    async def _connect(
        self, method: str, path: str, body: dict[str, Any] | None, read_timeout_s: float | None
    ) -> AsyncIterator[httpx.Response]:
        """A response of any status; every failure of the network becomes one of ours."""
        answered = False
        try:
            async with self._http(read_timeout_s) as http, http.stream(method, path, json=body) as response:
                answered = True
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = StreamCutError if answered else UnreachableError
            raise failure(reason_of(error)) from error

    @cached_property
    def _certificates(self) -> ssl.SSLContext | bool:
        """Reading them takes longer than many an answer: they are read once, and never for plain http."""
        return httpx.create_ssl_context() if self.url.startswith("https:") else False

    def _http(self, read_timeout_s: float | None) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers=self._headers,
            timeout=httpx.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s),
            verify=self._certificates,
            # A proxy set for the web must not stand between a box and its own daemon.
            trust_env=httpx.URL(self.url).host not in _LOOPBACK,
        )


def decode_status(body: bytes) -> Status:
    """Raises StreamCutError when it is not a snapshot of this version."""
    return _decoded(body, Status, "the daemon's status cannot be read, it may be of another version")


def _decoded(body: bytes, kind: type[T], fault: str) -> T:
    """Raises StreamCutError, with the fault in front of the reason."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StreamCutError(f"{fault}: {error}") from error
