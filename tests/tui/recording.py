"""Event streams of real daemons as files: one line per snapshot, whole the first time and then as what changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from homespec.status import Status

FOLDER = Path(__file__).parent / "recordings"
NAMES = ("loading", "plain", "speculating", "paused", "pressure", "engine_dead", "reconnect", "chat")
EXCHANGE = FOLDER / "chat_answer.jsonl"


@dataclass(frozen=True, slots=True)
class Step:
    """What came at one moment."""

    at_s: float
    status: Status | None
    """None: the connection was lost; the next snapshot comes over another one."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question in the chat, and the stream that answered it."""

    question: str
    times_s: tuple[float, ...]
    """After the question, one for each of `data`."""
    data: tuple[str, ...]
    """Of the events of the stream, `[DONE]` included."""


def load_exchange() -> Exchange:
    """The one that was recorded with `chat`."""
    question, *chunks = map(json.loads, EXCHANGE.read_text(encoding="utf-8").splitlines())
    return Exchange(question["question"], *zip(*((chunk["at"], chunk["data"]) for chunk in chunks), strict=True))


def save_exchange(exchange: Exchange) -> None:
    chunks = [{"at": round(at_s, 3), "data": data} for at_s, data in zip(exchange.times_s, exchange.data, strict=True)]
    rows = (json.dumps(row, ensure_ascii=False) for row in ({"question": exchange.question}, *chunks))
    EXCHANGE.write_text("\n".join(rows) + "\n", encoding="utf-8")


def load(name: str) -> list[Step]:
    """The steps of one of `NAMES`."""
    steps, now = [], None
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "status" in record:
            now = record["status"]
        elif "change" in record:
            now = applied(now, record["change"])
        is_lost = record.get("lost", False)
        steps.append(Step(record["at"], None if is_lost else msgspec.convert(now, Status, str_keys=True)))
    return steps


def lines(steps: Iterable[tuple[float, Any]]) -> Iterator[str]:
    """A file's lines from moments and snapshots as plain values, None where the connection was lost."""
    before: Any = None
    for at_s, now in steps:
        record: dict[str, Any] = {"at": round(at_s, 2)}
        if now is None:
            record["lost"] = True
        elif before is None:
            record["status"] = before = now
        else:
            record["change"] = difference(before, now)
            before = now
        yield json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def difference(before: Any, after: Any) -> Any:
    """An object of what differs, or [value] where there is nothing to compare field by field."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {key: difference(before[key], after[key]) for key in after if before[key] != after[key]}
    return [after]


def applied(before: Any, change: Any) -> Any:
    """The inverse: `applied(a, difference(a, b)) == b`."""
    if isinstance(change, list):
        return change[0]
    return before | {key: applied(before[key], each) for key, each in change.items()}


def turning_points(steps: Iterable[Step]) -> list[Step]:
    """The steps at which something else than a number has changed."""
    kept: list[Step] = []
    last: Any = ()
    for step in steps:
        if (kind := _kind(step.status)) != last:
            kept.append(step)
            last = kind
    return kept


def _kind(status: Status | None) -> Any:
    if status is None:
        return None
    speculation = status.speculation
    drafters = speculation and (speculation.mode, speculation.drafter, speculation.drafters)
    return status.phase, drafters, tuple(request.phase for request in status.requests), len(status.events)
