"""Every figure of the overview: where it stands, what it has to say of a snapshot, and what changes it.

All is computed from the record with the formats that every screen shares; nothing is taken from the widgets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from homespec.status import ControllerStatus, DrafterStatus, MemoryStatus, Phase, RequestStatus, Status, Watch
from homespec.tui.text import UNKNOWN, count, number, percent
from homespec.units import GIB, MIB, format_bytes, format_duration, format_rate

Told = Callable[[Status], list[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A part of the screen; texts come with single blanks, and without bars and frames."""

    name: str
    place: str
    """Selector of the widget."""
    told: Told
    """Texts that stand there; none where the daemon does not know."""
    changes: dict[str, Any]
    """Values that fields of `snapshots.betting()` do not have, by the path of the field."""
    only_wide: bool = False
    """There is no room for it on small screens."""


def changed(record: Any, path: str, value: Any) -> Any:
    """The record with one field changed: `changed(status, "queue/running", 7)`."""
    name, _, rest = path.partition("/")
    match record:
        case dict():
            [key] = [each for each in record if str(each) == name]
            return {**record, key: changed(record[key], rest, value) if rest else value}
        case tuple() | list():
            at = int(name)
            inner = changed(record[at], rest, value) if rest else value
            return type(record)([*record[:at], inner, *record[at + 1 :]])
    return replace(record, **{name: changed(getattr(record, name), rest, value) if rest else value})


def _controller(status: Status) -> ControllerStatus | None:
    return status.speculation.controller if status.speculation else None


def _identity(status: Status) -> list[str]:
    restarts = status.engine.restarts
    age = f"up {format_duration(status.uptime_s)} {restarts} restart{'' if restarts == 1 else 's'}"
    return [f"homespec {status.version} ", f" {status.phase} ", f" {status.exactness} {age}" if status.model else age]


def _model(status: Status) -> list[str]:
    model = status.model
    if model is None:
        return ["no model yet"]
    flash = "flash attention" if model.flash_attention else "no flash attention"
    facts = (model.description, f"n_ctx {model.n_ctx}", f"{model.slots} slots", f"KV {model.kv_type}", flash)
    return [f"{model.id} {' · '.join(facts)} · {model.threads} threads · {'+'.join(model.devices)} "]


def _notice(status: Status) -> list[str]:
    counters = status.counters
    if status.phase is not Phase.READY:
        return [status.detail]
    return [
        f" {count(counters.requests)} requests · {count(counters.prompt_tokens)} prompt, "
        f"{count(counters.cached_tokens)} reused · {count(counters.output_tokens)} out · "
        f"{count(counters.preemptions)} preempted"
    ]


def _rounds(status: Status) -> list[str]:
    return [f" {count(status.counters.rounds)} rounds"] if status.phase is Phase.READY else []


def _rate(status: Status) -> list[str]:
    rate = status.throughput.tokens_per_second
    return [" idle "] if rate is None else [f" {format_rate(rate)} "]


def _gain(status: Status) -> list[str]:
    rate, controller = status.throughput.tokens_per_second, _controller(status)
    drafts = status.speculation is not None and status.speculation.drafter is not None
    if not drafts or rate is None or controller is None or controller.measured_speedup is None:
        return []
    gain = controller.measured_speedup
    return [f" plain {number(rate / gain)}, gain {number(gain, 2)}×"]


def _tracks(status: Status) -> list[str]:
    rates, memory = status.throughput, status.memory
    kv = memory.kv_used_tokens / memory.kv_total_tokens if memory else None
    return [
        f" AL {number(rates.acceptance_length, 2)} ",
        f" D {number(rates.draft_length)} ",
        f" KV {percent(kv)} ",
    ]


def _acceptance(status: Status) -> list[str]:
    rates = status.throughput
    accepted, length = percent(rates.acceptance_rate), number(rates.draft_length)
    return [f" AL {number(rates.acceptance_length, 2)} accepted {accepted} D {length} "]


def _positions(status: Status) -> list[str]:
    """Of the drafter that is chosen if it has drafted, else of the one that drafted most."""
    drafted = {name: stats for name, stats in status.drafts.items() if stats.num_drafts}
    if not drafted:
        return ["nothing drafted yet"]
    chosen = status.speculation.drafter if status.speculation else None
    name = chosen if chosen in drafted else max(drafted, key=lambda each: drafted[each].num_drafts)
    assert name is not None
    stats = drafted[name]
    shares = [accepted / stats.num_drafts for accepted in stats.num_accepted_per_position]
    return [f"acceptance · {name} by position", *(f" {at} {percent(share)} " for at, share in enumerate(shares, 1))]


def _chosen(status: Status) -> list[str]:
    speculation = status.speculation
    if speculation is None:
        return ["not known before the model is loaded"]
    mode = f"drafter · mode {speculation.mode} →"
    if speculation.drafter is None:
        return [f"{mode} nothing drafts ({speculation.state})", speculation.reason]
    chosen = f"{speculation.drafter} {speculation.state} · D up to {speculation.max_draft_tokens}"
    return [f"{mode} {chosen}", speculation.reason]


def _drafters(status: Status) -> list[str]:
    return [_drafter(each, status) for each in status.speculation.drafters] if status.speculation else []


def _drafter(drafter: DrafterStatus, status: Status) -> str:
    """`suffix ● ready AL 3.48 62 % free: …`; without a sign, which is tested with the colours."""
    stats = status.drafts.get(drafter.name)
    numbers = ""
    if stats is not None and stats.num_drafts:
        length = 1 + stats.num_accepted_tokens / stats.num_drafts
        numbers = f"AL {number(length, 2)} {percent(stats.num_accepted_tokens / stats.num_draft_tokens)} "
    return f" {drafter.state} {numbers}{drafter.reason}"


def _exactness(status: Status) -> list[str]:
    return [f" {status.exactness}: {status.exactness_reason}"] if status.speculation else []


def _costs(status: Status) -> list[str]:
    controller = _controller(status)
    if controller is None:
        return []
    plain = [] if controller.plain_ms is None else [f" T(1) {number(controller.plain_ms)} ms"]
    rows = [f" T({rows}) {number(cost)}" for rows, cost in controller.row_costs.items() if rows in (2, 4, 8, 16)]
    drafts = [f" {name} {number(cost, 2)}/token" for name, cost in controller.draft_costs.items()]
    paused = [f" {name} {reason}" for name, reason in controller.paused.items()]
    return [f" costs {controller.costs}", *plain, *rows, *drafts, *paused]


def _speedups(status: Status) -> list[str]:
    controller = _controller(status)
    if controller is None or controller.measured_speedup is None:
        return []
    measured, expected = number(controller.measured_speedup, 2), number(controller.predicted_speedup, 2)
    return [f" {measured}× plain, {expected}× expected"]


def _skipped(status: Status) -> list[str]:
    return [f" {reason} {count(times)} " for reason, times in status.counters.skipped_drafts.items()]


def _engine_memory(status: Status) -> list[str]:
    memory = status.memory
    if memory is None:
        return ["engine RSS –"]
    withdrawn = memory.monitor is not None and memory.monitor.watch is Watch.WITHDRAWN
    return [f"memory · {'drafter withdrawn · ' if withdrawn else ''}engine RSS {format_bytes(memory.engine_rss_bytes)}"]


def _kv(status: Status) -> list[str]:
    memory = status.memory
    if memory is None:
        return []
    used, total = memory.kv_used_tokens, memory.kv_total_tokens
    return [f" {percent(used / total)} {used} of {total} "]


def _free(status: Status) -> list[str]:
    pools = status.memory.pools if status.memory else ()
    known = [pool for pool in pools if pool.total_bytes is not None and pool.free_bytes is not None]
    return [f" {pool.name} {_gib(pool.free_bytes)} of {_gib(pool.total_bytes)} GiB free " for pool in known]


def _gib(num_bytes: int | None) -> str:
    assert num_bytes is not None
    return f"{num_bytes / GIB:.1f}"


def _pools(status: Status) -> list[str]:
    pools = status.memory.pools if status.memory else ()
    marks = [(UNKNOWN if m is None else f"{m / MIB:.0f}" for m in (pool.low_bytes, pool.high_bytes)) for pool in pools]
    return [
        f"others {format_bytes(pool.others_bytes)}, low {low}, high {high} MiB "
        for pool, (low, high) in zip(pools, marks, strict=True)
    ]


def _models_memory(status: Status) -> list[str]:
    return _sizes(status.memory) if status.memory else ["not known before the model is loaded"]


def _sizes(memory: MemoryStatus) -> list[str]:
    target, drafter = memory.target, memory.drafter
    return [
        f" target weights {format_bytes(target.weights_bytes)} ",
        f" target context {format_bytes(target.kv_bytes + target.compute_bytes)} ",
        f" drafter {format_bytes(drafter.weights_bytes + drafter.kv_bytes + drafter.compute_bytes)} ",
    ]


def _queue(status: Status) -> list[str]:
    queue, first = status.queue, status.first_token
    title = f"requests · {queue.running} running · {queue.waiting} waiting of at most {queue.limit}"
    if first.last_s is None:
        return [title]
    return [f"{title} · TTFT {format_duration(first.last_s)}, median {format_duration(first.median_s)}"]


def _requests(status: Status) -> list[str]:
    return [_request(each) for each in status.requests] or ["nothing in flight"]


def _request(request: RequestStatus) -> str:
    prefill = request.num_prefilled_tokens / request.num_prompt_tokens if request.num_prompt_tokens else None
    cells = (
        request.id,
        UNKNOWN if request.slot is None else str(request.slot),
        request.phase,
        count(request.num_prompt_tokens),
        count(request.num_cached_tokens),
        percent(prefill),
        count(request.num_output_tokens),
        number(request.tokens_per_second),
        number(request.acceptance_length, 2),
        percent(request.acceptance_rate),
        request.drafter or UNKNOWN,
        str(request.num_draft_tokens),
        format_duration(request.age_s),
    )
    return f" {' '.join(cells)} "


def _decisions(status: Status) -> list[str]:
    return [f" slot {each.slot} ▸ {each.decision} " for each in status.requests if each.decision is not None]


def _latest_event(status: Status) -> list[str]:
    return [f" {each.kind}: {each.text}" for each in status.events[-1:]]


FIGURES = (
    Figure(
        "identity",
        "Header",
        _identity,
        {
            "version": "9.9.9",
            "phase": Phase.STALLED,
            "exactness": "distribution",
            "uptime_s": 7.5,
            "engine/restarts": 1,
        },
    ),
    Figure(
        "model",
        "Header",
        _model,
        {
            "model/id": "another",
            "model/description": "qwen 9B",
            "model/n_ctx": 4096,
            "model/slots": 7,
            "model/kv_type": "q8_0",
            "model/flash_attention": False,
            "model/threads": 6,
            "model/devices": ("CUDA0", "CPU"),
        },
        only_wide=True,
    ),
    Figure(
        "totals",
        "Banner",
        _notice,
        {
            "counters/requests": 43,
            "counters/prompt_tokens": 54_321,
            "counters/cached_tokens": 7_654,
            "counters/output_tokens": 98_765,
            "counters/preemptions": 4,
        },
    ),
    Figure("rounds", "Banner", _rounds, {"counters/rounds": 31_415}, only_wide=True),
    Figure("tokens per second", "#speed", _rate, {"throughput/tokens_per_second": 61.7}),
    Figure(
        "gain",
        "#speed",
        _gain,
        {"throughput/tokens_per_second": 61.7, "speculation/controller/measured_speedup": 2.25},
    ),
    Figure(
        "tracks",
        "#speed",
        _tracks,
        {
            "throughput/acceptance_length": 5.67,
            "throughput/draft_length": 8.9,
            "memory/kv_used_tokens": 4096,
            "memory/kv_total_tokens": 2048,
        },
    ),
    Figure(
        "acceptance",
        "#acceptance",
        _acceptance,
        {"throughput/acceptance_rate": 0.31, "throughput/acceptance_length": 5.67, "throughput/draft_length": 8.9},
    ),
    Figure(
        "acceptance by position",
        "#acceptance",
        _positions,
        {
            "drafts/suffix/num_accepted_per_position/0": 111,
            "drafts/suffix/num_accepted_per_position/3": 12,
            "drafts/suffix/num_drafts": 240,
            "speculation/drafter": "ngram",
        },
    ),
    Figure(
        "what drafts",
        "#drafters",
        _chosen,
        {
            "speculation/mode": "suffix",
            "speculation/drafter": "ngram",
            "speculation/max_draft_tokens": 9,
            "speculation/reason": "because a test says so",
        },
    ),
    Figure(
        "drafters",
        "#drafters",
        _drafters,
        {
            "speculation/drafters/0/reason": "too large by 3 MiB",
            "speculation/drafters/6/reason": "another reason",
            "drafts/suffix/num_accepted_tokens": 100,
            "drafts/ngram/num_draft_tokens": 30,
        },
        only_wide=True,
    ),
    Figure("exactness", "#drafters", _exactness, {"exactness_reason": "8 of 512 rows differ"}, only_wide=True),
    Figure(
        "costs",
        "#drafters",
        _costs,
        {
            "speculation/controller/costs": "kept",
            "speculation/controller/plain_ms": 22.2,
            "speculation/controller/row_costs/8": 5.5,
            "speculation/controller/draft_costs/draft": 0.44,
            "speculation/controller/paused/ngram": "paused for good",
        },
        only_wide=True,
    ),
    Figure(
        "speed-ups",
        "#drafters",
        _speedups,
        {"speculation/controller/measured_speedup": 2.25, "speculation/controller/predicted_speedup": 2.75},
        only_wide=True,
    ),
    Figure("not drafted", "#drafters", _skipped, {"counters/skipped_drafts/no match": 31}, only_wide=True),
    Figure(
        "engine's memory",
        "#memory",
        _engine_memory,
        {"memory/engine_rss_bytes": 777 * MIB, "memory/monitor/watch": Watch.WITHDRAWN},
    ),
    Figure("KV cache", "#memory", _kv, {"memory/kv_used_tokens": 4096, "memory/kv_total_tokens": 2048}),
    Figure(
        "free memory",
        "#memory",
        _free,
        {"memory/pools/0/free_bytes": 3 * GIB, "memory/pools/0/total_bytes": 9 * GIB},
    ),
    Figure(
        "pools",
        "#memory",
        _pools,
        {
            "memory/pools/0/free_bytes": 3 * GIB,
            "memory/pools/0/low_bytes": 33 * MIB,
            "memory/pools/0/high_bytes": 44 * MIB,
        },
        only_wide=True,
    ),
    Figure(
        "models' memory",
        "#memory",
        _models_memory,
        {
            "memory/target/weights_bytes": 55 * MIB,
            "memory/target/kv_bytes": 66 * MIB,
            "memory/target/compute_bytes": 7 * MIB,
            "memory/drafter/weights_bytes": 8 * MIB,
        },
        only_wide=True,
    ),
    Figure(
        "queue",
        "#requests",
        _queue,
        {
            "queue/running": 8,
            "queue/waiting": 9,
            "queue/limit": 10,
            "first_token/last_s": 1.5,
            "first_token/median_s": 2.5,
        },
    ),
    Figure(
        "requests",
        "#requests",
        _requests,
        {
            "requests/0/num_prompt_tokens": 1024,
            "requests/0/num_cached_tokens": 3,
            "requests/0/num_output_tokens": 999,
            "requests/0/tokens_per_second": 11.1,
            "requests/0/acceptance_length": 2.22,
            "requests/0/acceptance_rate": 0.33,
            "requests/0/drafter": "draft",
            "requests/0/num_draft_tokens": 7,
            "requests/0/age_s": 66.0,
            "requests/2/num_prefilled_tokens": 512,
        },
        only_wide=True,
    ),
    Figure("decisions", "#requests", _decisions, {"requests/0/decision": "off: a test says so"}, only_wide=True),
    Figure("events", "#events", _latest_event, {"events/3/text": "something else"}, only_wide=True),
)
