"""`homespec status`: the daemon's state as one screen of plain text, or as the JSON it is made from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from homespec.client.failures import UnreachableError, describe, nobody_at
from homespec.client.http import Client
from homespec.errors import ExitCode, HomespecError, RequestError
from homespec.status import MemoryStatus, Phase, RequestStatus, SpeculationStatus, Status
from homespec.units import clean, format_bytes, format_duration, format_rate, format_ratio

LABEL_WIDTH = 12
NUM_EVENTS = 5


def show(url: str, api_key: str | None, *, as_json: bool) -> ExitCode:
    """Print it. OK only while the daemon can answer requests. Raises what the client raises."""
    client = Client(url, api_key)
    try:
        status = asyncio.run(client.status())
    except UnreachableError as error:
        raise UnreachableError(nobody_at(client.url, error)) from error
    except RequestError as error:
        raise HomespecError(describe(error)) from error
    print(msgspec.json.encode(status).decode() if as_json else "\n".join(page(status)))
    return ExitCode.OK if status.phase in (Phase.READY, Phase.IDLE) else ExitCode.FAILURE


def page(status: Status) -> Iterator[str]:
    """The lines of the screen; numbers and reasons, never text of a prompt or an answer."""
    detail = "" if status.detail == status.phase else f": {status.detail}"
    yield _line("daemon", f"{status.phase}{detail}; up {format_duration(status.uptime_s)}")
    if status.phase is Phase.LOADING:
        yield _line("loading", format_ratio(status.load_progress))
    if status.degraded:
        yield _line("degraded", status.degraded)
    engine = status.engine
    if engine.restarts:
        yield _line("engine", f"restarted {engine.restarts} times, last: {engine.last_exit}")
    if status.model is not None:
        model = status.model
        yield _line("model", f"{model.id}: {model.description}, {model.n_ctx} tokens, {', '.join(model.devices)}")
        yield _line("exactness", f"{status.exactness}: {status.exactness_reason}")
    if len(status.models) > 1:
        yield _line("models", ", ".join(f"{model.id} {model.residence}" for model in status.models))
    yield _line("speed", _speed(status))
    first = status.first_token
    if first.last_s is not None:
        last, median = format_duration(first.last_s), format_duration(first.median_s)
        yield _line("first token", f"last after {last}, median {median}")
    if status.speculation is not None:
        yield from _speculation(status.speculation)
    if status.memory is not None:
        yield from _memory(status.memory)
    yield _line("requests", f"{status.queue.running} running, {status.queue.waiting} of {status.queue.limit} waiting")
    for request in status.requests:
        yield _line("", _request(request))
    for event in status.events[-NUM_EVENTS:]:
        age = format_duration(max(0.0, status.time_unix - event.time_unix))
        yield _line("event", f"{age} ago, {event.kind}: {event.text}")


def _speed(status: Status) -> str:
    rates = status.throughput
    if rates.tokens_per_second is None:
        return "idle"
    length = rates.acceptance_length
    drafts = "" if length is None else f", {length:.2f} tokens per pass, {format_ratio(rates.acceptance_rate)} accepted"
    return format_rate(rates.tokens_per_second) + drafts


def _speculation(speculation: SpeculationStatus) -> Iterator[str]:
    chosen = speculation.drafter or "nothing"
    yield _line("drafting", f"{chosen} drafts, mode {speculation.mode}, at most {speculation.max_draft_tokens} tokens")
    if speculation.order:
        yield _line("", f"preferred in this order: {', '.join(speculation.order)}")
    for drafter in speculation.drafters:
        yield _line("", f"{drafter.name} {drafter.state}: {drafter.reason}")


def _memory(memory: MemoryStatus) -> Iterator[str]:
    for name, model in (("target", memory.target), ("drafter", memory.drafter)):
        parts = f"weights {format_bytes(model.weights_bytes)}, KV {format_bytes(model.kv_bytes)}"
        if model.total_bytes:
            yield _line(
                name, f"{format_bytes(model.total_bytes)}: {parts}, compute {format_bytes(model.compute_bytes)}"
            )
    for resident in memory.residents:
        size, idle = format_bytes(resident.memory.total_bytes), format_duration(resident.idle_s)
        yield _line("resident", f"{resident.id}: {size}, has not been asked for {idle}")
    yield _line("KV cache", f"{memory.kv_used_tokens} of {memory.kv_total_tokens} tokens")
    free, total = format_bytes(memory.host_available_bytes), format_bytes(memory.host_total_bytes)
    yield _line("host", f"{free} of {total} free; the engine holds {format_bytes(memory.engine_rss_bytes)}")
    for pool in memory.pools[:1]:
        # A control group: a container's, a unit's.
        if pool.total_bytes and memory.host_total_bytes and pool.total_bytes < memory.host_total_bytes:
            yield _line(
                "", f"{format_bytes(pool.free_bytes)} free within the limit of {format_bytes(pool.total_bytes)}"
            )


def _request(request: RequestStatus) -> str:
    length = request.acceptance_length
    drafted = "" if request.drafter is None or length is None else f", {request.drafter} {length:.2f} per pass"
    return (
        f"{request.id} {request.phase}: {request.num_prefilled_tokens} of {request.num_prompt_tokens} prompt tokens, "
        f"{request.num_output_tokens} answered, {format_rate(request.tokens_per_second)}{drafted}"
    )


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL_WIDTH}} {clean(text)}"
