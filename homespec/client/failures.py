"""What can go wrong between a client and the daemon, as one line of text.

HomespecError
├── UnreachableError    no HTTP answer: nothing listens, the name is unknown, the handshake failed
├── StreamCutError      the answer began and the connection ended before the answer did
└── RequestError        the daemon answered with an error; its own message
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

import httpx
import msgspec

from homespec.errors import ErrorInfo, ExitCode, HomespecError, RequestError
from homespec.units import clean

KEY_HINT = "set HOMESPEC_API_KEY to the daemon's key"


class UnreachableError(HomespecError):
    """No HTTP answer came; the text is the reason alone."""

    exit_code = ExitCode.UNREACHABLE


class StreamCutError(HomespecError):
    """The connection ended before the stream was complete; the text is the reason alone."""


class _ErrorFields(msgspec.Struct):
    """The inside of an OpenAI-shaped error, read leniently."""

    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class _ErrorBody(msgspec.Struct):
    error: _ErrorFields


def reason_of(error: Exception) -> str:
    """Why a network call failed, in a few words: `connection refused`, `no data for 10 s`."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError | socket.gaierror) and cause.strerror:
            return clean(cause.strerror).lower()
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
    if isinstance(error, httpx.ReadTimeout):
        return f"no data for {error.request.extensions['timeout']['read']:g} s"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.RemoteProtocolError):
        return "the connection closed early"
    return clean(str(error)) or type(error).__name__


def refusal_of(response: httpx.Response) -> RequestError:
    """The error in a response that was read and is not a success."""
    retry_after = response.headers.get("retry-after", "")
    fields = _decode(response.content)
    message = fields.message if fields else f"HTTP {response.status_code} {response.reason_phrase}"
    return RequestError.of(
        ErrorInfo(
            clean(message),
            status=response.status_code,
            type=(fields and fields.type) or "api_error",
            param=fields.param if fields else None,
            code=str(fields.code) if fields and fields.code is not None else None,
            retry_after_s=int(retry_after) if retry_after.isdecimal() else None,
        )
    )


def refusal_in(data: str) -> RequestError | None:
    """The error that a message of a stream carries, if it carries one."""
    fields = _decode(data.encode()) if '"error"' in data else None
    if fields is None:
        return None
    # llama-server says there what the status line would have said.
    status = fields.code if isinstance(fields.code, int) and 400 <= fields.code < 600 else 500
    info = ErrorInfo(clean(fields.message), status=status, type=fields.type or "server_error", param=fields.param)
    return RequestError.of(info)


def nobody_at(url: str, error: UnreachableError) -> str:
    """That no daemon answers at the URL, why, and what to do."""
    return f"no homespec at {url}: {error}. Start one with 'homespec serve' or pass --url."


def describe(error: HomespecError) -> str:
    """The error in one line, with the remedy that only a client knows."""
    if not isinstance(error, RequestError):
        return str(error)
    if error.info.status == 401:
        return f"{KEY_HINT} ({error})"
    if error.info.retry_after_s is not None:
        return f"{error} (try again in {error.info.retry_after_s} s)"
    return str(error)


def _decode(body: bytes) -> _ErrorFields | None:
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and the members of groups on the way."""
    current: BaseException | None = error
    while current is not None:
        yield current
        if isinstance(current, BaseExceptionGroup):
            for member in current.exceptions:
                yield from _causes(member)
        current = current.__cause__ or current.__context__
