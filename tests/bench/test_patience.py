from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from homespec.bench import patience
from homespec.bench.patience import Course, PromptFailed, PromptRefused, ServerBusy, ServerSilent, course, patiently
from homespec.client.failures import StreamCutError, UnreachableError
from homespec.errors import HomespecError, RequestError


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were slept, without sleeping."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(patience, "asyncio", SimpleNamespace(sleep=sleep))
    return slept


def in_turn(*results: HomespecError | str) -> Callable[[], Awaitable[str]]:
    left = list(results)

    async def request() -> str:
        await asyncio.sleep(0)
        result = left.pop(0)
        if isinstance(result, HomespecError):
            raise result
        return result

    return request


def busy(retry_after_s: int | None = None) -> RequestError:
    return RequestError("64 requests wait", status=503, retry_after_s=retry_after_s)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([400, 406, 411, 413, 414, 422, 451], Course.LEAVE_OUT),
        ([301, 308, 401, 402, 403, 404, 405, 501], Course.END),
        ([429, 503], Course.WAIT),
        ([408, 409, 500, 502, 504], Course.AGAIN),
    ],
)
def test_what_a_status_leads_to(statuses: list[int], expected: Course) -> None:
    assert {course(RequestError("no", status=status)) for status in statuses} == {expected}


def test_what_other_errors_lead_to() -> None:
    assert course(StreamCutError("cut")) is Course.AGAIN
    assert course(UnreachableError("the connection closed early")) is Course.AGAIN
    assert course(ServerSilent("no text")) is Course.END
    assert course(HomespecError("anything")) is Course.END


async def test_an_answer_is_taken_as_it_is(waits: list[float]) -> None:
    assert await patiently(in_turn("yes")) == ("yes", False)
    assert waits == []


async def test_a_busy_server_is_waited_for_as_long_as_it_asks(waits: list[float]) -> None:
    assert await patiently(in_turn(busy(7), busy(0), busy(), "yes")) == ("yes", False)
    assert waits == [7, patience.PAUSE_S, patience.DEFAULT_WAIT_S]


@pytest.mark.parametrize(("asked_s", "num_waits"), [(None, 24), (50, 2), (3600, 0)])
async def test_waiting_has_an_end(waits: list[float], asked_s: int | None, num_waits: int) -> None:
    with pytest.raises(ServerBusy, match=r"still busy after .* over the limit of 120 s \(64 requests wait\)"):
        await patiently(in_turn(*[busy(asked_s)] * 30))
    assert len(waits) == num_waits
    assert sum(waits) <= patience.LONGEST_WAIT_S


async def test_an_answer_that_breaks_off_is_asked_for_once_more(waits: list[float]) -> None:
    assert await patiently(in_turn(StreamCutError("cut"), "yes")) == ("yes", True)
    with pytest.raises(PromptFailed, match="twice: boom"):
        await patiently(in_turn(StreamCutError("cut"), RequestError("boom", status=500)))
    assert waits == [patience.PAUSE_S] * 2


async def test_a_server_that_is_gone_twice_is_gone(waits: list[float]) -> None:
    assert await patiently(in_turn(UnreachableError("closed"), "yes")) == ("yes", True)
    with pytest.raises(UnreachableError):
        await patiently(in_turn(UnreachableError("closed"), UnreachableError("refused")))


async def test_a_refusal_is_not_asked_again(waits: list[float]) -> None:
    with pytest.raises(PromptRefused, match="too long"):
        await patiently(in_turn(RequestError("too long", status=413)))
    with pytest.raises(RequestError, match="no such model"):
        await patiently(in_turn(RequestError("no such model", status=404)))
    assert waits == []
